import pytest

from api.cursors import SessionCursor, given, run_cursor, session_cursor, wanted_types
from api.errors import Refusal

NONSENSE = [
    "abc", "-", "+", "$", ">", "-1", "+1", " 1", "1 ", "1.0", "1-2-3", "1-0", "1e3", "0x1",
    "9" * 40, "1\r\n2", "1\0", "٣", "run_1", "*",
]  # fmt: skip


@pytest.mark.parametrize("text", NONSENSE)
def test_a_cursor_that_is_no_whole_number_is_refused(text: str) -> None:
    with pytest.raises(Refusal, match="cursor") as refused:
        run_cursor(text)

    assert refused.value.status == 400


@pytest.mark.parametrize("text", [*(t for t in NONSENSE if t != "1.0"), "1", "1.2.3", ".1", "1."])
def test_a_session_cursor_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(Refusal, match="cursor"):
        session_cursor(text)


def test_a_cursor_is_the_seq_that_was_read_last() -> None:
    assert run_cursor("0") == 0
    assert run_cursor("42") == 42


def test_a_session_cursor_is_read_as_it_is_written() -> None:
    assert session_cursor("3.12") == SessionCursor(3, 12)
    assert session_cursor(str(SessionCursor(3, 12))) == SessionCursor(3, 12)
    assert session_cursor("0") == SessionCursor(0, 0)


def test_the_header_beats_the_query() -> None:
    assert given({"last-event-id": "7"}, {"after": "3"}) == "7"
    assert given({"last-event-id": ""}, {"after": "3"}) == "3"
    assert given({}, {"after": "3"}) == "3"
    assert given({}, {}) == "0"


def test_types_are_a_list_of_names() -> None:
    assert wanted_types(None) is None
    assert wanted_types("text.delta,custom.my-thing") == frozenset(
        {"text.delta", "custom.my-thing"}
    )


@pytest.mark.parametrize("text", ["", "a,", "a b", "a\n", "*", "ä", ",".join(["a"] * 101)])
def test_types_that_no_event_can_have_are_refused(text: str) -> None:
    with pytest.raises(Refusal, match="types"):
        wanted_types(text)
