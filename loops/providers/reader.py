"""What all readers of replies share: bytes become events, until the reply is over; pure."""

from abc import ABC, abstractmethod

import orjson

from loops.errors import Unavailable
from loops.jsonable import cut_text
from loops.reply import ModelEvent

from .sse import Frame, SseParser


class ReplyReader(ABC):
    """Makes events of one reply's bytes."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._parser = SseParser()
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

    def feed(self, chunk: bytes) -> list[ModelEvent]:
        """Return what the bytes complete; nothing after the end of the reply.

        Raises:
            ProviderError: When the service reports a failure, or sends what no reply can be.
        """
        events: list[ModelEvent] = []
        self.says_more = False
        for frame in self._parser.feed(chunk):
            if self.is_over:
                break
            self._take(frame, events)
        return events

    def _json(self, data: bytes) -> object:
        """Return what the data says.

        Raises:
            Unavailable: When it is no JSON.
        """
        try:
            return orjson.loads(data)
        except orjson.JSONDecodeError as error:
            shown = cut_text(data.decode("utf-8", "replace"), 100)
            raise Unavailable(f"the model {self._model!r} sent no JSON: {shown!r}") from error
