"""Draws a story for a terminal of a given size. Pure: the same story gives the same picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from .report import headline
from .story import CallStory, State, Story

GLYPHS: dict[State, tuple[str, str]] = {
    "queued": ("·", "dim"),
    "running": ("⇢", "yellow"),
    "done": ("✓", "green"),
    "failed": ("!", "red"),
    "lost": ("?", "red"),
}
WORKER_COLOURS = ("cyan", "magenta", "blue", "yellow")

CELL = 38
"""The least width of a call's cell; as many stand side by side as fit."""


def draw(story: Story, *, title: str, now: datetime | None, width: int, height: int) -> Group:
    """Return the run as it stands, not higher or wider than given.

    `now` is the time until which a call that runs has run; None for a story that is over.
    """
    calls = list(story.calls.values())
    columns = max(1, min(3, width // CELL))
    rows = max(1, height - 7)
    shown = _most_telling(calls, rows * columns)
    grid = Table.grid(padding=(0, 2), expand=False)
    for row in _in_columns(shown, columns):
        grid.add_row(*(cell(call, story.pids, now, width // columns - 2) for call in row))
    hidden = len(calls) - len(shown)
    parts: list[RenderableType] = [_head(story, title, now), Text(), grid]
    if hidden:
        parts.append(Text(f"  and {hidden} more calls", style="dim"))
    parts += [Text(), _workers(story)]
    if now is not None:
        parts.append(_words(story, width))
    return Group(*parts)


def cell(call: CallStory, pids: Sequence[int], now: datetime | None, width: int) -> Text:
    """Return one call on one line: what it is, who performs it, how far it is or how long it took.

    How far a call is that runs stands there once it has told; short ones never do.
    """
    glyph, style = GLYPHS[call.state]
    is_under_way = call.state == "running" and call.part > 0
    line = Text(no_wrap=True)
    line.append(f"{glyph} ", style)
    name = name_of(call, width - len(f"{glyph}  1234567 123.4 s"))
    line.append(name, "dim" if call.state == "queued" else "")
    line.append(f" {call.pid or '':>7} ", _colour(call.pid, pids))
    line.append(f"{f'{call.part:.0%}' if is_under_way else _seconds(call, now):>7}", "dim")
    return line


def draw_report(report: Mapping[str, Any]) -> Group:
    """Return the report as a table, as wide as the terminal."""
    groups: list[Mapping[str, Any]] = report["groups"]
    head = Text(headline(report), style="bold")
    unread = [Text(f"could not read {name}: {why}") for name, why in report["unread"].items()]
    if not groups:
        return Group(head, *unread)
    table = Table(box=None, padding=(0, 1, 0, 0), expand=True, header_style="dim")
    table.add_column("errors", justify="right", no_wrap=True)
    table.add_column("kind", ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column("first", no_wrap=True)
    table.add_column("last", no_wrap=True)
    table.add_column("files", justify="right", no_wrap=True)
    day = _only_day(groups)
    for group in groups:
        first, last = (_time(group[end], day) for end in ("first", "last"))
        table.add_row(
            f"{group['count']:,}", Text(group["title"]), first, last, str(len(group["files"]))
        )
    others = report["others"]
    if others["groups"]:
        rest = f"+ {_counted(others['groups'], 'rarer kind')}, {_counted(others['lines'], 'error')}"
        return Group(head, Text(), table, Text(rest, style="dim"), *unread)
    return Group(head, Text(), table, *unread)


def _head(story: Story, title: str, now: datetime | None) -> Text:
    length = story.length if now is None or story.first is None else now - story.first
    parts = [title, story.status, f"turn {story.turn}", f"{_count(length)} s"]
    parts += [f"attempt {story.attempt}"] if story.attempt > 1 else []
    return Text(" · ".join(parts), style="bold", no_wrap=True, overflow="ellipsis")


def _workers(story: Story) -> Text:
    line = Text()
    for pid in story.pids:
        count = sum(call.pid == pid for call in story.calls.values())
        line.append(f"worker {pid}: ", _colour(pid, story.pids))
        line.append(f"{count} call{'' if count == 1 else 's'}   ")
    return line


def _words(story: Story, width: int) -> Text:
    """Return what the model says just now: the last line that is no detail of another one."""
    words = story.text.partition("```")[0].splitlines()
    lines = [line for line in words if line and not line.startswith(" ")]
    line = Text(lines[-1] if lines else "", style="italic", no_wrap=True)
    line.truncate(width - 1, overflow="ellipsis")
    return line


def _most_telling(calls: list[CallStory], room: int) -> list[CallStory]:
    """Return as many calls as there is room for: what runs first, the longest done last."""
    if len(calls) <= room:
        return calls
    order: dict[State, int] = {"running": 0, "failed": 1, "lost": 1, "queued": 2, "done": 3}
    places = sorted(range(len(calls)), key=lambda place: (order[calls[place].state], -place))
    return [calls[place] for place in sorted(places[:room])]


def _in_columns(calls: list[CallStory], columns: int) -> Iterable[list[CallStory]]:
    rows = -(-len(calls) // columns)
    return (calls[row::rows] for row in range(rows))


def name_of(call: CallStory, width: int) -> str:
    """Return what the call does, in exactly the width; of a path its end is what tells."""
    if not call.label:
        return call.tool[:width].ljust(width)
    verb = call.tool.partition("_")[0]
    room = width - len(verb) - 1
    cut = call.label if len(call.label) <= room else f"…{call.label[len(call.label) - room + 1 :]}"
    return f"{verb} {cut}".ljust(width)


def _seconds(call: CallStory, now: datetime | None) -> str:
    if call.started is None:
        return ""
    ended = call.ended or now
    return "" if ended is None else f"{_count(ended - call.started)} s"


def _count(length: timedelta) -> str:
    seconds = max(length.total_seconds(), 0.0)
    return f"{seconds:.2f}" if seconds < 10 else f"{seconds:.0f}"


def _colour(pid: int | None, pids: Sequence[int]) -> str:
    return "" if pid is None else WORKER_COLOURS[list(pids).index(pid) % len(WORKER_COLOURS)]


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _only_day(groups: Iterable[Mapping[str, Any]]) -> str | None:
    days = {group[end][:10] for group in groups for end in ("first", "last") if group[end]}
    return days.pop() if len(days) == 1 else None


def _time(written: str | None, day: str | None) -> str:
    if written is None:
        return ""
    return written.removeprefix(f"{day}T").replace("T", " ")
