"""Shows a run in a terminal: the model's words on stdout, a line for whatever else on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import IO, Any, cast

from loops import errors

from .client import Client, Seen

COMPLETED, NOT_COMPLETED = 0, 1

LONGEST = 100


def show_start(run: dict[str, Any]) -> None:
    """Say which run was started."""
    sys.stderr.write(f"→ run {run['id']} {run['status']} (session {run['session_id']})\n")


def follow(client: Client, run_id: str, *, after: int = 0) -> int:
    """Show the run's events until its last one, and return the exit code.

    Raises:
        ApiError: When the run cannot be followed.
        KeyboardInterrupt: When the reader has seen enough; the run goes on, and that is said.
    """
    teller, cursor, last = Teller(sys.stdout, sys.stderr), str(after), ""
    try:
        for seen in client.follow(run_id, after=after):
            teller.tell(seen)
            cursor, last = seen.cursor, seen.type
    except KeyboardInterrupt:
        sys.stderr.write(
            f"\nthe run goes on: `loopmill tail {run_id} --after {cursor}` shows the rest, "
            f"`loopmill cancel {run_id}` stops it"
        )
        raise
    status = last.removeprefix("run.") or client.load(run_id)["status"]
    return COMPLETED if status == "completed" else NOT_COMPLETED


def in_a_line(text: str) -> str:
    """Return the text as one line that is not too long; what is cut shows as an ellipsis."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def reason_of(error: Mapping[str, Any]) -> str:
    """Return why a run failed, once: a code and a class that say the same are not both shown."""
    code, message = str(error.get("code", "")), str(error.get("message", ""))
    name, colon, rest = message.partition(": ")
    known = getattr(errors, name, None) if name.isidentifier() else None
    if colon and isinstance(known, type) and getattr(known, "code", None) == code:
        return f"{code}: {rest}"
    return f"{code}: {message}" if message else code


class Teller:
    """Turns events into text, as they come."""

    def __init__(self, words: IO[str], lines: IO[str]) -> None:
        self._words = words
        self._lines = lines
        self._is_in_line = False
        """Whether the words stand in the middle of a line."""
        self._started: dict[str, datetime] = {}
        self._written: dict[str, tuple[str, str]] = {}
        """Name and arguments of each call, as the model wrote them."""

    def tell(self, seen: Seen) -> None:
        """Show one event; kinds that it does not know are passed over."""
        if seen.type == "text.delta":
            self._say(seen.data["text"])
            return
        if seen.type == "text.finished":
            self._end_line()
        tell = _LINES.get(seen.type)
        if tell is not None:
            line = tell(self, seen)
            if line is not None:
                self._end_line()
                self._lines.write(f"{line}\n")
                self._lines.flush()
        elif seen.type == "call.finished":
            self._written[seen.data["call"]] = (seen.data["name"], seen.data["arguments"])
        elif seen.type == "tool.queued":
            # A loop need not show what its model wrote.
            self._written.setdefault(seen.data["call"], (seen.data.get("name", ""), ""))

    def _say(self, text: str) -> None:
        self._words.write(text)
        self._words.flush()
        self._is_in_line = not text.endswith("\n")

    def _end_line(self) -> None:
        if self._is_in_line:
            self._say("\n")

    def tool_started(self, seen: Seen) -> str:
        """Return the line for a call that a worker has begun."""
        call = seen.data["call"]
        if seen.time is not None:
            self._started[call] = seen.time
        name, arguments = self._written.get(call, (seen.data.get("name", ""), ""))
        return f"⇢ tool {name} {in_a_line(arguments)}".rstrip()

    def tool_finished(self, seen: Seen) -> str:
        """Return the line for a call that has its answer."""
        started = self._started.get(seen.data["call"])
        took = f" {(seen.time - started).total_seconds():.1f}s" if started and seen.time else ""
        if seen.data.get("is_error"):
            why = in_a_line(str(seen.data["content"]))
            return f"⇠ tool {seen.data['name']}{took} failed: {why}"
        return f"⇠ tool {seen.data['name']}{took}"

    def tool_lost(self, seen: Seen) -> str:
        """Return the line for a call of which nobody knows whether it had its effect."""
        name, _ = self._written.get(seen.data["call"], (seen.data.get("name", ""), ""))
        return f"! tool {name} lost: {seen.data.get('reason') or 'its worker died'}"


