"""What the models of killed runs say, and what their tools do.

A reply is a pure function of the history, and asks for what is still missing; so whatever was cut,
the run ends with the same words. Call ids are `call_0`, `call_1` in every turn. What the tools do
is counted in a file.
"""

from __future__ import annotations

import asyncio
import os
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


@ai.tool(idempotent=True, concurrency=1)
async def spell(word: str, context: ai.ToolContext) -> ai.StreamingTextTool:
    """Spell a word, letter by letter; one word at a time."""
    mark(context, "spell")
    for letter in word:
        await asyncio.sleep(TOOL / 4)
        yield letter.upper()


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


def missing(history: list[Raw], wanted: Any) -> list[Piece]:
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
        lacks = missing(history, wanted)
        if lacks:
            return [text(f"step {number}: I look at what is there"), *lacks]
    return [text("the report: rivers, hills and sea; ann, bob and cem have their letters")]


ASKED = (("look_up", "topic", ("rivers",)), ("publish", "where", ("north", "south")))
AGAIN = (("publish", "where", ("west",)), ("send", "to", ("ann",)))


def careful_reply(history: list[Raw]) -> list[Piece]:
    """Ask for what is missing of two batches, part of which has to be granted; then answer."""
    for number, wanted in enumerate((ASKED, AGAIN), 1):
        lacks = missing(history, wanted)
        if lacks:
            return [text(f"step {number}"), *lacks]
    return [text("all is published")]


SPELLED = (("spell", "word", ("abc", "xyz")), ("send", "to", ("ann",)))
MORE = (("send", "to", ("bob",)),)


def rich_reply(history: list[Raw]) -> list[Piece]:
    """Ask for what is missing of two batches; then say all that people have said."""
    for number, wanted in enumerate((SPELLED, MORE), 1):
        lacks = missing(history, wanted)
        if lacks:
            return [text(f"step {number}"), *lacks]
    people = [message["content"] for message in history if isinstance(message["content"], str)]
    return [text(f"heard: {', '.join(people)}")]


def helpful_reply(history: list[Raw]) -> list[Piece]:
    """Send one letter to whoever is named; then say so."""
    name = str(history[0]["content"])
    lacks = missing(history, (("send", "to", (name,)),))
    return lacks or [text(f"{name} has a letter")]


model = scripted(reply, pace=PACE, delta=5)
rich_model = scripted(rich_reply, pace=PACE, delta=5)
helpful_model = scripted(helpful_reply, pace=PACE, delta=5)
careful_model = scripted(careful_reply, pace=PACE, delta=5)
TOOLS = [look_up, send]
