"""What the caller of a streamed message gets of the rounds; pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from loops.blocks import Raw
from loops.providers.told import fields, word

from .bodies import call_of_block, is_call
from .carried import Carried, Kept, hidden_by
from .growing import overlaid
from .json_rows import row_of, told_by
from .message_fold import MessageFold, index_of
from .reasons import CALLS, reason_left
from .rounds import Outcome, RoundEnd, Surface
from .rows import Row


class SeparateMessages:
    """Each round as a message of its own, word for word as it comes.

    Where a call that was taken up would be the last thing that the caller sees, a message without
    content follows, which says that the turn has ended.
    """

    def __init__(self) -> None:
        self.has_shown = False
        self._message: Raw = {}
        self._places: list[bool] = []
        """Of each block of the round whether it is a call."""
        self._has_begun = False
        """Whether anything of the open round was shown."""

    def rows(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows as they are."""
        for row in rows:
            self._look_at(row)
        self._has_begun = self._has_begun or bool(rows)
        self.has_shown = self.has_shown or self._has_begun
        return list(rows)

    def reset(self) -> bool:
        """Say whether nothing of the open round was shown: it is a message that has begun."""
        return not self._has_begun

    def end(self, end: RoundEnd) -> list[Row]:
        """Return the closing message, where one is needed."""
        calls = {place for place, is_one in enumerate(self._places) if is_one}
        self._places, self._has_begun = [], False
        if end.outcome is not Outcome.CLOSED or not calls or calls - end.claimed:
            return []
        return _closing_message(self._message)

    def _look_at(self, row: Row) -> None:
        if "_start" not in row[1]:
            # Nearly all rows are deltas, which are not even read.
            return
        told = told_by(row)
        match told.get("type"):
            case "message_start":
                self._message = fields(told.get("message"))
            case "content_block_start":
                self._places.append(is_call(told.get("content_block")))
            case _:
                return


