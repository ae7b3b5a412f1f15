"""Talks with the default loop in one process, and what is left of them afterwards."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import orjson
import pytest

import loops as ai
from loops.blocks import Raw
from loops.closing import close
from loops.guard import Raised
from loops.kit import MemorySessions, Session, default_loop
from loops.kit.beating import told as tried
from loops.kit.stores import SessionStore, Window
from loops.messages import MessageLike
from tests.kit.weather import WEATHER, weather

PING = {"type": "ping"}
CALL: Raw = {"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Rome"}}
OTHER: Raw = {"type": "tool_use", "id": "c2", "name": "weather", "input": {"city": "Oslo"}}
OFFER: Mapping[str, Any] = {"tools": [WEATHER], "handlers": {"weather": weather}}
"""What a loop is told to have the tool that the calls are of."""

PRICE: Mapping[str, float] = {"input": 1.0, "output": 10.0}

BEAT = timedelta(milliseconds=5)


@dataclass(kw_only=True)
class Patient(ai.Context):
    """A run that does not wait when it is told to sleep, and remembers for how long it would."""

    slept: list[float] = field(default_factory=list[float])

    async def sleep(self, duration: timedelta | float) -> None:
        """Remember it."""
        is_told = isinstance(duration, timedelta)
        self.slept.append(duration.total_seconds() if is_told else duration)
        await asyncio.sleep(0)


def asking(*said: MessageLike, sessions: SessionStore | None = None, **fields: Any) -> Patient:
    """Return a run of the session `chat` that is asked something, in a store of its own."""
    store = MemorySessions() if sessions is None else sessions
    usual = {"messages": list(said or ("How is it?",)), "chat_id": "chat", "sessions": store}
    return Patient(**{**usual, **fields})


def talk(context: ai.Context, provider: Any, **options: Any) -> AsyncIterator[Any]:
    """Return what the default loop yields, with the tool that tells the weather."""
    return default_loop(context=context, provider=provider, **{**OFFER, **options})


async def told(context: ai.Context, provider: Any, **options: Any) -> list[Any]:
    """Return all that the default loop yields, which comes to its end."""
    return [event async for event in talk(context, provider, **options)]


async def told_until_it_fails(
    context: ai.Context, provider: Any, **options: Any
) -> tuple[list[Any], BaseException | None]:
    """Return what the default loop yields, and what it raises then."""
    events: list[Any] = []
    async for event in tried(talk(context, provider, **options)):
        if isinstance(event, Raised):
            return events, event.error
        events.append(event)
    return events, None


async def kept(context: ai.Context) -> list[Raw]:
    """Return what another run finds in the session, without what stands beside what was said."""
    found = await reopened(context)
    return [{"role": each["role"], "content": each["content"]} for each in found.messages]


async def reopened(context: ai.Context) -> Session:
    """Return the session as another run of it opens it."""
    return await Session.open(ai.Context(chat_id=context.chat_id, sessions=context.sessions))


def roles(messages: Sequence[Raw]) -> list[str]:
    """Return whose messages they are."""
    return [each["role"] for each in messages]


def results(messages: Sequence[Raw]) -> list[Raw]:
    """Return all results of calls among the messages, in order."""
    return _blocks(messages, "tool_result")


def calls(messages: Sequence[Raw]) -> list[Raw]:
    """Return all calls among the messages, in order."""
    return _blocks(messages, "tool_use")


def _blocks(messages: Sequence[Raw], kind: str) -> list[Raw]:
    contents = [each["content"] for each in messages if isinstance(each["content"], list)]
    return [block for content in contents for block in content if block["type"] == kind]


def texts(events: Sequence[Any]) -> str:
    """Return the text that a reader was shown."""
    return "".join(each for each in events if isinstance(each, str))


def of(events: Sequence[Any], kind: str) -> list[Raw]:
    """Return the dicts of a type."""
    return [each for each in events if isinstance(each, dict) and each["type"] == kind]


def callouts(events: Sequence[Any]) -> list[str]:
    """Return what the reader was told besides the answer."""
    return [each["callout"] for each in of(events, "callout")]


def logged(caplog: pytest.LogCaptureFixture, level: str) -> list[dict[str, Any]]:
    """Return the rows of a kind that the kit has logged."""
    rows = [each.getMessage() for each in caplog.records if each.name == "loopmill.kit"]
    read = [orjson.loads(row.removeprefix("· ")) for row in rows if row.startswith("· {")]
    return [row for row in read if row["level"] == level]


def others() -> set[asyncio.Task[Any]]:
    """Return the tasks that are there beside the current one."""
    return {each for each in asyncio.all_tasks() if each is not asyncio.current_task()}


class SlowStore:
    """A store in which an append waits for ever: the `at`th one from 1."""

    def __init__(self, at: int) -> None:
        self.inner = MemorySessions()
        self.count = 0
        self._at = at

    async def load(self, session_id: str) -> Window:
        """Load it."""
        return await self.inner.load(session_id)

    async def append(self, session_id: str, index: int, messages: Sequence[Raw]) -> None:
        """Append it, or wait."""
        self.count += bool(messages)
        if messages and self.count == self._at:
            await asyncio.Event().wait()
        await self.inner.append(session_id, index, messages)

    async def mark(self, session_id: str, marker: Raw) -> None:
        """Mark it."""
        await self.inner.mark(session_id, marker)

    async def delete(self, session_id: str) -> None:
        """Delete it."""
        await self.inner.delete(session_id)


async def leave(events: AsyncIterator[Any], last: Callable[[Any], bool]) -> list[Any]:
    """Read up to the first event that is meant, close the loop there, and return what was read."""
    read: list[Any] = []
    async for event in events:
        read.append(event)
        if last(event):
            break
    await close(events)
    return read