def _value(seen: Seen) -> dict[str, Any]:
    """Return the dict that a loop has yielded."""
    value: Any = seen.data.get("value")
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _callout(_: Teller, seen: Seen) -> str | None:
    told = _value(seen)
    glyph = "!" if told.get("style") in {"warning", "error"} else "·"
    return f"{glyph} {in_a_line(str(told['callout']))}" if told.get("callout") else None


def _step(_: Teller, seen: Seen) -> str | None:
    told = _value(seen)
    if told.get("ok") is False:
        return f"! step {in_a_line(str(told.get('step') or told.get('tool_name') or ''))} failed"
    return f"· {in_a_line(str(told['step']))}" if told.get("step") else None


def _round(_: Teller, seen: Seen) -> str | None:
    told = _value(seen)
    taken = len(told.get("claimed") or ())
    calls = f"{taken} call{'' if taken == 1 else 's'}"
    return {
        "again": f"↻ a callback has answered {calls}; asked again",
        "closed": f"· turn ended, without {calls} of the reply",
        "cut": "! the provider broke off",
    }.get(str(told.get("outcome")))


def _plan(_: Teller, seen: Seen) -> str | None:
    match str(seen.data.get("name")).split(":"):
        case ["plan", _, _, name]:
            return f"· plan of {in_a_line(name)}"
        case _:
            return None


def _hook(_: Teller, seen: Seen) -> str:
    asked: dict[str, Any] = seen.data.get("metadata") or {}
    about = (
        f": {asked['tool']} {in_a_line(str(asked.get('kwargs', '')))}" if "tool" in asked else ""
    )
    return f"⏸ hook {seen.data['label']}{about}; POST …/hooks/{seen.data['label']} answers it"


def _failed(_: Teller, seen: Seen) -> str:
    return f"! run failed: {reason_of(seen.data)}"


def _turn(_: Teller, seen: Seen) -> str:
    return f"· turn {seen.turn}"


def _reset(_: Teller, seen: Seen) -> str:
    return f"↻ asked again: {seen.data.get('reason') or 'the reply broke off'}"


def _attempt(_: Teller, seen: Seen) -> str:
    return f"→ run started, attempt {seen.attempt}"


def _retrying(_: Teller, seen: Seen) -> str:
    return f"↻ run goes on elsewhere: {seen.data.get('reason') or 'its worker died'}"


def _gap(_: Teller, seen: Seen) -> str:
    return f"… events {seen.data['from']} to {seen.data['to']} are gone"


def _always(line: str) -> Callable[[Teller, Seen], str]:
    def tell(_: Teller, __: Seen) -> str:
        return line

    return tell


_LINES: dict[str, Callable[[Teller, Seen], str | None]] = {
    "custom.callout": _callout,
    "custom.round": _round,
    "custom.step": _step,
    "step.finished": _plan,
    "hook.opened": _hook,
    "turn.started": _turn,
    "turn.reset": _reset,
    "tool.started": Teller.tool_started,
    "tool.finished": Teller.tool_finished,
    "tool.lost": Teller.tool_lost,
    "run.started": _attempt,
    "run.retrying": _retrying,
    "run.waiting": _always("⏸ run waits"),
    "run.resumed": _always("→ run goes on"),
    "run.completed": _always("✓ run completed"),
    "run.cancelled": _always("! run cancelled"),
    "run.expired": _always("! run expired before it started"),
    "run.failed": _failed,
    "stream.gap": _gap,
}
