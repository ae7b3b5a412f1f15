"""The events of a gateway's run, as its caller gets them: frames of a stream, or one body; pure."""

import orjson

from loops.blocks import Raw
from loops.events import (
    AgentEvent,
    Retry,
    RunCancelled,
    RunCompleted,
    RunExpired,
    RunFailed,
)
from loops.reply import Frames

from .failing import Failure, failure_in
from .plain_view import is_untouched, plain_body
from .rendering import error_rows
from .rounds import Mode, Outcome, Round, RoundEnd, Surface, round_end_of
from .rows import Row, Unpacker
from .views import view_of

BROKEN = Failure(502, "the reply was lost in the middle, and cannot be taken back; ask again")
ENDED = Failure(500, "the run ended without an answer", code="no_answer")

STATUSES = {"timed_out": 504, "worker_lost": 502}
"""The statuses of runs that failed by no fault of a model or a callback, by their code."""

_ENDS = frozenset({Outcome.FINAL, Outcome.CLOSED, Outcome.GIVEN, Outcome.CUT})


class StreamTelling:
    """A stream, as it grows."""

    def __init__(self, surface: Surface, mode: Mode) -> None:
        self._surface = surface
        self._view = view_of(surface, mode)
        self._unpacker = Unpacker()
        self.is_over = False
        """Whether nothing comes any more."""
        self.is_complete = False
        """Whether the answer came to its own end: then the run has, too."""
        self.failure: Failure | None = None
        """Why there is no answer, where nothing of one was shown."""

    @property
    def has_shown(self) -> bool:
        """Whether the caller has something."""
        return self._view.has_shown

    def take(self, event: AgentEvent) -> list[Row]:
        """Return what is to be sent now."""
        if self.is_over:
            return []
        if isinstance(event, Frames):
            return self._view.rows(self._unpacker.feed(event))
        if isinstance(event, Retry):
            return self._again()
        end = round_end_of(event)
        if end is not None:
            self.is_over = self.is_complete = end.outcome in _ENDS
            return self._view.end(end)
        failure = failure_in(event) or failure_at_end(event)
        self.is_complete = failure is not None
        return [] if failure is None else self.fail(failure)

    def fail(self, failure: Failure) -> list[Row]:
        """End the stream with a failure."""
        self.is_over = True
        if not self.has_shown:
            self.failure = failure
            return []
        return error_rows(self._surface, failure)

    def _again(self) -> list[Row]:
        """Forget the open round, which is asked anew; what the caller has of it is the end."""
        self._unpacker = Unpacker()
        if self._view.reset():
            return []
        return self.fail(BROKEN)


class PlainTelling:
    """One body, once all of it is there."""

    def __init__(self, surface: Surface, mode: Mode) -> None:
        self._surface = surface
        self._mode = mode
        self._rounds: list[Round] = []
        self._rows: list[Row] = []
        self._last: list[Row] = []
        self._unpacker = Unpacker()
        self.has_shown = False
        self.is_over = False
        """Whether nothing comes any more."""
        self.is_complete = False
        """Whether the answer came to its own end: then the run has, too."""
        self.failure: Failure | None = None
        """Why there is no answer."""

    def take(self, event: AgentEvent) -> list[Row]:
        """Take an event; nothing is sent before the end."""
        if self.is_over:
            return []
        if isinstance(event, Frames):
            self._rows += self._unpacker.feed(event)
        elif isinstance(event, Retry):
            self._rows, self._unpacker = [], Unpacker()
        elif (end := round_end_of(event)) is not None:
            self._end(end)
        elif failure := failure_in(event) or failure_at_end(event):
            self.is_complete = True
            self.fail(failure)
        return []

    def _end(self, end: RoundEnd) -> None:
        body: Raw = orjson.loads(self._rows[-1][1]) if self._rows else {}
        self._rounds.append(Round(body, end))
        self._last, self._rows = self._rows, []
        self.is_over = self.is_complete = end.outcome in _ENDS

    def fail(self, failure: Failure) -> list[Row]:
        """End with a failure."""
        self.is_over, self.failure = True, failure
        return []

    def body(self) -> bytes:
        """Return the answer: that of a single round word for word."""
        if self._last and is_untouched(self._rounds):
            return self._last[-1][1].encode()
        return orjson.dumps(plain_body(self._surface, self._rounds, self._mode))


Telling = StreamTelling | PlainTelling


def telling_of(surface: Surface, mode: Mode, *, streams: bool) -> Telling:
    """Return how a caller is told."""
    return StreamTelling(surface, mode) if streams else PlainTelling(surface, mode)


def failure_at_end(event: AgentEvent) -> Failure | None:
    """Return why a run's end is no answer, None for any other event."""
    match event:
        case RunFailed(code=code, error=message):
            return Failure(STATUSES.get(code or "", 500), message or "", code=code or "")
        case RunCancelled():
            return Failure(499, "the request was cancelled", code="cancelled")
        case RunExpired():
            return Failure(503, "no worker has taken the request in time", code="expired")
        case RunCompleted():
            return ENDED
        case _:
            return None
