"""Agents whose workers are killed: loops that pass through, transform, drop and inject events.

Their model is a pure function of the history, and asks for what is still missing; so whatever was
cut, it ends with the same words. Its call ids are `call_0`, `call_1` in every turn. What the tools
do is counted in a file.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

import loops as ai
from loops.blocks import Raw
from loops.providers.scripted import Piece, call, scripted, text
from tests.effects import mark

PACE = timedelta(milliseconds=float(os.environ.get("KILLS_PACE", "4")))
TOOL = float(os.environ.get("KILLS_TOOL", "0.1"))


@ai.tool(idempotent=True)
async def look_up(topic: str, context: ai.ToolContext) -> str:
    """Look a topic up; looking again does no harm."""
    mark(context, "look_up")
    await asyncio.sleep(TOOL)
    return f"all about {topic}"


@ai.tool
async def send(to: str, context: ai.ToolContext) -> str:
    """Send a letter: this must not happen twice."""
    mark(context, "send")
    await asyncio.sleep(TOOL / 2)
    return f"sent to {to}"


@ai.tool(require_approval=True)
async def publish(where: str, context: ai.ToolContext) -> str:
    """Publish the report, once somebody has granted it: this must not happen twice."""
    mark(context, "publish")
    await asyncio.sleep(TOOL / 2)
    return f"published in {where}"


class Go(BaseModel):
    """What somebody says to a hook."""

    go: bool


WANTED = (("look_up", "topic", ("rivers", "hills")), ("send", "to", ("ann",)))
LATER = (("send", "to", ("bob", "cem")), ("look_up", "topic", ("sea",)))


def _asked(history: list[Raw]) -> set[tuple[str, str]]:
    blocks = [
        block
        for message in history
        if message["role"] == "assistant" and isinstance(message["content"], list)
        for block in message["content"]
    ]
    return {
        (block["name"], str(next(iter(block["input"].values()))))
        for block in blocks
        if block["type"] == "tool_use"
    }


def _missing(history: list[Raw], wanted: Any) -> list[Piece]:
    asked = _asked(history)
    return [
        call(tool, **{argument: value})
        for tool, argument, values in wanted
        for value in values
        if (tool, value) not in asked
    ]


def reply(history: list[Raw]) -> list[Piece]:
    """Ask for what is missing of the first batch, then of the second, then answer."""
    for number, wanted in enumerate((WANTED, LATER), 1):
        missing = _missing(history, wanted)
        if missing:
            return [text(f"step {number}: I look at what is there"), *missing]
    return [text("the report: rivers, hills and sea; ann, bob and cem have their letters")]


ASKED = (("look_up", "topic", ("rivers",)), ("publish", "where", ("north", "south")))
AGAIN = (("publish", "where", ("west",)), ("send", "to", ("ann",)))


def careful_reply(history: list[Raw]) -> list[Piece]:
    """Ask for what is missing of two batches, part of which has to be granted; then answer."""
    for number, wanted in enumerate((ASKED, AGAIN), 1):
        missing = _missing(history, wanted)
        if missing:
            return [text(f"step {number}"), *missing]
    return [text("all is published")]


model = scripted(reply, pace=PACE, delta=5)
careful_model = scripted(careful_reply, pace=PACE, delta=5)
TOOLS = [look_up, send]


class Transforming(ai.Agent):
    """Shouts."""

    async def loop(self, context: ai.Context) -> AsyncIterator[ai.events.AgentEvent]:
        async for event in super().loop(context):
            if isinstance(event, ai.events.TextDelta):
                yield replace(event, text=event.text.upper())
            else:
                yield event


class Dropping(ai.Agent):
    """Says its text in one piece at the end of each turn, and nothing of its calls."""

    async def loop(self, context: ai.Context) -> AsyncIterator[ai.events.AgentEvent]:
        said: list[str] = []
        async for event in super().loop(context):
            if isinstance(event, ai.events.TextDelta):
                said.append(event.text)
            elif isinstance(event, ai.events.ToolCallResult):
                yield event
            elif isinstance(event, ai.events.StreamEnd):
                yield ai.events.TextDelta(0, "".join(said), turn=event.turn)
                said.clear()


class Injecting(ai.Agent):
    """Says more than its model: notes before, between and after."""

    async def loop(self, context: ai.Context) -> AsyncIterator[object]:
        yield {"type": "status", "status": "begin"}
        deltas = 0
        async for event in super().loop(context):
            yield event
            if isinstance(event, ai.events.TextDelta):
                deltas += 1
                if deltas % 3 == 0:
                    yield {"type": "status", "status": f"{deltas} deltas"}
            if isinstance(event, ai.events.ToolCallResult):
                yield {"type": "note", "about": event.content}
        yield {"type": "status", "status": "end"}


async def plain(context: ai.Context) -> AsyncIterator[object]:
    """A bare generator function, with the loop written out."""
    while context.keep_running():
        async with ai.stream(context=context) as stream, ai.ToolRunner() as runner:
            async for event in ai.util.merge(stream, runner.events()):
                yield event  # noqa: ASYNC119 - whoever runs a loop closes it
                if isinstance(event, ai.events.ToolEnd):
                    runner.schedule(context.resolve(event.tool_call))
            context.add(stream.message)
            context.add(runner.get_tool_message())


class Plain(ai.Agent):
    """The loop of the documents, unchanged."""

    def loop(self, context: ai.Context) -> Any:
        return plain(context)


class Careful(ai.Agent):
    """Asks before it begins, sleeps, takes a step, and waits for approvals."""

    async def loop(self, context: ai.Context) -> AsyncIterator[object]:
        async def number() -> int:
            return 7

        answer = await ai.hook("begin", payload=Go)
        taken = await context.step("number", number)
        yield {"type": "note", "go": answer.go, "number": taken}
        await context.sleep(0.2)
        async for event in super().loop(context):
            yield event


async def waiting(context: ai.Context) -> AsyncIterator[object]:
    """Waits for somebody; those who are in a hurry do not wait for ever."""
    expires = timedelta(seconds=60) if context.last_message == "soon" else timedelta(days=1)
    try:
        answer = await ai.hook("begin", payload=Go, expires=expires)
        yield f"go: {answer.go}"
    except ai.errors.HookExpired:
        yield "nobody came"


app = ai.App(
    agents={
        "passing": ai.Agent(model=model, tools=TOOLS),
        "plain": Plain(model=model, tools=TOOLS),
        "transforming": Transforming(model=model, tools=TOOLS),
        "dropping": Dropping(model=model, tools=TOOLS),
        "injecting": Injecting(model=model, tools=TOOLS),
        "careful": Careful(model=careful_model, tools=[*TOOLS, publish]),
        "waiting": waiting,
    }
)
