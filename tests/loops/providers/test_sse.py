"""Server-sent events, cut from bytes in whatever pieces they come."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.errors import Unavailable
from loops.providers import sse
from loops.providers.sse import Frame, SseParser

STREAM = (
    "event: greeting\ndata: hé\u2028llo\n\n: a comment\n\ndata:one\ndata: two\nid: 7\nretry: 10\n\n"
    "event: nothing\n\ndata\n\nunknown: field\ndata:  padded\n\n"
)
FRAMES = [
    (b"greeting", "hé\u2028llo".encode()),
    (b"", b"one\ntwo"),
    (b"", b""),
    (b"", b" padded"),
]


def parsed(*chunks: bytes) -> list[Frame]:
    parser = SseParser()
    return [frame for chunk in chunks for frame in parser.feed(chunk)]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted(place % (len(data) + 1) for place in places)
    return [data[start:end] for start, end in zip([0, *ends], [*ends, len(data)], strict=True)]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@given(places=st.lists(st.integers(0, 10_000), max_size=20))
def test_the_same_bytes_in_any_pieces_are_the_same_events(end: str, places: list[int]) -> None:
    data = STREAM.replace("\n", end).encode()

    assert parsed(*cut(data, places)) == FRAMES


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_byte_by_byte(end: str) -> None:
    data = STREAM.replace("\n", end).encode()

    assert parsed(*(data[at : at + 1] for at in range(len(data)))) == FRAMES


LINES = st.sampled_from(
    [b"", b"data: x", b"data:y", b"data:  z", b"data:", b"data", b" data: x", b"datas: x",
     b"event: a", b"event:b", b"event:", b"event", b"events: a", b": said", b":", b"id: 7"]
)  # fmt: skip


def told(lines: list[bytes]) -> list[Frame]:
    """The standard's own steps, a line at a time."""
    frames: list[Frame] = []
    name, data = b"", list[bytes]()
    for line in lines:
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
        elif not line:
            frames += [(name, b"\n".join(data))] if data else []
            name, data = b"", []
    return frames


@given(
    lines=st.lists(LINES, max_size=20),
    end=st.sampled_from([b"\n", b"\r\n", b"\r"]),
    places=st.lists(st.integers(0, 200), max_size=5),
)
def test_any_lines_are_the_events_that_the_standard_says(
    lines: list[bytes], end: bytes, places: list[int]
) -> None:
    data = b"".join(line + end for line in lines)

    assert parsed(*cut(data, places)) == told(lines)


@given(places=st.lists(st.integers(0, 10), max_size=4))
def test_a_byte_order_mark_is_passed_over(places: list[int]) -> None:
    assert parsed(*cut(b"\xef\xbb\xbfdata: x\n\n", places)) == [(b"", b"x")]


def test_a_mark_later_on_is_data() -> None:
    assert parsed(b"data: x\n\n", b"data: \xef\xbb\xbfy\n\n")[1][1] == b"\xef\xbb\xbfy"


def test_what_the_stream_breaks_off_with_is_no_event() -> None:
    assert parsed(b"data: x\n\ndata: y\n") == [(b"", b"x")]


def test_an_event_that_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "LONGEST", 1000)
    parser = SseParser()

    for _ in range(17):
        parser.feed(b"data: " + b"x" * 50)
    with pytest.raises(Unavailable, match="more than 1000 bytes"):
        parser.feed(b"x" * 100)


def test_many_short_events_are_not_one_long_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "LONGEST", 1000)

    assert len(parsed(*[b"data: " + b"x" * 90 + b"\n\n"] * 100)) == 100
