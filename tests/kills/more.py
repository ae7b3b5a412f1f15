"""More agents whose workers are killed: with children, a plan, two streams; one fails first."""

from __future__ import annotations

from collections.abc import AsyncIterator

import loops as ai
from loops.errors import ProviderError, Unauthorized
from loops.providers.scripted import scripted, text
from loops.tasks import Owner
from tests.kills.scripts import (
    PACE,
    TOOLS,
    helpful_model,
    model,
    rich_model,
    spell,
)


class Rich(ai.Agent):
    """Lets others work, one and then two side by side; hears what is said meanwhile."""

    async def loop(self, context: ai.Context) -> AsyncIterator[object]:
        child = await context.run_agent("helper", "dan")
        yield {"type": "note", "helped": child.output}
        owner = Owner()
        asked = [
            owner.start(context.run_agent("helper", name), name=name) for name in ("eve", "fay")
        ]
        for run in asked:
            yield {"type": "note", "helped": (await run).output}
        async for event in super().loop(context):
            yield event


class Planning(ai.Agent):
    """Plans by a model of its own, asks two at once and one that fails, calls a tool by itself."""

    LOOP_BUFFER = 0

    async def loop(self, context: ai.Context) -> AsyncIterator[object]:
        async with ai.stream(planner, context.messages, system="plan") as plan:
            async for _ in plan:
                pass
        yield {"type": "note", "plan": plan.text}
        opinions = [ai.stream(each, ["what do you say?"]) for each in (yes, no)]
        async for event in ai.util.merge(*opinions):
            yield event
        try:
            async with ai.stream(locked, context.messages) as refused:
                async for event in refused:
                    yield event  # noqa: ASYNC119 - whoever runs a loop closes it
        except ProviderError as error:
            yield {"type": "note", "refused": type(error).__name__}
        sent = await self.resolve(ai.ToolCall("", "", "send", '{"to":"guy"}'))()
        yield {"type": "note", "sent": sent.content}
        async for event in super().loop(context):
            yield event


planner = scripted("look things up, then write", pace=PACE, name="planner", delta=5)
yes = scripted([text("yes, by all means")], pace=PACE, name="yes", delta=5)
no = scripted([text("no, not at all")], pace=PACE, name="no", delta=5)
locked = scripted(Unauthorized("no key"), name="locked")


FIRST_BATCH = 3
"""How many calls the model's first batch has."""


class Stormy(ai.Agent):
    """Fails in the middle of its work, unless it goes on with the work of a run that did."""

    async def loop(self, context: ai.Context) -> AsyncIterator[object]:
        results = 0
        async for event in super().loop(context):
            yield event
            results += isinstance(event, ai.events.ToolCallResult)
            if results == FIRST_BATCH and not context.origin:
                raise ValueError("storm")
        yield {"type": "note", "weather": "fine"}


MORE: dict[str, ai.Agent] = {
    "helper": ai.Agent(model=helpful_model, tools=TOOLS),
    "rich": Rich(
        model=rich_model, tools=[*TOOLS, spell], budget=ai.Budget(turns=50, tool_calls=50)
    ),
    "planning": Planning(model=model, tools=TOOLS),
    "stormy": Stormy(model=model, tools=TOOLS),
}
