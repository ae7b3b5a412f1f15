import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.demo.expressions import read_request, read_words, readings
from api.demo.json_lines import read_json
from api.demo.masks import Reading
from tests.demo.grep import grep_count
from tests.demo.lines import JSON_LINES, LINES, LONG_LINES, REQUESTS, WORDS

Read = Callable[[bytes], Reading | None]


def holds(read: Read, one: bytes, other: bytes) -> None:
    """The law: a line has an expression exactly when it matches it."""
    reading = read(one)
    if reading is None:
        return
    pattern = re.compile(reading.expression.encode("latin-1"))
    assert pattern.search(one)
    found = read(other)
    assert (found is not None and found.expression == reading.expression) == bool(
        pattern.search(other)
    )


@settings(max_examples=600)
@given(LINES, LINES)
def test_words_keep_the_law(one: bytes, other: bytes) -> None:
    holds(read_words, one, other)


@settings(max_examples=300)
@given(LONG_LINES, st.lists(WORDS, max_size=3), st.integers(0, 40))
def test_words_keep_the_law_where_an_expression_is_cut(
    line: bytes, tail: list[bytes], place: int
) -> None:
    words = line.split(b" ")

    holds(read_words, line, b" ".join([*words[:place], *tail, *words[place + 1 :]]))
    holds(read_words, line, b" ".join([*words, *tail]))


@settings(max_examples=600)
@given(JSON_LINES, JSON_LINES)
def test_json_keeps_the_law(one: bytes, other: bytes) -> None:
    holds(read_json, one, other)


@settings(max_examples=200)
@given(REQUESTS, REQUESTS)
def test_requests_keep_the_law(one: bytes, other: bytes) -> None:
    holds(read_request, one, other)


@settings(max_examples=15, deadline=None)
@given(st.lists(LINES | LONG_LINES | JSON_LINES | REQUESTS, min_size=20, max_size=60))
def test_grep_counts_what_we_count(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]
) -> None:
    file = tmp_path_factory.mktemp("grep") / "some.log"
    file.write_bytes(b"".join(line + b"\n" for line in lines))

    counts: dict[str, int] = {}
    for line in lines:
        for reading in readings(line):
            counts[reading.expression] = counts.get(reading.expression, 0) + 1

    assert {expression: grep_count(expression, file) for expression in counts} == counts


@pytest.mark.parametrize(
    ("line", "title"),
    [
        (b"2026-03-14 03:12:00 ERROR [shop.cart] order 17 lost", "ERROR [shop.cart] order # lost"),
        (b"Mar  4 03:12:00 db-1 pg[7]: FATAL:  too many clients", "FATAL:  too many clients"),
        (b"KeyError: 'email'", "KeyError: 'email'"),
        (
            b"Caused by: java.io.IOException: broken pipe",
            "Caused by: java.io.IOException: broken pipe",
        ),
        (b'{"level":"error","msg":"try 3 failed"}', "try # failed"),
        (b'1.2.3.4 - - [14/Mar/2026] "GET /a HTTP/1.1" 502 0', "requests answered 502"),
        (b"time=2026-03-14T03:12:00Z level=fatal job=j1", "level=fatal #"),
    ],
)
def test_an_error_is_named_without_what_varies(line: bytes, title: str) -> None:
    assert [reading.title for reading in readings(line)] == [title]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"2026-03-14 INFO recount finished: 0 errors",
        b"INFO retried after TimeoutError: it went well",
        b'{"level":"info","msg":"no error"}',
        b'{"level": error}',
        b'{"level":"error","msg":"cut in the mid',
        b'1.2.3.4 - - [14/Mar/2026] "GET /errors HTTP/1.1" 200 502',
    ],
)
def test_talk_of_errors_is_no_error(line: bytes) -> None:
    assert [*readings(line)] == []


def test_the_samples_kinds_are_counted_as_grep_counts_them(samples: Path) -> None:
    files = [path for path in samples.rglob("*") if path.is_file()]
    counts: dict[str, int] = {}
    for file in files:
        for line in file.read_bytes().splitlines():
            for reading in readings(line):
                counts[reading.expression] = counts.get(reading.expression, 0) + 1

    assert len(counts) >= 20
    assert {expression: grep_count(expression, *files) for expression in counts} == counts
