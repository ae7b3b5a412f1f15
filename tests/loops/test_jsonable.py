import math
import threading
from collections import deque
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from uuid import UUID

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from loops.jsonable import (
    MAX_TEXT,
    bounded,
    clean_text,
    cut_text,
    fit,
    jsonable,
    parse_object,
    strictly_jsonable,
)


class Colour(Enum):
    RED = "red"


class Size(IntEnum):
    BIG = 3


class Person(BaseModel):
    name: str
    born: date


@dataclass
class Point:
    x: float
    tags: set[str]


class Silent:
    def __str__(self) -> str:
        return "silent"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02T03:04:05+00:00"),
        (timedelta(minutes=2), 120.0),
        (b"abc", "YWJj"),
        ({3, 1, 2}, [1, 2, 3]),
        (deque([1, 2]), [1, 2]),
        ({"a": 1}.keys(), ["a"]),
        ({"a": 1}.items(), [["a", 1]]),
        ({(1, 2): "pair", 1.5: "half"}, {"(1, 2)": "pair", "1.5": "half"}),
        (Decimal("1.10"), "1.10"),
        (complex(1, 2), "(1+2j)"),
        ((1, "x"), [1, "x"]),
        ({1: "one", None: "no", Colour.RED: 2}, {"1": "one", "null": "no", "red": 2}),
        (Colour.RED, "red"),
        (Size.BIG, 3),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        (2**70, str(2**70)),
        (Person(name="Ada", born=date(1815, 12, 10)), {"name": "Ada", "born": "1815-12-10"}),
        (Point(1.5, {"b", "a"}), {"x": 1.5, "tags": ["a", "b"]}),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Silent(), "silent"),
        ("half \ud83d", "half \ufffd"),
    ],
)
def test_any_value_gets_a_form_that_json_can_carry(value: object, expected: object) -> None:
    assert jsonable(value) == expected
    assert strictly_jsonable(value) == expected


class Mute:
    """What says nothing of itself."""


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (Mute(), f"{__name__}.Mute"),
        ({"a": [Mute()]}, f"{__name__}.Mute"),
        ({Mute(): 1}, f"{__name__}.Mute"),
        (Mute, "type"),
        (len, "builtin_function_or_method"),
        (iter([1]), "list_iterator"),
        (threading.Lock(), "_thread.lock"),
    ],
    ids=["object", "inside", "key", "class", "function", "iterator", "lock"],
)
def test_what_only_its_address_would_tell_is_refused_with_its_class(
    value: object, name: str
) -> None:
    with pytest.raises(TypeError, match=f"class '{name}'; give text, .* or a pydantic model"):
        strictly_jsonable(value)

    assert orjson.dumps(jsonable(value))


def test_a_number_of_a_million_digits_is_given_in_hexadecimal() -> None:
    assert jsonable(16**20_000).startswith("0x1000")


def test_a_value_that_holds_itself_comes_to_an_end() -> None:
    circle: list[object] = []
    circle.append(circle)

    assert jsonable(circle) == ["[list: nested too deeply]"]


def test_a_value_that_is_nested_without_end_is_cut() -> None:
    deep: list[object] = []
    for _ in range(10_000):
        deep = [deep]

    assert b"nested too deeply" in orjson.dumps(jsonable(deep))


def test_long_text_is_cut_with_its_true_length() -> None:
    cut = bounded("x" * (MAX_TEXT + 1))

    assert cut.endswith(f"[cut: {MAX_TEXT + 1} characters in all, the first {MAX_TEXT} are shown]")


def test_a_long_value_is_cut_as_its_json_text() -> None:
    assert bounded({"a": "x" * 100}, limit=10).startswith('{"a":"xxxx\n[cut: 108 characters')


@pytest.mark.parametrize(
    ("value", "fitted"),
    [
        ("a\0b", "a\ufffdb"),
        ({"a\0": ["\0", {"b": "\ud83d"}]}, {"a\ufffd": ["\ufffd", {"b": "\ufffd"}]}),
        ("\ud83d\ude00\x1b\n\t", "😀\x1b\n\t"),
        (1, 1),
    ],
)
def test_what_no_model_or_store_takes_is_replaced(value: object, fitted: object) -> None:
    assert fit(value) == bounded(value) == fitted


def test_short_values_are_left_alone() -> None:
    assert bounded({"a": [1, 2]}) == {"a": [1, 2]}
    assert cut_text("short", 10) == "short"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a":', "Expecting value"),
        ("[1]", "a JSON array, not an object"),
        ('"x"', "a JSON string, not an object"),
        ("1", "a JSON number, not an object"),
        ("null", "a JSON null, not an object"),
        ('{"a": NaN}', "NaN is no JSON number"),
        ('{"a":' * 100_000, "nested too deeply"),
    ],
)
def test_a_text_that_is_no_object_is_refused_with_the_real_problem(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_object(text)


def test_an_empty_text_is_an_empty_object() -> None:
    assert parse_object("  ") == {}


def test_an_escaped_half_character_is_replaced() -> None:
    assert parse_object('{"a": "\\ud83d"}') == {"a": "\ufffd"}


@given(st.text(st.characters(codec=None)))
def test_clean_text_can_always_be_sent(text: str) -> None:
    assert len(clean_text(text).encode()) >= len(text) / 2


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=20,
)


@given(VALUES)
def test_what_comes_out_is_json_and_stays_as_it_is(value: object) -> None:
    converted = jsonable(value)

    assert orjson.loads(orjson.dumps(converted)) == converted
    assert jsonable(converted) == converted
