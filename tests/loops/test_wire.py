from dataclasses import dataclass, fields
from typing import Any, get_args

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops import events as ai_events
from loops.errors import BadYield
from loops.events import (
    AgentEvent,
    Custom,
    Event,
    HookEvent,
    Ping,
    ReasoningDelta,
    RunFailed,
    StreamEnd,
    TextDelta,
    ToolCallResult,
    Unknown,
)
from loops.messages import Usage
from loops.wire import RUNTIME_TYPES, as_event, decode, encode, plain_value, wire_type

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NAMES = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
COUNTS = st.none() | st.integers(0, 10**9)
USAGES = st.builds(Usage, input_tokens=COUNTS, output_tokens=COUNTS)
OBJECTS = st.dictionaries(NAMES, JSON, max_size=3)
KINDS: list[type[Event]] = [
    kind for kind in get_args(AgentEvent) if kind not in {Unknown, HookEvent, Custom}
]


def values_of(kind: type[Event]) -> dict[str, st.SearchStrategy[Any]]:
    special: dict[str, st.SearchStrategy[Any]] = {
        "usage": st.none() | USAGES,
        "hooks": st.lists(TEXT, max_size=3),
        "value": JSON,
        "content": JSON,
        "is_error": st.booleans(),
        "frames": st.lists(st.lists(TEXT, min_size=2, max_size=2), max_size=3),
    }
    numbers = {"block", "attempt", "pid", "output_length", "after"}
    return {
        each.name: special.get(each.name, st.integers(0, 999) if each.name in numbers else TEXT)
        for each in fields(kind)
        if each.name not in {"replayed", "snapshot", "turn"}
    }


TURNS = st.none() | st.integers(1, 99)
EVENTS: st.SearchStrategy[Any] = st.one_of(
    *(st.builds(kind, **values_of(kind), turn=TURNS) for kind in KINDS),
    st.builds(Custom, NAMES, JSON, turn=TURNS),
    st.builds(Unknown, st.just("star.born"), OBJECTS, turn=TURNS),
    st.builds(
        HookEvent,
        TEXT,
        st.sampled_from(["opened", "resolved", "expired", "cancelled"]),
        payload=st.none() | OBJECTS,
        resolution=JSON,
        turn=TURNS,
    ),
)


@given(EVENTS)
def test_an_event_comes_back_from_the_wire_as_it_was(event: AgentEvent) -> None:
    kind, data = encode(event)

    assert decode(kind, orjson.loads(orjson.dumps(data)), turn=event.turn) == event


@given(EVENTS)
def test_the_type_on_the_wire_is_that_of_the_event(event: AgentEvent) -> None:
    assert encode(event)[0] == wire_type(event)


def test_no_two_kinds_have_one_type() -> None:
    types = [kind.type for kind in KINDS]

    assert len(types) == len(set(types))


def test_every_kind_can_be_named_by_users() -> None:
    assert all(kind.__name__ in ai_events.__all__ for kind in get_args(AgentEvent))


def test_what_stays_in_memory_is_not_sent() -> None:
    event = TextDelta(0, "x", turn=3, replayed=True)

    assert encode(event) == ("text.delta", {"block": 0, "text": "x"})


def test_the_sentence_of_a_failed_run_is_its_message() -> None:
    assert encode(RunFailed(code="loop_failed", error="it broke")) == (
        "run.failed",
        {"code": "loop_failed", "message": "it broke"},
    )


def test_an_event_of_a_newer_writer_is_kept() -> None:
    event = decode("star.born", {"mass": 3}, turn=2)

    assert event == Unknown("star.born", {"mass": 3}, turn=2)
    assert encode(event) == ("star.born", {"mass": 3})


def test_fields_of_a_newer_writer_are_passed_over() -> None:
    assert decode("text.delta", {"block": 1, "text": "x", "bold": True}) == TextDelta(1, "x")


def test_the_names_of_hooks_and_custom_events_are_part_of_their_type() -> None:
    hook, custom = HookEvent("approve", "opened"), Custom("step", {"step": 1})

    assert encode(hook) == ("hook.opened", {"label": "approve"})
    assert encode(custom) == ("custom.step", {"value": {"step": 1}})
    assert [decode(*encode(event)) for event in (hook, custom)] == [hook, custom]


def test_half_a_character_does_not_stop_an_event() -> None:
    kind, data = encode(TextDelta(0, "half \ud83d"))

    assert (kind, orjson.dumps(data)) == ("text.delta", '{"block":0,"text":"half \ufffd"}'.encode())


def test_replay_and_message_do_not_make_events_different() -> None:
    assert TextDelta(0, "x", replayed=True) == TextDelta(0, "x")


def test_the_runtime_publishes_only_what_the_model_and_the_tools_did_not_say() -> None:
    spoken = {"text.", "reasoning.", "call.", "builtin.", "file", "custom."}

    assert not [kind for kind in RUNTIME_TYPES for word in spoken if kind.startswith(word)]
    assert "tool.finished" not in RUNTIME_TYPES
    assert {"turn.started", "tool.progress", "hook.opened", "run.failed"} <= RUNTIME_TYPES


@dataclass(frozen=True)
class Turn:
    content: list[Any]
    stop_reason: str
    input: int = 0
    output: int = 0


@pytest.mark.parametrize(
    ("yielded", "event"),
    [
        (TextDelta(2, "x"), TextDelta(2, "x")),
        ("x", TextDelta(0, "x")),
        ({"type": "text", "text": "x"}, TextDelta(0, "x")),
        ({"type": "thinking", "thinking": "hm"}, ReasoningDelta(0, "hm")),
        ({"type": "ping"}, Ping()),
        ({"type": "step", "step": "look"}, Custom("step", {"type": "step", "step": "look"})),
        ({"type": "text", "text": 3}, Custom("text", {"type": "text", "text": 3})),
        (Turn([], "end_turn"), None),
    ],
)
def test_what_a_loop_yields_is_made_an_event(yielded: object, event: AgentEvent | None) -> None:
    assert as_event(yielded) == event


@pytest.mark.parametrize("yielded", [None, 3, {}, {"type": 3}, {"type": ""}, object(), ["x"]])
def test_what_is_no_event_is_refused_by_its_value(yielded: object) -> None:
    with pytest.raises(BadYield, match="it yielded"):
        as_event(yielded)


def test_a_huge_wrong_value_is_shown_in_part() -> None:
    with pytest.raises(BadYield) as caught:
        as_event(["x" * 10_000])

    assert len(str(caught.value)) < 400


def test_an_event_that_a_tool_gives_becomes_its_wire_form() -> None:
    assert plain_value(TextDelta(0, "x", turn=1)) == {
        "type": "text.delta",
        "data": {"block": 0, "text": "x"},
    }
    assert plain_value({1}) == [1]


def test_an_object_that_a_tool_gives_and_json_cannot_say_is_refused() -> None:
    with pytest.raises(TypeError, match="no form for an object of the class 'object'"):
        plain_value([object()])


def test_usage_is_sent_without_what_is_unknown() -> None:
    event = StreamEnd("end_turn", Usage(input_tokens=3))

    assert encode(event)[1] == {"stop_reason": "end_turn", "usage": {"input_tokens": 3}}


def test_a_result_event_carries_the_result() -> None:
    event = ToolCallResult("turn:1.0", "a", "add", 3, turn=1)

    assert ToolCallResult.of(event.result, turn=1) == event
