"""Anything that a tool may return, as a value that JSON can carry and that no reader chokes on."""

import base64
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from enum import Enum
from typing import Any, Protocol, cast

import orjson
from pydantic import BaseModel

MAX_TEXT = 256 * 1024
"""How many characters of a result's text are kept; what is longer is cut, with a marker."""

MAX_DEPTH = 64
"""How deep a value may be nested; what lies deeper is only named."""

_BIG = 2**63


class Plain(Protocol):
    """A value that says itself what is told of it."""

    def plain(self) -> Any:
        """Return what JSON can carry, or what can be made that."""
        ...


def clean_text(text: str) -> str:
    """Return the text with each lone surrogate replaced, since UTF-8 cannot carry those."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def fit_text(text: str) -> str:
    """Return the text as every model and store takes it: without half characters, without NUL."""
    return clean_text(text).replace("\0", "\ufffd")


def cut_text(text: str, limit: int = MAX_TEXT) -> str:
    """Return at most `limit` characters of the text, and say its true length if it was longer."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[cut: {len(text)} characters in all, the first {limit} are shown]"


def jsonable(value: object) -> Any:
    """Return the value as JSON can carry it; lossy where JSON is poorer, but never raising.

    Numbers that JSON has no form for (NaN, infinities, integers past 64 bits) become text, sets
    become sorted lists, bytes become base64, times their ISO form.
    """
    return _Conversion(_described).of(value, ())


def fit(value: object) -> Any:
    """Return the value as `jsonable` does, with all its text as every model and store takes it."""
    return _Conversion(_described, fit_text).of(value, ())


def strictly_jsonable(value: object) -> Any:
    """Return the value as `jsonable` does, if it has a form that says something.

    Raises:
        TypeError: When an object in it would only be told by its place in memory.
    """
    return _Conversion(_text_of).of(value, ())


def bounded(value: object, limit: int = MAX_TEXT) -> Any:
    """Return the value as JSON can carry it, cut to text with a marker if it is too long."""
    converted = fit(value)
    if isinstance(converted, str):
        return cut_text(converted, limit)
    encoded = orjson.dumps(converted)
    if len(encoded) <= limit:
        return converted
    return cut_text(encoded.decode(), limit)


def parse_object(text: str) -> dict[str, Any]:
    """Return the JSON object that the text holds; an empty text is an empty object.

    Raises:
        ValueError: When the text is no JSON or no object; its words say where and why.
    """
    if not text.strip():
        return {}
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if isinstance(value, dict):
        return cast("dict[str, Any]", jsonable(cast("object", value)))
    raise ValueError(f"it is a JSON {_json_name(value)}, not an object")


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


_JSON_NAMES: dict[type, str] = {str: "string", list: "array", bool: "boolean", type(None): "null"}


def _json_name(value: object) -> str:
    return _JSON_NAMES.get(type(value), "number")


class _Conversion:
    """How a value becomes one of JSON; `text_of` tells what JSON has no form for."""

    def __init__(
        self, text_of: Callable[[object], str], cleaned: Callable[[str], str] = clean_text
    ) -> None:
        self._text_of = text_of
        self._cleaned = cleaned

    def of(self, value: object, trail: tuple[int, ...]) -> object:
        if type(value) is str:
            return self._cleaned(value)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str) and not isinstance(value, Enum):
            return self._cleaned(value)
        if isinstance(value, (int, float)) and not isinstance(value, Enum):
            return _number(value)
        if len(trail) >= MAX_DEPTH or id(value) in trail:
            return f"[{type(value).__name__}: nested too deeply]"
        return self._compound(value, (*trail, id(value)))

    def _compound(self, value: object, trail: tuple[int, ...]) -> object:
        if isinstance(value, Mapping):
            pairs = cast("Mapping[object, object]", value).items()
            return {self._key(key): self.of(each, trail) for key, each in pairs}
        if isinstance(value, (set, frozenset)):
            members = [self.of(each, trail) for each in cast("Iterable[object]", value)]
            return sorted(members, key=repr)
        if isinstance(value, (list, tuple)) or _is_view(value):
            return [self.of(each, trail) for each in cast("Iterable[object]", value)]
        if (says_itself := _says_itself(value)) or isinstance(value, BaseModel):
            plain = cast("Plain", value).plain() if says_itself else dict(cast("BaseModel", value))
            return self.of(plain, trail)
        if is_dataclass(value) and not isinstance(value, type):
            return {each.name: self.of(getattr(value, each.name), trail) for each in fields(value)}
        return self._leaf(value, trail)

    def _leaf(self, value: object, trail: tuple[int, ...]) -> object:
        if isinstance(value, Enum):
            return self.of(value.value, trail)
        if isinstance(value, (datetime, date, time)):
            return value.isoformat()
        if isinstance(value, timedelta):
            return value.total_seconds()
        if isinstance(value, (bytes, bytearray, memoryview)):
            return base64.b64encode(bytes(cast("bytes", value))).decode("ascii")
        return self._cleaned(self._text_of(value))

    def _key(self, key: object) -> str:
        if isinstance(key, str) and not isinstance(key, Enum):
            return self._cleaned(key)
        if isinstance(key, bool) or key is None:
            return json.dumps(key)
        return self._cleaned(self._text_of(key.value if isinstance(key, Enum) else key))


def _says_itself(value: object) -> bool:
    # Whether a value is one of a protocol, Python takes ten times as long to say.
    return callable(getattr(type(value), "plain", None))


def _number(value: float) -> object:
    if isinstance(value, int):
        return int(value) if -_BIG <= value < _BIG else _digits(value)
    return float(value) if math.isfinite(value) else str(value)


def _digits(value: int) -> str:
    # Python refuses to print integers past a few thousand digits; their hexadecimal form is free.
    return str(value) if value.bit_length() < 10_000 else hex(value)


def _is_view(value: object) -> bool:
    return type(value).__name__ in {"dict_keys", "dict_values", "dict_items", "deque"}


def _described(value: object) -> str:
    return cut_text(clean_text(str(value)), 4096)


_TOLD_BY_REPR = (int, float, complex, bytes, tuple, frozenset)
"""What Python tells by its value, though it has no `__str__` of its own."""


def _text_of(value: object) -> str:
    # Where a class says nothing, Python tells a class and an address, which help nobody.
    cls = type(value)
    if cls.__str__ is object.__str__ and not issubclass(cls, _TOLD_BY_REPR):
        name = (
            cls.__qualname__
            if cls.__module__ == "builtins"
            else f"{cls.__module__}.{cls.__qualname__}"
        )
        raise TypeError(
            f"JSON has no form for an object of the class {name!r}; give text, a number, a list, "
            "a dict, a dataclass or a pydantic model"
        )
    return _described(value)
