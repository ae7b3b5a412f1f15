"""The fold that knows when a run waits for nothing but hooks, event by event."""

from loops.blocked import BlockedFold
from loops.events import (
    HookEvent,
    Retry,
    RunBlocked,
    StreamEnd,
    StreamStart,
    TextDelta,
    ToolCallResult,
    ToolEnd,
)
from loops.reply import Event


def fed(*events: Event) -> tuple[BlockedFold, list[RunBlocked]]:
    fold = BlockedFold()
    told = [fold.feed(event) for event in events]  # type: ignore[arg-type]  # all are events of a run
    return fold, [each for each in told if each is not None]


def begin(turn: int = 1) -> StreamStart:
    return StreamStart("m", turn=turn)


def end(turn: int = 1) -> StreamEnd:
    return StreamEnd("tool_use", turn=turn)


def called(key: str, turn: int = 1) -> ToolEnd:
    return ToolEnd(0, f"id_{key}", "t", "{}", key, turn=turn)


def result(key: str) -> ToolCallResult:
    return ToolCallResult(key, f"id_{key}", "t", "ok")


def opened(label: str, call: str | None = None) -> HookEvent:
    return HookEvent(label, "opened", call=call)


def closed(label: str) -> HookEvent:
    return HookEvent(label, "resolved")


def test_82_a_hook_of_the_loop_blocks_once_the_reply_has_ended() -> None:
    _, told = fed(begin(), end(), opened("ship"), TextDelta(0, "x"))

    assert told == [RunBlocked(["ship"])]


def test_86_a_hook_inside_of_a_tool_that_does_not_name_its_call_blocks_nothing() -> None:
    _, told = fed(begin(), called("a"), end(), opened("ship"))

    assert told == []


def test_87_before_any_reply_has_ended_nothing_is_blocked() -> None:
    assert fed(opened("ship"))[1] == []
    assert fed(begin(), opened("ship"))[1] == []


def test_88_a_hook_that_opens_while_the_reply_is_written_blocks_when_the_others_settle() -> None:
    fold, told = fed(begin(), called("a"), opened("x", "a"), called("b"), end())
    assert told == []

    assert fold.feed(result("b")) == RunBlocked(["x"])
    assert fold.feed(closed("x")) is None
    assert not fold.is_blocked


def test_89_a_reply_that_is_asked_for_again_begins_anew() -> None:
    _, told = fed(begin(), called("a"), Retry(1), begin(), end(), opened("ship"))

    assert told == [RunBlocked(["ship"])]


def test_90_so_does_one_that_had_ended() -> None:
    fold, told = fed(begin(), called("a"), end(), Retry(1))
    assert told == []

    assert fold.feed(begin()) is None
    assert fold.feed(end()) is None
    assert fold.feed(opened("ship")) == RunBlocked(["ship"])


def test_a_call_is_named_by_our_key_or_by_the_providers_id() -> None:
    assert fed(begin(), called("a"), end(), opened("x", "a"))[1] == [RunBlocked(["x"])]
    assert fed(begin(), called("a"), end(), opened("x", "id_a"))[1] == [RunBlocked(["x"])]


def test_a_new_reply_is_not_blocked_by_what_was() -> None:
    fold, _ = fed(begin(), end(), opened("ship"), begin(2))

    assert not fold.is_blocked
