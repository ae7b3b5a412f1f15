"""Agents whose workers are killed: loops that pass through, transform, drop and inject events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import loops as ai
from tests.kills.kit import KIT
from tests.kills.more import MORE
from tests.kills.scripts import TOOLS, Go, careful_model, model, publish


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
        **MORE,
        **KIT,
        "waiting": waiting,
    }
)
