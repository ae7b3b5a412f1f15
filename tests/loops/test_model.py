import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from loops.errors import BadYield, Incomplete, LoopFailed, RunLeft, SetupError, Timeout
from loops.events import (
    Custom,
    ModelEvent,
    StreamEnd,
    StreamStart,
    TextDelta,
    ToolEnd,
    ToolStart,
)
from loops.messages import as_message
from loops.model import ModelRequest, ask, bind, register_provider, resolve_model, stamp
from loops.providers.scripted import scripted
from loops.testing import collect

REQUEST = ModelRequest("scripted", (as_message("hi"),))


class Port:
    """A port that yields what it is given, and says when it was closed."""

    name = "port"

    def __init__(self, *events: ModelEvent) -> None:
        self.events = events
        self.is_closed = False

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        try:
            for event in self.events:
                yield event
        finally:
            self.is_closed = True


async def test_a_reply_is_given_up_to_its_end() -> None:
    port = Port(StreamStart("m"), StreamEnd(), TextDelta(0, "more"))

    assert await collect(ask(port, REQUEST)) == [StreamStart("m"), StreamEnd()]
    assert port.is_closed


async def test_a_reply_without_an_end_is_incomplete_and_may_be_asked_again() -> None:
    port = Port(StreamStart("m"), TextDelta(0, "x"))

    with pytest.raises(Incomplete, match="'port' broke off") as caught:
        await collect(ask(port, REQUEST))

    assert caught.value.retryable


class Wild:
    """A port of one's own: it yields and raises whatever it is given."""

    name = "wild"

    def __init__(self, *things: object) -> None:
        self.things = things
        self.is_closed = False

    async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        try:
            for each in self.things:
                if isinstance(each, BaseException):
                    raise each
                yield each
        finally:
            self.is_closed = True


@pytest.mark.parametrize("thing", ["hello", {"type": "text"}, None, Custom("x"), 3], ids=repr)
async def test_what_a_port_yields_that_is_no_event_of_a_reply_is_refused(thing: object) -> None:
    port = Wild(StreamStart("m"), thing)

    with pytest.raises(BadYield, match=re.escape(f"'wild' yielded {thing!r}, which is no event")):
        await collect(ask(port, REQUEST))

    assert port.is_closed


async def test_what_httpx_says_of_a_service_may_be_asked_again() -> None:
    error = httpx.ConnectTimeout("slow")

    with pytest.raises(Timeout, match="'wild' did not answer in time: ConnectTimeout: slow") as it:
        await collect(ask(Wild(StreamStart("m"), error), REQUEST))

    assert it.value.retryable
    assert it.value.__cause__ is error


async def test_a_fault_of_a_port_is_named() -> None:
    error = KeyError("choices")

    with pytest.raises(LoopFailed, match="the model port 'wild' raised KeyError: 'choices'") as it:
        await collect(ask(Wild(error), REQUEST))

    assert it.value.__cause__ is error


@pytest.mark.parametrize("error", [RunLeft(), SetupError("x"), Incomplete("x")], ids=repr)
async def test_our_own_errors_and_signals_leave_a_port_as_they_are(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught:
        await collect(ask(Wild(error), REQUEST))

    assert caught.value is error


class Awaited:
    """A port that forgets to yield."""

    name = "awaited"

    async def stream(self, request: ModelRequest) -> None: ...


class Listed(Awaited):
    """A port that gives a list."""

    def stream(self, request: ModelRequest) -> list[object]:  # type: ignore[override]  # that is the point
        return []


@pytest.mark.parametrize(("port", "given"), [(Awaited(), "coroutine"), (Listed(), "list")])
async def test_a_port_whose_stream_gives_no_events_is_named(port: Any, given: str) -> None:
    with pytest.raises(SetupError, match=f"'awaited' gives a {given} and no events; write async"):
        await collect(ask(port, REQUEST))


class Mute:
    """A port without a stream."""

    name = "mute"


@pytest.mark.parametrize(
    ("port", "problem"),
    [
        (Mute(), "the model port 'mute' has no stream; write async def stream"),
        (Port, "the model port 'Port' is a class; give an instance"),
        (3, "is a port with a name and a stream; not 3"),
    ],
)
def test_what_is_no_port_is_refused(port: Any, problem: str) -> None:
    register_provider("odd", lambda name: port)

    for model in (port, "odd/x"):
        with pytest.raises(SetupError, match=problem):
            resolve_model(model)


def test_a_stamped_event_is_a_copy_that_belongs_to_the_turn() -> None:
    event = TextDelta(0, "x")

    stamped = stamp(event, key="turn:a", number=3, replayed=True)

    assert (stamped.turn, stamped.replayed) == (3, True)
    assert (event.turn, event.replayed) == (None, False)
    assert stamped == TextDelta(0, "x", turn=3)


def test_a_stamped_call_gets_the_key_of_its_block() -> None:
    start = stamp(ToolStart(2, "a", "add"), key="turn:h:0", number=1)
    end = stamp(ToolEnd(2, "a", "add", "{}"), key="turn:h:0", number=1)

    assert isinstance(start, ToolStart)
    assert isinstance(end, ToolEnd)
    assert start.call == end.call == "turn:h:0.2"
    assert (end.tool_call.turn, end.tool_call.block, end.tool_call.number) == ("turn:h:0", 2, 1)


def test_a_bound_event_gives_its_message_when_it_is_asked() -> None:
    event = bind(stamp(TextDelta(0, "x"), key="t", number=1), lambda: as_message("so far"))

    assert event.message == as_message("so far")
    assert TextDelta(0, "x").message is None


def test_a_model_is_found_by_its_vendor() -> None:
    register_provider("acme", lambda name: scripted("hi", name=f"acme {name}"))

    assert resolve_model("acme/x/1").name == "acme x/1"


def test_a_port_stands_for_itself() -> None:
    port = scripted("hi")

    assert resolve_model(port) is port


@pytest.mark.parametrize("model", ["", "acme", "/x", "acme/"])
def test_a_model_without_a_vendor_is_refused(model: str) -> None:
    with pytest.raises(SetupError, match="named 'vendor/model'"):
        resolve_model(model)


def test_an_unknown_vendor_is_refused_with_the_known_ones() -> None:
    register_provider("acme", lambda name: scripted("hi", name=name))

    with pytest.raises(SetupError, match=r"'nobody' of 'nobody/x'; known: .*'acme'"):
        resolve_model("nobody/x")


def test_a_vendor_has_no_slash() -> None:
    with pytest.raises(SetupError, match="not 'a/b'"):
        register_provider("a/b", lambda name: scripted("hi", name=name))
