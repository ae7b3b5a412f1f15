"""The run of an agent, told as the rounds of a gateway's run; pure.

Each turn is a round. Its calls are answered by our own workers, so all of them are taken up: a
caller who is shown rounds as they are sees the agent's calls, and is never asked to answer one.
"""

from collections.abc import Sequence
from typing import cast

from loops.events import AgentEvent, ModelEvent
from loops.lifecycle import RunCompleted
from loops.reply import Frames, StreamEnd, StreamStart

from .bodies import calls_in
from .chat_writer import ChatWriter
from .folds import folded
from .json_rows import body_row
from .message_writer import MessageWriter
from .rounds import Outcome, RoundEnd, Surface
from .rows import Row

_TOLD = tuple(each for each in ModelEvent.__args__ if each is not Frames)

Told = Row | RoundEnd
"""What a gateway's run would have: a row of the open round, or its end."""


class AgentRounds:
    """Takes the events of a run in their order.

    Turns that are asked side by side are told one after the other. Which round is the last one is
    known when the run is over: only then the last one ends.

    Args:
        surface: The protocol of the rows.
        streams: Whether the rows are those of a stream; else each round is one body.
        id: The first round's id; the others have their number behind it.
        model: The agent's name, as its caller knows it.
        created: When the run began, in seconds since 1970.
        tells_usage: Whether the caller has asked for what a streamed chat completion costs.
    """

    def __init__(
        self,
        surface: Surface,
        *,
        streams: bool,
        id: str,  # noqa: A002 - as the protocols call it
        model: str,
        created: int = 0,
        tells_usage: bool = True,
    ) -> None:
        self._surface = surface
        self._streams = streams
        self._id = id
        self._model = model
        self._created = created
        self._tells_usage = tells_usage
        self._open: _Round | None = None
        self._waiting: dict[int | None, list[ModelEvent]] = {}
        """What belongs to turns that begin when the open one has ended."""
        self._count = 0

    def feed(self, event: AgentEvent) -> list[Told]:
        """Return what the event brings; an event of no reply brings nothing, the run's end all."""
        if isinstance(event, RunCompleted):
            return self.close()
        if not isinstance(event, _TOLD):
            return []
        told = cast("ModelEvent", event)
        now = self._open
        if now is not None and now.turn != told.turn and not now.may_end:
            self._waiting.setdefault(told.turn, []).append(told)
            return []
        shown = self._take(told)
        return [*shown, *self._go_on()]

    def close(self) -> list[Told]:
        """Return the end of all: the run is over, and nothing comes any more.

        A run that has said nothing has an empty answer.
        """
        shown: list[Told] = []
        if not self._count:
            self._open = self._begin(None)
        while self._open is not None or self._waiting:
            if self._waiting:
                shown += self._end(Outcome.AGAIN)
                shown += self._begin_waiting()
            else:
                calls = self._open.claimed() if self._open is not None else frozenset[int]()
                shown += self._end(Outcome.CLOSED if calls else Outcome.FINAL)
        return shown

    def _take(self, event: ModelEvent) -> list[Told]:
        shown: list[Told] = []
        if self._open is not None and self._open.begins_another(event):
            shown += self._end(Outcome.AGAIN)
        if self._open is None:
            if isinstance(event, StreamEnd):
                # The end of a turn of which nothing was told.
                return shown
            self._open = self._begin(event.turn)
        return [*shown, *self._rows(self._open.take(event))]

    def _go_on(self) -> list[Told]:
        """Return what has waited for the open round to end, if it has."""
        shown: list[Told] = []
        while self._waiting and (self._open is None or self._open.is_over):
            shown += self._end(Outcome.AGAIN)
            shown += self._begin_waiting()
        return shown

    def _begin_waiting(self) -> list[Told]:
        turn = next(iter(self._waiting))
        return [each for event in self._waiting.pop(turn) for each in self._take(event)]

    def _begin(self, turn: int | None) -> "_Round":
        self._count += 1
        identity = self._id if self._count == 1 else f"{self._id}_{self._count}"
        if self._surface is Surface.MESSAGES:
            return _Round(self._surface, turn, MessageWriter(id=identity, model=self._model))
        tells_usage = self._tells_usage or not self._streams
        writer = ChatWriter(
            id=identity, model=self._model, created=self._created, tells_usage=tells_usage
        )
        return _Round(self._surface, turn, writer)

    def _end(self, outcome: Outcome) -> list[Told]:
        over, self._open = self._open, None
        if over is None:
            return []
        rows = self._rows([] if over.is_over else over.take(StreamEnd(turn=over.turn)))
        whole = [] if self._streams else [body_row(over.body())]
        return [*rows, *whole, RoundEnd(outcome, over.claimed())]

    def _rows(self, rows: Sequence[Row]) -> list[Row]:
        return list(rows) if self._streams else []


class _Round:
    """A turn that is told."""

    def __init__(
        self, surface: Surface, turn: int | None, writer: MessageWriter | ChatWriter
    ) -> None:
        self._surface = surface
        self._writer = writer
        self._rows: list[Row] = []
        self.turn = turn
        self.is_over = False
        """Whether the turn has ended; its round ends when it is known what follows."""

    @property
    def may_end(self) -> bool:
        """Whether another turn may begin: text of no turn ends whenever one does."""
        return self.is_over or self.turn is None

    def begins_another(self, event: ModelEvent) -> bool:
        is_other = event.turn != self.turn
        return self.is_over or is_other or (isinstance(event, StreamStart) and bool(self._rows))

    def take(self, event: ModelEvent) -> list[Row]:
        rows = self._writer.feed(event)
        self._rows += rows
        self.is_over = isinstance(event, StreamEnd)
        return rows

    def body(self) -> dict[str, object]:
        return folded(self._surface, self._rows)

    def claimed(self) -> frozenset[int]:
        return frozenset(call.place for call in calls_in(self._surface, self.body()))
