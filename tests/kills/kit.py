"""Agents of the loop kit whose workers are killed: the default loop, and one written out.

What the model still wants it reads from the history alone, be it whole or summed up; so whatever
was cut, the run ends with the same words.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from typing import Any

import loops as ai
from loops.blocks import Raw
from loops.kit import LLM, Session, build_tools, make_provider
from loops.kit.summing import ASK
from loops.providers.scripted import Piece, Reply, call, scripted, text
from tests.effects import mark

TOOL = float(os.environ.get("KILLS_TOOL", "0.05"))
WINDOW = 1_400
"""How many tokens the model sees: too few for what it says in two batches and after them."""

PAGES = ("page after page " * 80, "page after page " * 170, "")
"""What the model says with each batch: before the third one it is too much, and is summed up."""

Batches = Sequence[Sequence[tuple[str, str]]]
"""What a model wants, one batch after the other: names of tools, and what they are given."""

TWO: Batches = ((("look_up", "rivers"), ("send", "ann")), (("send", "bob"),))
THREE: Batches = (*TWO, (("send", "cem"), ("look_up", "hills")))


def wanting(batches: Batches) -> Reply:
    """Return what asks for whatever is missing of the batches, then answers; and sums up."""

    def reply(history: list[Raw]) -> Piece | list[Piece]:
        told = str(history)
        if ASK.splitlines()[0] in told:
            done = [about for batch in batches for _, about in batch if about in told]
            return text(f"<summary>This was done: {', '.join(done)}.</summary>")
        for number, batch in enumerate(batches):
            lacks = [call(tool, about=about) for tool, about in batch if about not in told]
            if lacks:
                return [text(f"Step {number}. {PAGES[number]}"), *lacks]
        return text(f"The report on {', '.join(about for _, about in batches[0])}, and more.")

    return reply


async def look_up(inp: dict[str, Any], ctx: ai.ToolContext) -> str:
    """Look something up; looking again does no harm."""
    mark(ctx, "look_up")
    await asyncio.sleep(TOOL)
    return f"All about {inp['about']}."


async def send(inp: dict[str, Any], ctx: ai.ToolContext) -> Raw:
    """Send a letter: this must not happen twice."""
    mark(ctx, "send")
    return {"sent to": inp["about"]}


def about(name: str) -> Raw:
    """Return what a model is told of a tool."""
    properties = {"about": {"type": "string"}}
    return {"name": name, "input_schema": {"type": "object", "properties": properties}}


async def written_out(*, context: ai.Context, model: Any = None, **kw: Any) -> AsyncIterator[Any]:
    """Ask once, with all that the session holds, and keep the answer."""
    provider = make_provider(model)
    session = await Session.open(context)
    await session.add_user(context.last_message)
    tools = build_tools(kw["allowed_tools"], [])
    async for event in provider.stream(messages=session.context(), tools=tools, max_tokens=100):
        yield event
    await session.checkpoint()


KIT: dict[str, LLM] = {
    "kit": LLM()
    .model(scripted(wanting(TWO), delta=4_000))
    .tools([about("look_up"), about("send")])
    .on("look_up", look_up, idempotent=True)
    .on("send", send)
    .context(WINDOW)
    .max_tokens(200),
    "written-out": LLM()
    .model(scripted(lambda history: f"You have said {len(history)} things.", delta=5))
    .loop(written_out),
}
