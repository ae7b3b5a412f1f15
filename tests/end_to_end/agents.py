"""Agents for whole runs over real processes; pace and work are set by the environment."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import timedelta

import loops as ai
from loops.blocks import Raw
from loops.providers.scripted import Piece, call, scripted, text
from tests.effects import mark


@ai.tool(idempotent=True)
async def measure(place: str, seconds: float, context: ai.ToolContext) -> str:
    """Measure; again does no harm."""
    mark(context, "measure")
    await asyncio.sleep(seconds)
    return f"{place} is measured"


@ai.tool
async def pay(to: str, seconds: float, context: ai.ToolContext) -> str:
    """Pay: never twice."""
    mark(context, "pay")
    await asyncio.sleep(seconds)
    return f"{to} is paid"


@ai.tool
def grind(seconds: float, context: ai.ToolContext) -> str:
    """Work in a thread, which nobody can stop; but it looks at the flag."""
    mark(context, "grind")
    end = time.monotonic() + seconds
    while time.monotonic() < end and not context.cancelled.is_set():
        context.cancelled.wait(0.05)
    mark(context, "stopped" if context.cancelled.is_set() else "ground")
    return "ground"


def answers(history: list[Raw]) -> int:
    """Return how often the model has spoken."""
    return sum(message["role"] == "assistant" for message in history)


def told(history: list[Raw]) -> str:
    """Return what the person asked for."""
    content = history[0]["content"]
    return content if isinstance(content, str) else content[0]["text"]


def one_tool(history: list[Raw]) -> list[Piece]:
    """Call the tool that the person names, then say what came back."""
    if answers(history) == 0:
        name, seconds = told(history).split()
        arguments: dict[str, object] = {"seconds": float(seconds)}
        if name != "grind":
            arguments["place" if name == "measure" else "to"] = "ann"
        return [text("I will see to it"), call(name, **arguments)]
    results = [block for block in history[-1]["content"] if block["type"] == "tool_result"]
    return [text("; ".join(str(block["content"]) for block in results))]


def three_turns(history: list[Raw]) -> list[Piece]:
    """Two batches of parallel calls, then an answer."""
    spoken, width = answers(history), int(told(history))
    if spoken < 2:
        calls = [call("measure", place=f"p{spoken}{n}", seconds=0.0) for n in range(width)]
        return [text(f"batch {spoken}"), *calls]
    return [text("all is measured")]


def wide(history: list[Raw]) -> list[Piece]:
    """One batch of many calls that take a while."""
    if answers(history) == 0:
        width = range(int(told(history)))
        return [call("measure", place=f"p{n}", seconds=0.5) for n in width]
    return [text("all is measured")]


def long_story(history: list[Raw]) -> list[Piece]:
    """Say many words, slowly."""
    return [text("word " * int(told(history)))]


PACE = timedelta(milliseconds=float(os.environ.get("AGENTS_PACE", "2")))

app = ai.App(
    agents={
        "one_tool": ai.Agent(model=scripted(one_tool, pace=PACE), tools=[measure, pay, grind]),
        "three_turns": ai.Agent(model=scripted(three_turns), tools=[measure]),
        "wide": ai.Agent(model=scripted(wide), tools=[measure]),
        "story": ai.Agent(model=scripted(long_story, pace=PACE, delta=5)),
    }
)
