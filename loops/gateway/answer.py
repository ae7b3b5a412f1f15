"""A reply as callbacks get it: a real dict, whose members are attributes as well.

Whatever the surface, its calls stand in `.content` and in `.choices[0].message.tool_calls`. It is a
copy: what a callback changes of it changes nothing else.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

from loops.blocks import Raw

from .bodies import chat_of_message, message_of_chat
from .rounds import Surface

_PERHAPS = frozenset({"tool_calls", "function_call"})
"""What the original library's objects have as None where it is not there."""


class Answer(dict[str, Any]):
    """A body, or a part of one."""

    def __init__(self, body: Mapping[str, Any], surface: Surface | None = None) -> None:
        super().__init__((name, _grown(value)) for name, value in body.items())
        self._surface = surface
        self._seen: Answer | None = None

    def __getattr__(self, name: str) -> Any:
        # A copy that is being made has none of its own names yet.
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            if name in _PERHAPS:
                return None
            raise AttributeError(f"the reply has no {name!r}") from None

    def __missing__(self, name: str) -> Any:
        elsewhere = {Surface.MESSAGES: "choices", Surface.CHAT: "content"}
        if self._surface is None or elsewhere[self._surface] != name:
            raise KeyError(name)
        if self._seen is None:
            turned = chat_of_message if self._surface is Surface.MESSAGES else message_of_chat
            self._seen = Answer(turned(self))
        return self._seen[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Return the member, or the default where there is none."""
        try:
            return self[name]
        except KeyError:
            return default

    def model_dump(self) -> Raw:
        """Return the body as plain dicts and lists."""
        return {name: _plain(value) for name, value in self.items()}


def _grown(value: Any) -> Any:
    if isinstance(value, Mapping):
        return Answer(cast("Mapping[str, Any]", value))
    return _listed(value, _grown)


def _plain(value: Any) -> Any:
    if isinstance(value, Answer):
        return value.model_dump()
    return _listed(value, _plain)


def _listed(value: Any, turned: Callable[[Any], Any]) -> Any:
    return [turned(each) for each in cast("list[Any]", value)] if _is_list(value) else value


def _is_list(value: object) -> bool:
    return isinstance(value, list)
