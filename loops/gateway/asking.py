"""One round: the model is asked, and what comes of it is shown, or kept back until it is over."""

from collections.abc import AsyncIterator
from typing import Any

from loops.blocks import Raw
from loops.closing import close
from loops.events import AgentEvent, StreamEnd
from loops.model import ModelRequest
from loops.reply import Frames
from loops.runtime import Runtime

from .call import Call
from .folds import folded
from .reasons import CUT
from .relay import RelayPort
from .rounds import Mode
from .rows import Row, Unpacker, packed


class Asked:
    """A round under way."""

    def __init__(self, call: Call, port: RelayPort, *, is_shown: bool) -> None:
        self.call = call
        self.model = port.name
        """`vendor/model`, as the provider knows it."""
        self._port = port
        self._is_shown = is_shown
        self._rows: list[Row] = []
        self._end: StreamEnd | None = None
        self._body: Raw | None = None

    @property
    def is_seen(self) -> bool:
        """Whether the caller sees the round while it goes on, so that nothing of it can change."""
        asked = self.call.asked
        return self._is_shown and asked.streams and asked.mode is not Mode.HOLD

    def kept_back(self) -> list[AgentEvent]:
        """Return the frames that were not shown as they came."""
        return [] if self._is_shown else [*packed(self._rows)]

    @property
    def is_cut(self) -> bool:
        """Whether the provider broke off, after the caller had seen something."""
        return self._end is None or self._end.stop_reason == CUT

    def body(self) -> Raw:
        """Return the whole reply as a plain body."""
        if self._body is None:
            self._body = folded(self.call.surface, self._rows)
        return self._body

    async def events(self, runtime: Runtime) -> AsyncIterator[AgentEvent]:
        """Yield what is shown of the round as it comes.

        Raises:
            ProviderError: When the service fails before anything was shown.
        """
        turn = await runtime.open_turn(self._request(), self._port)
        reply, unpacker = turn.events(), Unpacker()
        try:
            async for event in reply:
                if isinstance(event, Frames):
                    self._rows += unpacker.feed(event)
                elif isinstance(event, StreamEnd):
                    self._end = event
                if self._is_shown or not isinstance(event, Frames):
                    yield event
        finally:
            if self._end is None:
                await turn.leave()
            await close(reply)

    def _request(self) -> ModelRequest:
        """Return what is asked.

        A first round that fails before it has said anything is the caller's to see at once; what
        fails later would lose something, so that the model is asked again as everywhere.
        """
        call, asked = self.call, self.call.asked
        params: dict[str, Any] = {
            "body": call.body,
            "headers": asked.headers,
            "streams": asked.streams,
            "is_live": self.is_seen,
            "operation": asked.operation,
        }
        is_first = call.depth == 0
        return ModelRequest(
            model=self.model,
            messages=(),
            params=params,
            waits=not is_first,
            tries=1 if is_first else None,
        )
