import io
from typing import Any

import pytest

from api.client import Seen
from api.telling import Teller, in_a_line, reason_of


def told(type_: str, **fields: Any) -> str:
    lines = io.StringIO()
    Teller(io.StringIO(), lines).tell(Seen(type_, fields, "1"))
    return lines.getvalue()


@pytest.mark.parametrize(
    ("code", "message", "reason"),
    [
        ("timed_out", "RunTimedOut: it took too long", "timed_out: it took too long"),
        ("rate_limited", "RateLimited: slow down: now", "rate_limited: slow down: now"),
        (
            "loop_failed",
            "the loop raised ValueError: no",
            "loop_failed: the loop raised ValueError: no",
        ),
        ("worker_lost", "ValueError: no", "worker_lost: ValueError: no"),
        ("timed_out", "", "timed_out"),
    ],
)
def test_a_reason_is_said_once(code: str, message: str, reason: str) -> None:
    assert reason_of({"code": code, "message": message}) == reason
    assert told("run.failed", code=code, message=message) == f"! run failed: {reason}\n"


def test_what_is_too_long_ends_with_an_ellipsis() -> None:
    assert in_a_line("a\n  b") == "a b"
    assert in_a_line("x" * 100) == "x" * 100
    assert in_a_line("x" * 101) == f"{'x' * 99}…"
    shown = told("tool.finished", call="k", name="t", is_error=True, content="y" * 500)
    assert shown == f"⇠ tool t failed: {'y' * 99}…\n"
