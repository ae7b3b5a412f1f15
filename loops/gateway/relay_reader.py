"""The streams of providers whose protocol the caller speaks, passed on row by row; pure.

A row's text is the provider's own, whatever it says; what it has cost, and why it ended, is read
on the side.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, cast

from loops.blocks import Raw
from loops.errors import Unavailable
from loops.messages import Usage
from loops.providers.failures import hidden
from loops.providers.reader import ReplyReader
from loops.providers.reading import read_json
from loops.providers.sse import Frame
from loops.providers.told import fields, objects, word
from loops.reply import ModelEvent, StreamEnd, StreamStart

from .reasons import CUT, reason_of_chat
from .rounds import Surface
from .rows import Row, packed
from .usages import usage_of_chat, usage_of_message


class RelayReader(ReplyReader):
    """Reads one reply, and gives its rows as they came; those that came together in one event."""

    def __init__(self, model: str, *, secret: str = "", is_live: bool = False) -> None:
        """`is_live` says whether a failure that comes after a row is a row itself."""
        super().__init__(model, secret=secret)
        self._is_live = is_live
        self._has_begun = False
        self.stop_reason: str | None = None
        self.usage: Usage | None = None
        self._counts: Raw = {}

    def feed(self, chunk: bytes) -> Iterator[ModelEvent]:
        """Yield what the bytes complete; nothing after the end of the reply.

        Raises:
            ProviderError: When the service reports a failure, and nobody has seen a row yet or the
                reply is not live; or when it sends what no reply can be.
        """
        self.says_more = False
        rows: list[Row] = []
        was_begun = self._has_begun
        try:
            for frame in self._parser.feed(chunk):
                if self.is_over:
                    break
                rows.append(self._row(frame))
        finally:
            if rows and not was_begun:
                yield StreamStart(model=self._model)
            yield from packed(rows)

    def _take(self, frame: Frame, events: list[ModelEvent]) -> None:
        events += packed([self._row(frame)])

    def close(self) -> list[ModelEvent]:
        """Return nothing: whether the reply is over is said by `is_over`."""
        self.is_over = self.is_over or self.is_whole
        return []

    def _row(self, frame: Frame) -> Row:
        name, data = frame
        text = self._text(name, data)
        self._has_begun = True
        return name.decode("utf-8", "replace"), text

    def _text(self, name: bytes, data: bytes) -> str:
        """Return the data as text, when what it says is noted."""
        text, told = read_json(data)
        if told is None:
            # It raises: what is no JSON is no part of a reply.
            told = self._json(data)
        if self._tells_failure(name, told):
            self._fail(told)
            text = hidden(text, self._secret)
        else:
            self._note(fields(told))
        return text

    def _fail(self, told: object) -> None:
        if not (self._is_live and self._has_begun):
            raise self._failure(told)
        self.stop_reason = CUT
        self.is_over = True

    @abstractmethod
    def _tells_failure(self, name: bytes, told: object) -> bool:
        """Whether the row reports that the service has failed.

        Raises:
            Unavailable: When it is no row at all.
        """

    @abstractmethod
    def _note(self, told: Mapping[str, Any]) -> None:
        """Note what the row says of the end and of the cost of the reply."""


class MessagesReader(RelayReader):
    """Reads a stream of Messages."""

    @property
    def is_whole(self) -> bool:
        """Whether the reply may end here: only where its end was told."""
        return self.is_over

    def _tells_failure(self, name: bytes, told: object) -> bool:
        if not isinstance(told, dict):
            raise Unavailable(f"the model {self._model!r} sent an event that is no object")
        kind = word(cast("Raw", told).get("type"))
        return b"error" in {name, kind.encode()} or (not kind and "error" in told)

    def _note(self, told: Mapping[str, Any]) -> None:
        kind = told.get("type")
        self.says_more = self.says_more or kind != "ping"
        match kind:
            case "message_start":
                self._count(fields(told.get("message")).get("usage"))
            case "message_delta":
                reason = reason_of(Surface.MESSAGES, fields(told.get("delta")).get("stop_reason"))
                self.stop_reason = reason or self.stop_reason
                self._count(told.get("usage"))
            case "message_stop":
                self.is_over = True
            case _:
                return

    def _count(self, usage: object) -> None:
        # What is told later is the whole so far; what is not told again stays.
        said = {name: count for name, count in fields(usage).items() if count is not None}
        self._counts |= said
        self.usage = usage_of_message(self._counts)


class ChatReader(RelayReader):
    """Reads a stream of Chat Completions."""

    @property
    def is_whole(self) -> bool:
        """Whether nothing that matters is missing, though more may come: what it has cost."""
        return self.stop_reason is not None

    def _text(self, name: bytes, data: bytes) -> str:
        if data.strip() == b"[DONE]":
            self.is_over = True
            return data.decode("utf-8", "replace")
        return super()._text(name, data)

    def _tells_failure(self, name: bytes, told: object) -> bool:
        chunk = fields(told)
        is_error = bool(chunk.get("error")) or chunk.get("object") == "error"
        return not isinstance(told, dict) or is_error or name == b"error"

    def _note(self, told: Mapping[str, Any]) -> None:
        for choice in _choices(told):
            reason = reason_of(Surface.CHAT, choice.get("finish_reason"))
            self.stop_reason = self.stop_reason or reason
            self.says_more = self.says_more or bool(reason or choice.get("delta"))
        if usage := fields(told.get("usage")):
            self.usage = usage_of_chat(usage)
            self.says_more = True


READERS: Mapping[Surface, type[RelayReader]] = {
    Surface.MESSAGES: MessagesReader,
    Surface.CHAT: ChatReader,
}
"""Who reads a stream of the protocol."""


def reason_of(surface: Surface, told: object) -> str | None:
    """Return why a reply ended, in Anthropic's words whoever says it; never `cut`."""
    reason = word(told)
    if surface is Surface.CHAT and reason:
        return reason_of_chat(reason, has_calls=False)
    return "end_turn" if reason == CUT else reason or None


def end_of(surface: Surface, body: Mapping[str, Any]) -> StreamEnd:
    """Return the end of a reply that came as a whole body."""
    usage = body.get("usage")
    if surface is Surface.MESSAGES:
        cost = usage_of_message(usage) if usage else None
        return StreamEnd(stop_reason=reason_of(surface, body.get("stop_reason")), usage=cost)
    reasons = (reason_of(surface, each.get("finish_reason")) for each in _choices(body))
    cost = usage_of_chat(usage) if usage else None
    return StreamEnd(stop_reason=next(filter(None, reasons), None), usage=cost)


def _choices(told: Mapping[str, Any]) -> list[Raw]:
    return objects(told.get("choices"))
