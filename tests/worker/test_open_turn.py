"""One turn of a durable run: asked and recorded, replayed, cut, or failed."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from loops.errors import Overloaded, ProviderError, RunLeft, Unauthorized
from loops.events import (
    ModelEvent,
    StreamEnd,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolEnd,
    ToolStart,
)
from loops.messages import Message
from loops.model import ModelRequest
from loops.providers.scripted import call, scripted, text
from worker.journal import RecordedTurn, decode_turn, encode_turn
from worker.open_turn import Ask, DurableTurn
from worker.provider_errors import encode_error

REQUEST = ModelRequest("m", (Message(role="user", content="go"),))


class Desk:
    """Notes what a turn asks of its pass."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.recorded: list[RecordedTurn] = []
        self.ends: list[dict[str, Any]] = []
        self.failed: list[int] = []
        self.usages: list[Any] = []

    def turn_opened(self, turn: DurableTurn) -> None:
        self.opened.append(turn.key)

    async def record_turn(self, turn: DurableTurn, record: bytes, end: dict[str, Any]) -> None:
        self.recorded.append(decode_turn(record, is_complete=True))
        self.ends.append(end)

    def turn_ended(self, turn: DurableTurn) -> None:
        """Nobody wants to know."""

    async def fail_pass(self, turn: DurableTurn) -> None:
        self.failed.append(turn.failures)
        raise RunLeft

    def add_usage(self, turn: DurableTurn, end: StreamEnd) -> None:
        self.usages.append(end.usage)


class Port:
    """A model that gives these events in this order, one list an asking; an error is raised."""

    name = "m"

    def __init__(self, *askings: list[ModelEvent | ProviderError]) -> None:
        self.askings = list(askings)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        for event in self.askings.pop(0):
            if isinstance(event, ProviderError):
                raise event
            yield event


@pytest.fixture
def desk() -> Desk:
    return Desk()


def turn_of(desk: Desk, port: Any, recorded: RecordedTurn | None = None) -> DurableTurn:
    return DurableTurn(desk, "turn:1", 3, asked=Ask(REQUEST, port), recorded=recorded)


async def given(turn: DurableTurn) -> list[ModelEvent]:
    return [event async for event in turn.events()]


START, END = StreamStart("m"), StreamEnd("end_turn")
SAID = [TextStart(0), TextDelta(0, "hi"), TextEnd(0)]
CALLED = [ToolStart(1, "call_0", "mail"), ToolEnd(1, "call_0", "mail", "{}")]


async def test_a_turn_is_given_as_it_is_streamed_with_its_number_and_our_keys(desk: Desk):
    events = await given(turn_of(desk, Port([START, *SAID, *CALLED, END])))

    assert [event.turn for event in events] == [3] * len(events)
    assert not any(event.replayed for event in events)
    assert isinstance(events[-2], ToolEnd)
    assert (events[-2].call, events[-2].id) == ("turn:1.1", "call_0")
    assert events[-2].tool_call.turn == "turn:1"


async def test_a_turn_is_recorded_when_it_is_asked_for_more_than_its_last_event(desk: Desk):
    turn = turn_of(desk, scripted("hi"))
    events = turn.events()
    seen = [await anext(events) for _ in range(5)]
    assert isinstance(seen[-1], StreamEnd)
    assert (desk.opened, desk.recorded) == (["turn:1"], [])

    with pytest.raises(StopAsyncIteration):
        await anext(events)

    [record] = desk.recorded
    assert [type(event) for event in record.events] == [type(event) for event in seen]
    assert (record.number, desk.ends[0]["stop_reason"]) == (3, "end_turn")
    assert len(desk.usages) == 1
    await turn.leave()
    assert len(desk.recorded) == 1


async def test_a_recorded_turn_is_replayed_without_asking_anybody(desk: Desk):
    record = decode_turn(encode_turn(1, [START, *SAID, END]), is_complete=True)

    events = await given(turn_of(desk, Port(), record))

    assert [type(event) for event in events] == [type(e) for e in (START, *SAID, END)]
    assert all(event.replayed and event.turn == 3 for event in events)
    assert (desk.opened, desk.recorded, len(desk.usages)) == ([], [], 1)


async def test_a_recorded_failure_is_raised_again_after_its_events(desk: Desk):
    error = encode_error(Overloaded("busy", status=529))
    record = decode_turn(encode_turn(1, [START, *SAID], error), is_complete=True)
    turn = turn_of(desk, Port(), record)

    with pytest.raises(Overloaded, match="busy") as raised:
        await given(turn)

    assert len(turn.given) == 4
    assert raised.value.status == 529


