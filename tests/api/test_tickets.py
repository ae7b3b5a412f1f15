from datetime import UTC, datetime

import pytest

from api.tickets import Ticket, is_signed, issue, read

KEY, OTHER = b"k" * 32, b"o" * 32
TICKET = Ticket("0123456789abcdef", "run_1", datetime(2030, 1, 1, tzinfo=UTC))


def test_a_ticket_reads_as_it_was_issued() -> None:
    text = issue(TICKET, KEY)

    assert read(text) == TICKET
    assert is_signed(text, KEY)


def test_a_ticket_of_another_key_is_not_signed() -> None:
    assert not is_signed(issue(TICKET, OTHER), KEY)


def test_no_single_character_of_a_ticket_can_be_changed() -> None:
    text = issue(TICKET, KEY)

    for at in range(len(text)):
        changed = text[:at] + ("x" if text[at] != "x" else "y") + text[at + 1 :]
        assert not is_signed(changed, KEY), f"changed at {at}"


@pytest.mark.parametrize(
    "text", ["", "a", "a.b", "a.b.c.d", "a.b.-1.d", "a.b.999999999999999.d", "a.b.1.c.d", "ä.ö.1.ü"]
)
def test_what_is_no_ticket_is_none_and_never_an_error(text: str) -> None:
    assert read(text) is None or not is_signed(text, KEY)
