"""Messages made again from the events of a run: of a log, or of a run inside of another one.

Replies that are written side by side are told apart by the numbers of their turns, and each keeps
the place of its first event. A number may come again once its reply is complete: then it is that of
another run. Two runs whose replies have one number at the same time cannot be told apart.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict

from .events import AgentEvent, Retry, StreamStart, ToolCallResult, ToolEnd
from .fold import Fold
from .messages import Message, MessageLike, Messages, ToolResult, tool_message
from .reply import ModelEvent


class MessageBundle(BaseModel):
    """What an agent inside of a tool has said and done, as the tool's result."""

    model_config = ConfigDict(frozen=True)

    type: Literal["messages"] = "messages"
    messages: list[Message]

    def plain(self) -> dict[str, Any]:
        """Return the messages as providers and sessions have them."""
        return {"type": self.type, "messages": [message.raw() for message in self.messages]}

    @property
    def text(self) -> str:
        """The last text that the agent has said; empty when it has said none."""
        said = [message.text for message in self.messages if message.role == "assistant"]
        return next((text for text in reversed(said) if text), "")


class _Turn:
    """A reply that grows, and the results of its calls."""

    def __init__(self, number: int | None) -> None:
        self.number = number
        self.fold = Fold()
        self.results: list[ToolResult] = []

    @property
    def messages(self) -> list[Message]:
        reply, answers = self.fold.message(), tool_message(self.results)
        return [each for each in (reply, answers) if each is not None and each.content]


class MessageHydrator:
    """Makes messages of events that do not carry them; fed with every event of a run, in order.

    Args:
        seed: The messages that were there before; they stay as they are.
    """

    def __init__(self, seed: Iterable[MessageLike] = ()) -> None:
        self._seed = Messages.of(seed)
        self._turns: list[_Turn] = []
        self._calls: dict[str, _Turn] = {}
        self._last: _Turn | None = None

    def feed(self, event: AgentEvent) -> AgentEvent:
        """Take the next event, and return it with the message that it is part of."""
        match event:
            case Retry():
                self._forget()
            case ToolCallResult():
                self._answer(event)
            case _ if isinstance(event, _MODEL_EVENTS):
                return self._grow(cast("ModelEvent", event))
            case _:
                pass
        return event

    def _grow(self, event: ModelEvent) -> AgentEvent:
        turn = self._numbered(event.turn)
        if isinstance(event, StreamStart):
            turn = self._begun(turn, event.turn)
        elif turn is None and event.replayed and isinstance(event, ToolEnd):
            # A turn that is gone on with shows its calls again; they stand in what was before.
            return event
        turn = turn or self._begun(None, event.turn)
        turn.fold.feed(event)
        if isinstance(event, ToolEnd):
            self._calls[event.call or event.id] = turn
        self._last = turn
        return replace(event, snapshot=turn.fold.snapshot())

    def _numbered(self, number: int | None) -> _Turn | None:
        return next((turn for turn in reversed(self._turns) if turn.number == number), None)

    def _begun(self, before: _Turn | None, number: int | None) -> _Turn:
        """Return a new turn: in the place of one that never came to its end, or the last."""
        turn = _Turn(number)
        if before is not None and not before.fold.is_complete:
            self._turns[self._turns.index(before)] = turn
        else:
            self._turns.append(turn)
        return turn

    def _answer(self, event: ToolCallResult) -> None:
        turn = self._calls.get(event.call) or self._numbered(event.turn) or self._last
        if turn is None:
            turn = self._last = self._begun(None, event.turn)
        turn.results.append(event.result)

    def _forget(self) -> None:
        """What was yielded since the oldest reply without an end is void; else the last reply."""
        broken = [at for at, turn in enumerate(self._turns) if not turn.fold.is_complete]
        del self._turns[broken[0] if broken else -1 :]
        self._last = self._turns[-1] if self._turns else None

    @property
    def messages(self) -> Messages:
        """All messages so far, each turn's results after its reply."""
        return Messages([*self._seed, *(each for turn in self._turns for each in turn.messages)])

    @property
    def message(self) -> Message | None:
        """The reply that grew last; None before the first."""
        return None if self._last is None else self._last.fold.message()

    @property
    def ended(self) -> bool:
        """Whether that reply is complete."""
        return self._last is not None and self._last.fold.is_complete

    @property
    def stop_reason(self) -> str | None:
        """Why that reply ended, once it is complete."""
        return None if self._last is None else self._last.fold.stop_reason


_MODEL_EVENTS = cast("tuple[type, ...]", ModelEvent.__args__)

__all__ = ["MessageBundle", "MessageHydrator"]