async def test_a_turn_that_was_cut_is_its_blocks_published_anew_and_ends_as_cut(desk: Desk):
    record = decode_turn(encode_turn(1, [START, *SAID, *CALLED]), is_complete=False)
    turn = turn_of(desk, Port(), record)

    events = await given(turn)

    assert [type(e) for e in events[:-1]] == [type(e) for e in (START, *SAID, *CALLED)]
    assert isinstance(events[-1], StreamEnd)
    assert events[-1].stop_reason == "cut"
    assert not any(event.replayed for event in events)
    assert (desk.opened, desk.ends) == (["turn:1"], [{"stop_reason": "cut"}])
    assert turn.has_started_call


async def test_a_turn_that_is_left_is_what_was_seen_of_it(desk: Desk):
    turn = turn_of(desk, scripted([text("a"), text("b")]))
    events = turn.events()
    for _ in range(4):
        await anext(events)

    await turn.leave()
    await turn.leave()

    [record] = desk.recorded
    assert record.events[-1] == TextEnd(0)
    assert desk.ends == [{"stop_reason": "left"}]


async def test_a_turn_that_nobody_asked_leaves_nothing(desk: Desk):
    await turn_of(desk, scripted("hi")).leave()

    assert (desk.opened, desk.recorded) == ([], [])


async def test_a_provider_that_fails_before_any_output_is_asked_again_in_place(desk: Desk):
    port = Port([Overloaded("busy")], [START, *SAID, END])

    events = await given(turn_of(desk, port))

    assert [type(event) for event in events] == [type(e) for e in (START, *SAID, END)]
    assert (desk.opened, desk.failed) == (["turn:1"], [])
    [record] = desk.recorded
    assert len(record.events) == 5


async def test_a_start_of_a_reply_that_failed_is_no_part_of_the_record(desk: Desk):
    port = Port([START, Overloaded("busy")], [START, *SAID, END])

    await given(turn_of(desk, port))

    [record] = desk.recorded
    assert [type(event) for event in record.events] == [type(e) for e in (START, *SAID, END)]


async def test_a_reply_that_breaks_off_is_a_failure_too(desk: Desk):
    with pytest.raises(RunLeft):
        await given(turn_of(desk, Port([START, *SAID])))

    assert desk.failed == [1]


async def test_a_provider_that_fails_after_output_ends_the_pass(desk: Desk):
    with pytest.raises(RunLeft):
        await given(turn_of(desk, Port([START, *SAID, Overloaded("busy")])))

    assert (desk.failed, desk.recorded) == ([1], [])


@pytest.mark.parametrize("events", [[], [START, *SAID]], ids=["before output", "after output"])
async def test_the_third_failure_is_recorded_with_its_events_and_raised(
    desk: Desk, events: list[ModelEvent]
):
    turn = turn_of(desk, Port([*events, Overloaded("busy")]))
    turn.failures = 2

    with pytest.raises(Overloaded):
        await given(turn)

    [record] = desk.recorded
    assert len(record.events) == len(events)
    assert record.error is not None
    assert (record.error["code"], desk.ends) == ("overloaded", [{"stop_reason": "error"}])
    assert desk.failed == []


async def test_a_failure_that_asking_again_cannot_mend_is_raised_at_once(desk: Desk):
    with pytest.raises(Unauthorized):
        await given(turn_of(desk, Port([START, Unauthorized("who are you")])))

    [record] = desk.recorded
    assert record.error is not None
    assert record.error["code"] == "unauthorized"


@pytest.mark.parametrize("error", [Overloaded("busy"), Unauthorized("who are you")])
async def test_a_turn_of_which_a_call_was_started_is_never_asked_again(
    desk: Desk, error: ProviderError
):
    turn = turn_of(desk, Port([START, *CALLED, error]))
    turn.failures = 2
    events = turn.events()
    for _ in range(3):
        await anext(events)
    turn.has_started_call = True

    with pytest.raises(RunLeft):
        await anext(events)

    assert (desk.failed, desk.recorded) == ([3], [])


async def test_a_part_ends_with_the_block_of_its_call(desk: Desk):
    turn = turn_of(desk, scripted([text("a"), call("mail"), text("b"), call("mail")]))
    lengths: dict[int, int] = {}
    async for event in turn.events():
        if isinstance(event, ToolEnd):
            lengths[event.block] = turn.part(event.block)[0]

    first, second = turn.part(1), turn.part(3)

    assert (first[0], second[0]) == (lengths[1], lengths[3])
    for length, record in (first, second):
        part = decode_turn(record, is_complete=False)
        assert len(part.events) == length
        assert isinstance(part.events[-1], ToolEnd)
    assert decode_turn(first[1], is_complete=False).events[-1].block == 1
