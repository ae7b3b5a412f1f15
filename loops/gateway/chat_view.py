"""What the caller of a streamed chat completion gets of the rounds; pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from loops.blocks import Raw
from loops.providers.told import fields, objects

from .bodies import call_of_chat
from .carried import Carried, Kept, hidden_by
from .chat_fold import CHUNK, CallsFold, index_of, numbered_calls
from .growing import overlaid
from .json_rows import DONE, is_done, row_of, told_by
from .reasons import CALLS, reason_left
from .rounds import RoundEnd, Surface
from .rows import Row

BETWEEN = "\n\n"
"""What stands between the texts of two rounds."""


@dataclass(slots=True)
class _Round:
    """What is known of the open round."""

    calls: dict[int, CallsFold] = field(default_factory=dict[int, CallsFold])
    """The calls of each choice."""
    usage: Raw = field(default_factory=dict[str, Any])
    said: set[int] = field(default_factory=set[int])
    """The choices that have text."""
    has_shown: bool = False
    """Whether anything that a choice says was shown."""

    def calls_of(self, choice: int) -> list[Raw]:
        return self.calls[choice].whole() if choice in self.calls else []


class MergedChat:
    """All rounds in one completion: text as it comes, calls at the end, without those taken up.

    All chunks are called as the first one. Only the first choice's calls are taken up, or carried
    on from a round that another one follows.
    """

    def __init__(self, carried: Carried | None = None) -> None:
        self.has_shown = False
        self._carried = carried or Carried()
        self._round = _Round()
        self._base: Raw = {"object": CHUNK}
        """What all chunks are called."""
        self._speaking: set[int] = set()
        """The choices whose role was told."""
        self._ends: dict[int, Raw] = {}
        """How each choice ended, in the last round that had it."""
        self._said: set[int] = set()
        """The choices of which an earlier round has said something."""
        self._tells_usage = False
        self._is_broken = False

    def rows(self, rows: Sequence[Row]) -> list[Row]:
        """Return what of the open round can be shown."""
        shown = [each for row in rows for each in self._take(row)]
        self.has_shown = self.has_shown or bool(shown)
        return shown

    def end(self, end: RoundEnd) -> list[Row]:
        """Return what was withheld and can be shown now, and the end of the whole if it ends."""
        over, self._round = self._round, _Round()
        self._said |= over.said
        hidden = hidden_by(end)
        made = over.calls_of(0)
        mine = [call for at, call in enumerate(made) if at not in hidden]
        kept = [Kept(call_of_chat(0, call).fingerprint, [call]) for call in mine]
        left = self._carried.after(end.outcome, kept, over.usage)
        if left is None:
            self._ends.pop(0, None)
            return []
        carried = [call.told[0] for call in left]
        counts = {"shown": len(mine), "hidden": len(made) - len(mine)}
        told = self._ends.setdefault(0, {"index": 0, "finish_reason": None})
        reason = reason_left(Surface.CHAT, told.get("finish_reason"), **counts)
        told["finish_reason"] = CALLS[Surface.CHAT] if carried else reason
        rows = self._last(over, [*mine, *carried])
        self.has_shown = True
        return rows

    def reset(self) -> bool:
        """Forget the open round, unless anything that it says was shown."""
        has_shown, self._round = self._round.has_shown, _Round()
        return not has_shown

    def _take(self, row: Row) -> list[Row]:
        if is_done(row):
            return [row] if self._is_broken else []
        chunk = told_by(row)
        self._is_broken = self._is_broken or bool(chunk.get("error"))
        if self._is_broken:
            return [row]
        base = {name: each for name, each in chunk.items() if name not in {"choices", "usage"}}
        self._base = {**base, **self._named(chunk)}
        usage, choices = fields(chunk.get("usage")), objects(chunk.get("choices"))
        self._round.usage = overlaid(self._round.usage, usage)
        self._tells_usage = self._tells_usage or bool(usage)
        live = [each for told in choices if (each := self._live(told))]
        if not live and (choices or usage):
            return []
        shown = {**chunk, **self._base, "choices": live}
        if usage:
            shown["usage"] = None
        return [row if shown == chunk else row_of(row[0], shown)]

    def _named(self, chunk: Raw) -> Raw:
        names = {name: self._base.get(name) or chunk.get(name) for name in _NAMES}
        return {name: each for name, each in names.items() if each is not None}

    def _live(self, choice: Raw) -> Raw | None:
        """Return what of a choice is shown at once; None for nothing."""
        index, delta = index_of(choice), dict(fields(choice.get("delta")))
        if calls := delta.pop("tool_calls", None):
            self._round.calls.setdefault(index, CallsFold()).feed(calls)
        if index in self._speaking:
            delta.pop("role", None)
        self._part(index, delta)
        live = {**choice, "delta": delta}
        if choice.get("finish_reason") is not None:
            told = {name: each for name, each in choice.items() if name not in _NOT_LAST}
            self._ends[index] = {**told, "index": index}
            live["finish_reason"] = None
        if not any(each not in _NOTHING for each in (choice.get("logprobs"), *delta.values())):
            return None
        if "role" in delta:
            self._speaking.add(index)
        said = (each for name, each in delta.items() if name != "role")
        self._round.has_shown = self._round.has_shown or any(said)
        return live

    def _part(self, index: int, delta: Raw) -> None:
        """Let a round begin with an empty line, where an earlier one has said something."""
        text = delta.get("content")
        if isinstance(text, str) and text and index not in self._round.said:
            self._round.said.add(index)
            delta["content"] = f"{BETWEEN}{text}" if index in self._said else text

    def _last(self, over: _Round, calls: list[Raw]) -> list[Row]:
        chunks: list[Raw] = []
        for index, end in sorted(self._ends.items()):
            if made := calls if index == 0 else over.calls_of(index):
                role = {} if index in self._speaking else {"role": "assistant"}
                delta = {**role, "tool_calls": numbered_calls(made)}
                chunks.append({"index": index, "delta": delta, "finish_reason": None})
            chunks.append({**end, "delta": {}})
        rows = [row_of("", {**self._base, "choices": [chunk]}) for chunk in chunks]
        if self._tells_usage:
            usage = self._carried.total(over.usage)
            rows.append(row_of("", {**self._base, "choices": [], "usage": usage}))
        return [*rows, DONE]


_NAMES = ("id", "created", "model")

_NOT_LAST = frozenset({"delta", "logprobs"})

_NOTHING: tuple[object, ...] = (None, "", [])
