"""Tells a story line by line, for a file or a pipe, where no picture can move."""

from __future__ import annotations

from api.client import Seen

from .story import CallStory, Story

LINES = {"tool.started": "⇢", "tool.finished": "✓", "tool.lost": "?"}


def line_of(story: Story, seen: Seen) -> str | None:
    """Return the line for what was just seen, in the story that has it; None for small things."""
    if seen.type == "turn.started":
        return f"turn {story.turn}"
    if seen.type.startswith("run."):
        return f"run {seen.type.removeprefix('run.')}{_why(story)}"
    glyph = LINES.get(seen.type)
    if glyph is None:
        return None
    call = story.calls[seen.data["call"]]
    return f"  {'!' if call.state == 'failed' else glyph} {_named(call)}{_tail(call)}"


def _why(story: Story) -> str:
    return f": {story.error}" if story.error else ""


def _named(call: CallStory) -> str:
    return f"{call.tool} {call.label}".rstrip()


def _tail(call: CallStory) -> str:
    if call.state == "running":
        return f" on worker {call.pid}"
    took = f" {call.took.total_seconds():.2f} s" if call.took is not None else ""
    return f"{took}, {call.lines:,} lines" if call.lines else took
