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


@pytest.mark.parametrize(
    ("outcome", "claimed", "line"),
    [
        ("again", [1], "↻ a callback has answered 1 call; asked again\n"),
        ("closed", [0, 2], "· turn ended, without 2 calls of the reply\n"),
        ("cut", [], "! the provider broke off\n"),
        ("final", [], ""),
    ],
)
def test_the_rounds_of_a_gateways_run_are_told(outcome: str, claimed: list[int], line: str) -> None:
    value = {"type": "round", "outcome": outcome, "claimed": claimed}
    assert told("custom.round", name="round", value=value) == line


@pytest.mark.parametrize(
    ("name", "line"), [("plan:0:1:Lookup", "· plan of Lookup\n"), ("word 0", ""), ("a:b", "")]
)
def test_of_steps_the_plans_of_callbacks_are_told(name: str, line: str) -> None:
    assert told("step.finished", name=name) == line
