import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api import sse
from tests.api.reading import read

TEXTS = st.text()
CONTENTS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
EVENTS = st.lists(st.tuples(TEXTS, CONTENTS), min_size=1, max_size=5)


def stream_of(events: list[tuple[str, object]]) -> bytes:
    return b"".join(
        sse.frame(b"%d" % seq, name, orjson.dumps({"content": content}))
        for seq, (name, content) in enumerate(events, 1)
    )


@given(EVENTS)
def test_any_event_survives_a_reader_of_the_standard(events: list[tuple[str, object]]) -> None:
    found = read(stream_of(events))

    assert [orjson.loads(data)["content"] for _, data, _ in found.events] == [c for _, c in events]
    assert [position for _, _, position in found.events] == [
        str(seq) for seq in range(1, len(events) + 1)
    ]


@given(EVENTS, st.data())
def test_a_stream_reads_the_same_wherever_it_is_cut(
    events: list[tuple[str, object]], data: st.DataObject
) -> None:
    body = stream_of(events)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=6)))

    reader = sse.Reader()
    pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    found = [message for piece in pieces for message in reader.feed(piece)]

    assert [(m.event, m.data, m.last_id) for m in found] == read(body).events


HOSTILE = ["x\nevent: run.completed\ndata: {}\n\n", "a\rb", "a\r\nb", "\0", "", ": x", "a\u2028b"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_cannot_forge_a_frame(name: str) -> None:
    body = sse.frame(b"7", name, b"{}")

    ((_, data, position),) = read(body).events

    assert (data, position) == ("{}", "7")


@pytest.mark.parametrize("line", [b"a\nb", b"a\rb", b"\n"])
def test_data_of_more_than_one_line_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match="one line each"):
        sse.frame(b"1", "text.delta", line)


@pytest.mark.parametrize("position", [b"", b"1\n2", b"x", b"1\0", b"-1"])
def test_a_position_that_is_none_is_refused(position: bytes) -> None:
    with pytest.raises(ValueError, match="not"):
        sse.frame(position, "text.delta", b"{}")
    with pytest.raises(ValueError, match="not"):
        sse.position_only(position)


def test_a_heartbeat_between_frames_is_no_event() -> None:
    body = sse.frame(b"1", "a", b"1") + sse.HEARTBEAT + sse.frame(b"2", "b", b"2")

    assert [data for _, data, _ in read(body).events] == ["1", "2"]
    assert sse.HEARTBEAT.count(b"\n") == 1


def test_a_frame_with_a_position_alone_moves_the_reader_and_shows_nothing() -> None:
    reader = sse.Reader()

    found = list(reader.feed(sse.frame(b"1", "a", b"1") + sse.position_only(b"9")))

    assert [message.last_id for message in found] == ["1"]
    assert reader.last_id == "9"


ODDITIES = [
    (b"\xef\xbb\xbfdata: a\n\n", ["a"]),
    (b"data: a\n\ndata: unfinished", ["a"]),
    (b"data: a\n\ndata: unfinished\n", ["a"]),
    (b"unknown: x\nretry: abc\ndata: a\n\n", ["a"]),
    (b"id: 1\0\ndata: a\n\n", ["a"]),
    (b"data: a\r\ndata: b\r\rdata: c\n\n", ["a\nb", "c"]),
    (b"data\n\n", [""]),
    (b"data:  two\n\n", [" two"]),
    (b"\n\ndata: a\n\n", ["a"]),
]


@pytest.mark.parametrize(("body", "expected"), ODDITIES)
def test_an_odd_stream_is_read_as_browsers_do_at_any_cut(body: bytes, expected: list[str]) -> None:
    for cut in range(len(body) + 1):
        reader = sse.Reader()

        found = [*reader.feed(body[:cut]), *reader.feed(body[cut:])]

        assert [message.data for message in found] == expected, f"cut at {cut}"


def test_the_wished_pause_is_known_from_the_first_frame() -> None:
    reader = sse.Reader()

    found = list(reader.feed(sse.RETRY + sse.frame(b"1", "a", b"1")))

    assert reader.retry == 1000
    assert len(found) == 1
