"""What a follower knows of a run, made from its events alone: `tell(story, event) -> story`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal, cast

from api.client import Seen

State = Literal["queued", "running", "done", "failed", "lost"]


@dataclass(frozen=True, slots=True)
class CallStory:
    """One call of a tool, as far as it is known."""

    key: str
    tool: str = ""
    label: str = ""
    """What it is about: the file, or nothing."""
    state: State = "queued"
    pid: int | None = None
    """The process of the worker that performs it."""
    lines: int = 0
    part: float = 0.0
    """How far it is, from 0 to 1."""
    started: datetime | None = None
    ended: datetime | None = None

    @property
    def took(self) -> timedelta | None:
        """How long it took from its start on a worker to its answer."""
        return self.ended - self.started if self.started and self.ended else None


@dataclass(frozen=True, slots=True)
class Story:
    """A run as its events tell it."""

    status: str = "queued"
    turn: int = 0
    attempt: int = 1
    events: int = 0
    calls: Mapping[str, CallStory] = field(default_factory=dict[str, CallStory])
    """By key, in the order in which the model wrote them."""
    said: tuple[tuple[int, str], ...] = ()
    """What the model says in this turn: pieces, each with its event's number."""
    first: datetime | None = None
    last: datetime | None = None
    error: str | None = None

    @property
    def text(self) -> str:
        """What the model has said in the current turn."""
        return "".join(piece for _, piece in self.said)

    @property
    def tool_jobs(self) -> int:
        """How many calls a worker has begun."""
        return sum(call.pid is not None for call in self.calls.values())

    @property
    def pids(self) -> list[int]:
        """The worker processes that performed calls, in order."""
        return sorted({call.pid for call in self.calls.values() if call.pid is not None})

    @property
    def length(self) -> timedelta:
        """How long it is from the first event to the last."""
        return self.last - self.first if self.first and self.last else timedelta(0)


def tell(story: Story, seen: Seen) -> Story:
    """Return the story with one more event; kinds of events that it does not know only count."""
    counted = replace(
        story,
        events=story.events + 1,
        attempt=max(story.attempt, seen.attempt),
        first=story.first or seen.time,
        last=seen.time or story.last,
    )
    chapter = _CHAPTERS.get(seen.type)
    return chapter(counted, seen) if chapter else counted


def _status(story: Story, seen: Seen) -> Story:
    past = seen.type.removeprefix("run.")
    status = "running" if past in {"started", "resumed"} else past
    return replace(story, status=status, error=seen.data.get("message"))


def _turn(story: Story, seen: Seen) -> Story:
    return replace(story, turn=seen.turn or story.turn + 1, said=())


def _reset(story: Story, seen: Seen) -> Story:
    after = seen.data.get("after") or 0
    return replace(story, said=tuple(piece for piece in story.said if piece[0] <= after))


def _text(story: Story, seen: Seen) -> Story:
    return replace(story, said=(*story.said, (int(seen.cursor), seen.data["text"])))


def _written(story: Story, seen: Seen) -> Story:
    return _with_call(story, seen, tool=seen.data["name"], label=_label(seen.data["arguments"]))


def _started(story: Story, seen: Seen) -> Story:
    pid = seen.data.get("pid")
    return _with_call(story, seen, state="running", pid=pid, started=seen.time, part=0.0)


def _progress(story: Story, seen: Seen) -> Story:
    told = _fields(seen.data["value"])
    return _with_call(story, seen, lines=told.get("lines", 0), part=told.get("part", 0.0))


def _finished(story: Story, seen: Seen) -> Story:
    state: State = "failed" if seen.data.get("is_error") else "done"
    lines = _lines(seen.data["content"])
    changes: dict[str, Any] = {} if lines is None else {"lines": lines}
    return _with_call(story, seen, state=state, ended=seen.time, part=1.0, **changes)


def _lost(story: Story, seen: Seen) -> Story:
    return _with_call(story, seen, state="lost", ended=seen.time)


_CHAPTERS: dict[str, Callable[[Story, Seen], Story]] = {
    **dict.fromkeys(
        (
            *("run.started", "run.waiting", "run.resumed", "run.retrying"),
            *("run.completed", "run.failed", "run.cancelled", "run.expired"),
        ),
        _status,
    ),
    "turn.started": _turn,
    "turn.reset": _reset,
    "text.delta": _text,
    "call.finished": _written,
    "tool.started": _started,
    "tool.progress": _progress,
    "tool.finished": _finished,
    "tool.lost": _lost,
}


def _with_call(story: Story, seen: Seen, **changes: Any) -> Story:
    key: str = seen.data["call"]
    call = replace(story.calls.get(key, CallStory(key)), **changes)
    return replace(story, calls={**story.calls, key: call})


def _label(arguments: str) -> str:
    """Return the file that a call names, if it names one."""
    try:
        return str(_fields(json.loads(arguments)).get("file", ""))
    except ValueError:
        return ""


def _lines(content: object) -> int | None:
    """Return how many lines a scan read, which its result says."""
    lines = _fields(content).get("lines")
    return lines if isinstance(lines, int) else None


def _fields(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