def _closing_message(message: Raw) -> list[Row]:
    identity = f"{word(message.get('id')) or 'msg'}_end"
    usage = {"input_tokens": 0, "output_tokens": 0}
    blank: Raw = {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    told = {"id": identity, "type": "message", "role": "assistant", "model": message.get("model")}
    last = {"stop_reason": "end_turn", "stop_sequence": None}
    return [
        row_of("message_start", {"type": "message_start", "message": {**told, **blank}}),
        row_of("message_delta", {"type": "message_delta", "delta": last, "usage": usage}),
        row_of("message_stop", {"type": "message_stop"}),
    ]


@dataclass(slots=True)
class _Block:
    """A block of the open round."""

    place: int
    number: int | None
    """Its index in the one message; None while it is withheld."""
    is_call: bool
    frames: list[Raw] = field(default_factory=list[Raw])
    """All that came of a call."""

    def kept(self) -> Kept:
        fold = MessageFold()
        for frame in self.frames:
            fold.feed(frame)
        return Kept(call_of_block(0, fold.body()["content"][0]).fingerprint, self.frames)


@dataclass(slots=True)
class _Round:
    """What is known of the open round."""

    blocks: int = 0
    open: dict[object, _Block] = field(default_factory=dict[object, _Block])
    calls: list[_Block] = field(default_factory=list[_Block])
    envelope: MessageFold = field(default_factory=MessageFold)
    """The message without its blocks."""
    last: list[Row] = field(default_factory=list[Row])
    """How the round's message changed at its end, and that it ended."""
    has_shown: bool = False
    """Whether any block of it was shown."""

    def usage(self) -> Raw:
        return fields(self.envelope.body().get("usage"))


class MergedMessages:
    """All rounds in one message: text as it comes, calls at the end, without those taken up.

    Blocks are numbered anew. Calls that are not taken up in a round that another one follows stand
    at the message's end, unless the last round makes them again.
    """

    def __init__(
        self, carried: Carried | None = None, hidden: frozenset[int] | None = None
    ) -> None:
        self.has_shown = False
        self._carried = carried or Carried()
        self._hidden = hidden
        """The calls that are not shown; None where that is not known before the round's end."""
        self._round = _Round()
        self._has_begun = False
        self._numbers = 0

    def rows(self, rows: Sequence[Row]) -> list[Row]:
        """Return what of the open round can be shown."""
        shown = [each for row in rows for each in self._take(row)]
        self.has_shown = self.has_shown or bool(shown)
        return shown

    def end(self, end: RoundEnd) -> list[Row]:
        """Return what was withheld and can be shown now, and the end of the message if it ends."""
        over, self._round = self._round, _Round()
        hidden = hidden_by(end)
        mine = [call for call in over.calls if call.place not in hidden]
        kept = [call.kept() for call in mine]
        carried = self._carried.after(end.outcome, kept, over.usage())
        if carried is None:
            return []
        late = [call.frames for call in mine if call.number is None]
        rows = [row for frames in late for row in self._numbered(frames)]
        rows += [row for call in carried for row in self._numbered(call.told)]
        reason = CALLS[Surface.MESSAGES] if carried else None
        counts = {"shown": len(mine), "hidden": len(over.calls) - len(mine)}
        rows += self._last(over, reason, counts)
        self.has_shown = self.has_shown or bool(rows)
        return rows

    def reset(self) -> bool:
        """Forget the open round, unless a block of it was shown."""
        has_shown, self._round = self._round.has_shown, _Round()
        return not has_shown

    def _take(self, row: Row) -> list[Row]:
        told = told_by(row)
        match told.get("type"):
            case "content_block_start" | "content_block_delta" | "content_block_stop":
                return self._take_block(row, told)
            case "message_start":
                self._round.envelope.feed(told)
                is_first, self._has_begun = not self._has_begun, True
                return [row] if is_first else []
            case "message_delta" | "message_stop" as kind:
                self._round.envelope.feed(told)
                self._round.last.append((kind, row[1]))
                return []
            case _:
                return [row]

    def _take_block(self, row: Row, told: Raw) -> list[Row]:
        if told["type"] == "content_block_start":
            self._begin(told)
        block = self._round.open.get(index_of(told))
        if block is None:
            return []
        if block.is_call:
            block.frames.append(told)
        if block.number is None:
            return []
        self._round.has_shown = True
        is_same = block.number == told.get("index")
        return [row if is_same else row_of(row[0], {**told, "index": block.number})]

    def _begin(self, told: Raw) -> None:
        place, is_one = self._round.blocks, is_call(told.get("content_block"))
        is_withheld = is_one and (self._hidden is None or place in self._hidden)
        block = _Block(place, None if is_withheld else self._next(), is_one)
        self._round.blocks += 1
        self._round.open[index_of(told)] = block
        if is_one:
            self._round.calls.append(block)

    def _next(self) -> int:
        self._numbers += 1
        return self._numbers - 1

    def _numbered(self, frames: Sequence[Raw]) -> list[Row]:
        number = self._next()
        return [row_of(frame["type"], {**frame, "index": number}) for frame in frames]

    def _last(self, over: _Round, reason: str | None, counts: dict[str, int]) -> list[Row]:
        """Return the end of the message; as it came where nothing of it is another."""
        changes = [told_by(row) for row in over.last if row[0] == "message_delta"]
        change: Raw = {"type": "message_delta"}
        delta: Raw = {"stop_reason": None, "stop_sequence": None}
        for each in changes:
            change |= each
            delta = overlaid(delta, fields(each.get("delta")))
        left = reason_left(Surface.MESSAGES, delta["stop_reason"], **counts)
        left = reason or left
        if self._carried.is_first and changes and left == delta["stop_reason"]:
            return over.last
        usage = self._carried.total(over.usage())
        told = {**change, "delta": {**delta, "stop_reason": left}, "usage": usage}
        stops = [row for row in over.last if row[0] == "message_stop"]
        return [row_of("message_delta", told), *(stops or [_STOP])]


_STOP = row_of("message_stop", {"type": "message_stop"})
