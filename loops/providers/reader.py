"""What all readers of replies share: bytes become events, until the reply is over; pure."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import cast

import orjson

from loops.errors import ProviderError, Unavailable
from loops.jsonable import cut_text
from loops.reply import ModelEvent

from .failures import described, failure_of_refusal, hidden
from .halves import Halves
from .sse import Frame, SseParser
from .told import Json


class ReplyReader(ABC):
    """Makes events of one reply's bytes."""

    def __init__(self, model: str, *, secret: str = "") -> None:
        self._model = model
        self._secret = secret
        """What no error may show, whatever a service echoes."""
        self._parser = SseParser()
        self._halves: Halves | None = None
        """Puts halves of characters together, once there may be some."""
        self.is_over = False
        """Whether the reply has come to its end."""
        self.says_more = False
        """Whether the last bytes said anything but that the service is alive."""

    @property
    @abstractmethod
    def is_whole(self) -> bool:
        """Whether the reply may end here, though its end was not told."""

    @abstractmethod
    def close(self) -> list[ModelEvent]:
        """Return what the end of the connection completes."""

    @abstractmethod
    def _take(self, frame: Frame, events: list[ModelEvent]) -> None:
        """Add the events that a frame tells."""

    def feed(self, chunk: bytes) -> Iterator[ModelEvent]:
        """Yield what the bytes complete; nothing after the end of the reply.

        What came before a failure is yielded before the failure is raised.

        Raises:
            ProviderError: When the service reports a failure, or sends what no reply can be.
        """
        self.says_more = False
        events: list[ModelEvent] = []
        try:
            for frame in self._parser.feed(chunk):
                if self.is_over:
                    break
                self._take(frame, events)
        finally:
            yield from events if self._halves is None else self._halves.join(events)

    def _json(self, data: bytes) -> Json:
        """Return what the data says.

        Raises:
            Unavailable: When it is no JSON.
        """
        try:
            told: Json = orjson.loads(data)
        except orjson.JSONDecodeError:
            return self._lenient_json(data)
        return told

    def _lenient_json(self, data: bytes) -> Json:
        """Read what orjson does not: halves of characters, which are put together after this."""
        self._halves = self._halves or Halves()
        text = data.decode("utf-8", "replace")
        try:
            return cast("Json", json.loads(text))
        except (ValueError, RecursionError) as error:
            shown = cut_text(hidden(text, self._secret), 100)
            raise Unavailable(f"the model {self._model!r} sent no JSON: {shown!r}") from error

    def _failure(self, told: object) -> ProviderError:
        """Return the error that the service reports."""
        return failure_of_refusal(self._model, described(told), secret=self._secret)
