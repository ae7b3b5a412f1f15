"""Agents that are measured; no model is asked, so that all time is ours."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import orjson

import loops as ai
from loops.blocks import Raw
from loops.messages import ToolCall
from loops.model import ModelRequest
from loops.providers.scripted import Piece, call, scripted, text
from loops.reply import ModelEvent, StreamEnd, StreamStart, TextDelta, TextEnd, TextStart

WARM_UP = 3
WORDS = [
    "agent",
    "loops",
    "run",
    "as",
    "jobs",
    "of",
    "a",
    "queue",
    "while",
    "every",
    "client",
    "that",
    "follows",
    "them",
    "reads",
    "one",
    "log",
    "in",
    "order",
]


@ai.tool(idempotent=True)
async def look(place: str) -> str:
    """Look at a place."""
    return f"{place} is fine"


@ai.tool(idempotent=True)
async def nothing() -> int:
    """Do nothing."""
    return 1


def _asked(context: ai.Context) -> dict[str, Any]:
    asked: dict[str, Any] = orjson.loads(context.last_message)
    return asked


async def caller(context: ai.Context) -> AsyncIterator[object]:
    """Call a tool again and again, `width` calls side by side, and tell how long each time took."""
    asked = _asked(context)
    took: list[float] = []
    for number in range(asked["count"] + WARM_UP):
        await asyncio.sleep(random.uniform(*asked["gap"]))
        calls = [ToolCall(str(each), "", "nothing", "{}") for each in range(asked["width"])]
        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for bound in context.resolve(calls):
                group.create_task(_called(bound))
        if number >= WARM_UP:
            took.append((time.perf_counter() - began) * 1000)
    yield {"type": "took", "ms": took}


async def _called(bound: Callable[[], Awaitable[object]]) -> None:
    await bound()


async def ticker(context: ai.Context) -> AsyncIterator[object]:
    """Tell the time every now and then; `size` makes each event longer."""
    asked = _asked(context)
    pad, every = "x" * asked.get("size", 0), asked["every"]
    await asyncio.sleep(random.uniform(0, every))
    began = time.monotonic()
    for number in range(1, asked["count"] + 1):
        yield {"type": "tick", "sent": time.time(), "pad": pad}
        await asyncio.sleep(max(0.0, began + number * every - time.monotonic()))


async def idler(context: ai.Context) -> AsyncIterator[object]:
    """Begin, and do nothing for a while."""
    yield "begun"
    await asyncio.sleep(_asked(context)["seconds"])


def spoken(history: list[Raw]) -> int:
    """Return how often the model has answered."""
    return sum(message["role"] == "assistant" for message in history)


def asked_first(history: list[Raw]) -> str:
    """Return what the person asked for."""
    content = history[0]["content"]
    return content if isinstance(content, str) else str(content[0]["text"])


def three_turns(history: list[Raw]) -> list[Piece]:
    """Three turns with parallel calls each, and then the last word."""
    turn, width = spoken(history), int(asked_first(history))
    if turn == 3:
        return [text("all is well")]
    calls = [call("look", place=f"place {turn}.{each}") for each in range(width)]
    return [text(f"I look at {width} places"), *calls]


async def slow(history: list[Raw]) -> list[Piece]:
    """Think for as long as the person says, call one tool, think again, and answer."""
    await asyncio.sleep(float(asked_first(history)))
    return (
        [text("all is well")] if spoken(history) else [text("I look"), call("look", place="here")]
    )


def story(length: int, seed: int = 7) -> str:
    """Return a text of so many words, the same each time."""
    chosen = random.Random(seed)
    return "".join(f"{chosen.choice(WORDS)} " for _ in range(length))


class Streaming:
    """A model whose deltas come as providers send them: some in each piece that arrives.

    The request says how many words there are, how many come at once, and how often.
    """

    name = "streaming"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield the words, each as a delta, by a clock that does not wait for the reader."""
        asked = orjson.loads(request.messages[0].text)
        words = [f"{word} " for word in story(asked["words"]).split()]
        together, every = asked["together"], asked["every"]
        yield StreamStart(model=self.name)
        yield TextStart(0)
        began = time.monotonic()
        for number, start in enumerate(range(0, len(words), together)):
            await asyncio.sleep(max(0.0, began + number * every - time.monotonic()))
            for word in words[start : start + together]:
                yield TextDelta(0, word)
        yield TextEnd(0)
        yield StreamEnd(stop_reason="end_turn")


PACE = timedelta(milliseconds=float(os.environ.get("BENCH_PACE", "10")))
"""Between two tokens of the run whose memory is measured: 100 a second, as models write."""
ESSAY = 5000
"""Tokens of the run whose memory is measured; a word of the story counts as one."""


def essay(history: list[Raw]) -> list[Piece]:
    """Write half of a long text, look at ten places, and write the other half."""
    if spoken(history):
        return [text(story(ESSAY // 2, seed=8))]
    calls = [call("look", place=f"place {each}") for each in range(10)]
    return [text(story(ESSAY // 2)), *calls]


app = ai.App(
    agents={
        "caller": caller,
        "ticker": ticker,
        "idler": idler,
        "three_turns": ai.Agent(model=scripted(three_turns), tools=[look]),
        "slow": ai.Agent(model=scripted(slow), tools=[look]),
        "streaming": ai.Agent(model=Streaming()),
        "essay": ai.Agent(model=scripted(essay, pace=PACE, delta=5), tools=[look]),
    },
    tools=[nothing],
)
