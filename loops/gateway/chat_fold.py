"""The stream of a chat completion, folded into its plain body, and back; pure.

What is not known is kept: of a chunk, of a choice, of what a delta says.
"""

from collections.abc import Iterator, Sequence

from loops.blocks import Raw
from loops.providers.openai_calls import Calls
from loops.providers.told import fields, objects, word

from .growing import Pieces, grown, overlaid
from .json_rows import DONE, row_of, told_by
from .rows import BODY, Row

CHUNK = "chat.completion.chunk"


def fold_chat(rows: Sequence[Row]) -> Raw:
    """Return the plain body of the chat completion that the rows are."""
    if rows and rows[0][0] == BODY:
        return told_by(rows[0])
    whole = ChatFold()
    for row in rows:
        whole.feed(told_by(row))
    return whole.body()


class ChatFold:
    """A chat completion that grows by its chunks."""

    def __init__(self) -> None:
        self._told: Raw = {}
        self._usage: Raw = {}
        self._choices: dict[int, _Choice] = {}

    def feed(self, chunk: Raw) -> None:
        """Let the completion grow by the chunk; the first one counts for what it is called."""
        others = {name: each for name, each in chunk.items() if name not in _NOT_KEPT}
        self._told = {**overlaid(self._told, others), **_named(self._told)}
        self._usage = overlaid(self._usage, fields(chunk.get("usage")))
        for told in objects(chunk.get("choices")):
            self._choices.setdefault(index_of(told), _Choice()).feed(told)

    def body(self) -> Raw:
        """Return the completion so far."""
        choices = [choice.whole(index) for index, choice in sorted(self._choices.items())]
        told: Raw = {**self._told, "object": "chat.completion", "choices": choices}
        return {**told, "usage": self._usage} if self._usage else told


_NOT_KEPT = frozenset({"object", "choices", "usage", "error", "obfuscation"})
"""What of a chunk is no part of the whole, or is put together by itself."""


def _named(told: Raw) -> Raw:
    return {name: told[name] for name in ("id", "created", "model") if told.get(name)}


def index_of(choice: Raw) -> int:
    """Return the number of a choice; the first where it does not say."""
    index = choice.get("index")
    return index if isinstance(index, int) else 0


class _Choice:
    """One of the answers of a chat completion."""

    def __init__(self) -> None:
        self._told: Raw = {}
        self._message: Raw = {}
        self._pieces = Pieces()
        self._calls = CallsFold()

    def feed(self, choice: Raw) -> None:
        others = {name: each for name, each in choice.items() if name not in {"delta", "logprobs"}}
        self._told = overlaid(self._told, others)
        if "logprobs" in choice:
            self._told["logprobs"] = grown(self._told.get("logprobs"), choice["logprobs"])
        for name, more in fields(choice.get("delta")).items():
            match name, more:
                case "tool_calls", _:
                    self._calls.feed(more)
                case "role", _:
                    self._message.setdefault(name, more)
                case _, str():
                    self._pieces.add(name, more)
                case _:
                    self._message[name] = grown(self._message.get(name), more)

    def whole(self, index: int) -> Raw:
        said: Raw = {"role": "assistant", "content": None, **self._message}
        text = self._pieces.joined({})
        if isinstance(parts := said["content"], list) and text.get("content"):
            # A service that tells parts by now and text by then.
            told = {"type": "text", "text": text.pop("content")}
            said["content"] = [*parts, told]
        said |= text
        if calls := self._calls.whole():
            said |= {"tool_calls": calls, "content": said["content"] or None}
        return {"finish_reason": None, **self._told, "index": index, "message": said}


class CallsFold:
    """The calls of one choice, as they grow."""

    def __init__(self) -> None:
        self._calls = Calls()
        self._others: list[Raw] = []
        """What else is told of each call."""

    def feed(self, deltas: object) -> None:
        """Let the calls grow by the `tool_calls` of a delta."""
        for delta in objects(deltas):
            custom = fields(delta.get("custom"))
            written = {"name": custom.get("name"), "arguments": custom.get("input")}
            said = {**delta, "function": written} if custom else delta
            call, is_new, _ = self._calls.take(said, len(self._others))
            if is_new:
                self._others.append({"type": "custom" if custom else "function"})
            others = {name: each for name, each in delta.items() if name not in _OF_CALL}
            self._others[call.block] = grown(self._others[call.block], others)

    def whole(self) -> list[Raw]:
        """Return the calls so far, as a plain body has them."""
        return [
            {"id": call.id, **others, "custom": {"name": call.name, "input": call.text}}
            if others["type"] == "custom"
            else {
                "id": call.id,
                **others,
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call, others in zip(self._calls, self._others, strict=True)
        ]


_OF_CALL = frozenset({"id", "index", "type", "function", "custom"})


def rows_of_chat(body: Raw, *, tells_usage: bool = True) -> list[Row]:
    """Return the rows of a stream that tells the body; `tells_usage` where the caller asked."""
    told = {name: each for name, each in body.items() if name not in _NOT_KEPT}
    base: Raw = {**told, "object": CHUNK}
    rows = [
        row_of("", {**base, "choices": [choice]})
        for told in objects(body.get("choices"))
        for choice in _deltas(told)
    ]
    if tells_usage and (usage := fields(body.get("usage"))):
        rows.append(row_of("", {**base, "choices": [], "usage": usage}))
    return [*rows, DONE]


def _deltas(choice: Raw) -> Iterator[Raw]:
    """Yield a choice piece by piece: who speaks, what is said, the calls, the end."""
    index, message = index_of(choice), fields(choice.get("message"))
    head: Raw = {"role": word(message.get("role")) or "assistant"}
    head |= {name: each for name, each in message.items() if each is None}
    head.pop("tool_calls", None)
    yield {"index": index, "delta": head, "finish_reason": None}
    said = {
        name: each
        for name, each in message.items()
        if each is not None and name not in {"role", "tool_calls"}
    }
    logprobs = {"logprobs": choice["logprobs"]} if "logprobs" in choice else {}
    if said or logprobs:
        yield {"index": index, "delta": said, **logprobs, "finish_reason": None}
    if calls := numbered_calls(objects(message.get("tool_calls"))):
        yield {"index": index, "delta": {"tool_calls": calls}, "finish_reason": None}
    others = {name: each for name, each in choice.items() if name not in {"message", "logprobs"}}
    yield {**others, "index": index, "delta": {}}


def numbered_calls(calls: Sequence[Raw]) -> list[Raw]:
    """Return whole calls as a delta tells them."""
    return [{"index": index, **call} for index, call in enumerate(calls)]
