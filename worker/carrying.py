"""What a run takes over from one that ended without completing: pure, but for one look at it.

Left out is what made the run fail: the error of its last turn, the hook that nobody answered, the
child that did not complete. What the loop has dealt with stays, for what came after hangs on it. A
call that had started and never got its result may have happened: the model is told so, unless the
tool may be called again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from loops.errors import ChildFailed, HookExpired
from loops.messages import ToolResult

from .answers import CHILD
from .call_results import LOST
from .keys import RunKeys
from .link import Link
from .run_record import RunRecord, decode_run, pairs
from .wire import Part

NOTHING: list[list[Part]] = [[], [], [], []]
"""What a run takes over that begins by itself: the lists are as in `Ended.carried`."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A run as it ended, and what it was answered."""

    run: RunRecord
    said: list[dict[str, Any]]
    """The messages that it was made with."""
    journal: Mapping[str, bytes]
    calls: Mapping[str, bytes]
    hooks: Mapping[str, bytes]
    handed: list[str]
    """What was handed to its loop from elsewhere, in order."""

    def carried(self) -> list[list[Part]]:
        """Return what another run takes over: of journal, ledger and hooks, and what was handed."""
        hooks = _grouped(self.hooks)
        kept = {key for key, hook in hooks.items() if self._keeps(key, hook)}
        handed: list[Part] = [k for k in self.handed if k in kept or k not in hooks]
        return [
            _flat(_whole_turns(self.journal)),
            _flat(_told_calls(self.calls)),
            _flat(_known_hooks(hooks, kept, self.hooks)),
            handed,
        ]

    def _keeps(self, key: str, hook: Mapping[str, bytes]) -> bool:
        if "answer" not in hook:
            return False
        return key != self._fatal(HookExpired.code, "hook:") and key != self._fatal(
            ChildFailed.code, CHILD
        )

    def _fatal(self, code: str, prefix: str) -> str:
        """Return the key of what the run failed by, if it failed like this: it came last."""
        if self.run.error is None or self.run.error.code != code:
            return ""
        return next((key for key in reversed(self.handed) if key.startswith(prefix)), "")


async def read_ended(link: Link, names: RunKeys) -> Ended | None:
    """Return the run with what it was answered; None when it is not there."""
    parts = (names.record, names.journal, names.calls, names.hooks)
    record, journal, calls, hooks, handed, said = await link.all(
        [
            *(("HGETALL", name) for name in parts),
            ("LRANGE", names.handed, 0, -1),
            ("GET", names.input),
        ]
    )
    if not record or said is None:
        return None
    return Ended(
        decode_run(pairs(record)),
        orjson.loads(said),
        pairs(journal),
        pairs(calls),
        pairs(hooks),
        [key.decode() for key in handed],
    )


def counted(lists: Iterable[list[Part]]) -> list[Part]:
    """Return lists as scripts take them: each after its length."""
    return [part for each in lists for part in (len(each), *each)]


def _flat(fields: Iterable[tuple[str, bytes]]) -> list[Part]:
    return [part for pair in fields for part in pair]


def _whole_turns(journal: Mapping[str, bytes]) -> Iterable[tuple[str, bytes]]:
    """Yield all units but an error that no turn has followed."""
    turns = {key: orjson.loads(raw) for key, raw in journal.items() if key.startswith("turn:")}
    last = max((turn["n"] for turn in turns.values() if turn["error"] is None), default=0)
    for key, value in journal.items():
        turn = turns.get(key)
        if turn is None or turn["error"] is None or turn["n"] < last:
            yield key, value


def _told_calls(calls: Mapping[str, bytes]) -> Iterable[tuple[str, bytes]]:
    """Yield what is known of each call that has a result, or that may have happened."""
    for key, call in _grouped(calls).items():
        if "result" not in call:
            if call["attempts"] == b"0" or call["again"] == b"1":
                continue
            lost = ToolResult(key, "", "", LOST, is_error=True)
            call |= {"state": b"lost", "result": lost.encode()}
        yield from ((f"{key}|{name}", value) for name, value in call.items())


def _known_hooks(
    hooks: Mapping[str, Mapping[str, bytes]], kept: set[str], stored: Mapping[str, bytes]
) -> Iterable[tuple[str, bytes]]:
    """Yield what was answered; of a child that is started again, which one it was."""
    for key, hook in hooks.items():
        if key in kept:
            yield from ((f"{key}|{name}", hook[name]) for name in hook if name not in _OF_A_JOB)
        elif key.startswith(CHILD):
            yield f"{key}|was", hook["about"]
    for field, value in stored.items():
        if field.startswith("@") and value.decode() in kept:
            yield field, value


_OF_A_JOB = frozenset({"channel", "job"})


def _grouped(fields: Mapping[str, bytes]) -> dict[str, dict[str, bytes]]:
    """Return a hash of `<key>|<field>` by key; labels of hooks are no part of it."""
    grouped: dict[str, dict[str, bytes]] = {}
    for field, value in fields.items():
        key, has_field, name = field.rpartition("|")
        if has_field and not field.startswith("@"):
            grouped.setdefault(key, {})[name] = value
    return grouped
