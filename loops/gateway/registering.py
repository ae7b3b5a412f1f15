"""Callbacks as they are registered: looked at before anything starts, and each kept once.

What would never run ends the start, with a text that says where it stands and what to write.
"""

import inspect
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from loops.errors import SetupError
from loops.naming import did_you_mean

from .importing import find_object
from .methods import (
    BUILDER,
    CHAT_BUILDER,
    CHAT_GATE,
    CHAT_LEGACY,
    GATE,
    LEGACY,
    METHODS,
    WRAPPER,
    is_base,
    is_callback,
    keywords_of,
    name_of,
    overridden,
    own_tools,
)
from .rules import Rule

logger = logging.getLogger("loopmill.gateway")

_OF_MESSAGES = frozenset({BUILDER, LEGACY})
_OF_CHAT = frozenset({CHAT_BUILDER, CHAT_LEGACY})

_INSTANCE = "name an instance of a class that derives from CustomLogger"

Shipped = Mapping[str, Callable[[], object]]
"""Callbacks that are named by a word; one that is switched off is None."""


@dataclass(frozen=True, slots=True)
class Found:
    """What an entry of a configuration has come to."""

    label: str
    """The section and the entry."""
    value: object
    """What it names; None for a callback that is switched off, and where there is a problem."""
    problem: SetupError | None = None


def checked_callbacks(values: object, where: str) -> list[object]:
    """Return the callbacks of a list; what a callback leaves out is said in the log.

    Args:
        values: What stands there.
        where: Its name, for the error: `App(callbacks=…)`.

    Raises:
        SetupError: When it is no list, or one of them would never run.
    """
    if not isinstance(values, list | tuple):
        kind = type(values).__name__
        raise SetupError(
            f"{where} is a list of callbacks, not of the type {kind}: write [callback]"
        )
    checked: list[object] = []
    for place, each in enumerate(cast("Iterable[object]", values)):
        label = f"{where}[{place}]"
        mend = f"give an instance: {each.__name__}()" if isinstance(each, type) else _INSTANCE
        checked.append(checked_callback(each, label, mend=mend))
        warn(each, label)
    return checked


def warn(callback: object, label: str) -> None:
    """Say in the log what of the callback never happens."""
    for silence in silences(callback):
        logger.warning("! %s: %s", label, silence)


def checked_callback(value: object, label: str, *, mend: str) -> object:
    """Return the callback.

    Raises:
        SetupError: When it is none, or has a method that could not be awaited.
    """
    if not is_callback(value):
        is_other = not isinstance(value, type | ModuleType)
        kind = f"{_kind_of(value)}, and no CustomLogger" if is_other else _kind_of(value)
        raise SetupError(f"{label} is {kind}; {mend}")
    faults = [*_faults(value)]
    if faults:
        raise SetupError(f"{label}: {'; '.join(faults)}")
    return value


def collected(*lists: Iterable[object]) -> list[object]:
    """Return the callbacks of all lists in their order, each instance once."""
    return list({id(each): each for callbacks in lists for each in callbacks}.values())


def found_callbacks(
    entries: object, where: str, *, folder: Path | None, shipped: Shipped
) -> Iterator[Found]:
    """Yield what each entry of a section names: a shipped callback by its name, or `module.name`.

    A module that lies in the folder goes before one that is installed.
    """
    for label, entry in _labelled(entries, where):
        try:
            yield Found(label, _callback_of(entry, label, folder, shipped))
        except SetupError as error:
            yield Found(label, None, error)


def found_rules(entries: object, where: str, *, folder: Path | None) -> Iterator[Found]:
    """Yield the function that each entry of a section of rules names."""
    for label, entry in _labelled(entries, where):
        try:
            yield Found(label, _rule_of(entry, label, folder))
        except SetupError as error:
            yield Found(label, None, error)


def silences(callback: object) -> list[str]:
    """Return what of the callback never happens, since it leaves out what leads to it."""
    has = frozenset(overridden(callback))
    name = name_of(callback)
    said = [*_never_called(callback)]
    if not has and not said:
        said.append(f"{name} overrides nothing: it is never called")
    if GATE in has and not has & (_OF_MESSAGES | _OF_CHAT):
        said.append(f"{name} overrides {GATE} and no builder: what it takes up is never answered")
    if CHAT_GATE in has and not has & _OF_CHAT:
        said.append(
            f"{name} overrides {CHAT_GATE} and not {CHAT_BUILDER}: "
            "what it takes up is never answered"
        )
    if has & _OF_MESSAGES and GATE not in has:
        first = min(has & _OF_MESSAGES)
        said.append(f"{name} overrides {first} and not {GATE}: it is never called")
    if has & _OF_CHAT and not has & {GATE, CHAT_GATE}:
        first = min(has & _OF_CHAT)
        said.append(f"{name} overrides {first} and no gate, as {GATE}: it is never called")
    return said


def _never_called(callback: object) -> Iterator[str]:
    """Yield what is named as if it were called, and is not."""
    for cls in type(callback).__mro__:
        for name in () if is_base(cls) else vars(cls):
            if name.startswith("async_") and name not in METHODS:
                mend = did_you_mean(name, METHODS)
                yield f"{cls.__name__} has {name}, which nobody calls here{mend}"


def _labelled(entries: object, where: str) -> Iterator[tuple[str, object]]:
    listed = cast("list[object]", entries) if isinstance(entries, list | tuple) else [entries]
    for place, entry in enumerate(listed):
        is_text = isinstance(entry, str)
        yield (f"{where} entry {entry!r}" if is_text else f"{where} entry {place}"), entry


def _callback_of(entry: object, label: str, folder: Path | None, shipped: Shipped) -> object:
    path = _text(entry, label)
    if path in shipped:
        callback = shipped[path]()
        return None if callback is None else checked_callback(callback, label, mend="")
    if "." not in path:
        known = did_you_mean(path, shipped) or f" of {', '.join(sorted(shipped))}"
        raise SetupError(f"{label} names no shipped callback{known} (yours is named module.name)")
    module, value = find_object(path, label, folder)
    return checked_callback(value, label, mend=_mend(module, value))


def _rule_of(entry: object, label: str, folder: Path | None) -> Rule:
    value = found_function(_text(entry, label), label, folder, takes="a text")
    if inspect.iscoroutinefunction(value):
        raise SetupError(f"{label} is a coroutine function, and nobody awaits a rule: write def")
    return value


def found_function(
    path: str, label: str, folder: Path | None, *, takes: str
) -> Callable[[str], Any]:
    """Return the function that stands at the path; `takes` says what it is called with.

    Raises:
        SetupError: When there is none.
    """
    _, value = find_object(path, label, folder)
    if isinstance(value, type) or not callable(value):
        raise SetupError(f"{label} is {_kind_of(value)}; name a function that takes {takes}")
    return value


def _text(entry: object, label: str) -> str:
    if not isinstance(entry, str):
        raise SetupError(f"{label} is of the type {type(entry).__name__}; write module.name")
    return entry


def _kind_of(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, ModuleType):
        return f"the module {value.__name__}"
    if inspect.isroutine(value):
        return f"the function {getattr(value, '__name__', '')}"
    return f"of the type {type(value).__name__}"


def _mismatch(method: object, name: str) -> str | None:
    """Return why a method cannot be called with the keywords that it gets; None where it can."""
    if not callable(method):
        return "is no method"
    told = keywords_of(name)
    try:
        inspect.signature(method).bind(None, **dict.fromkeys(told))
    except TypeError as error:
        return f"cannot be called with {', '.join(told)}: {error}; take them, or **more"
    return None


def _mend(module: ModuleType, value: object) -> str:
    if not isinstance(value, type):
        return _INSTANCE
    owner, cls = module.__name__, value.__name__
    ready = next((name for name, each in vars(module).items() if type(each) is value), None)
    if ready is not None:
        return f"name an instance: write {owner}.{ready}"
    first = "" if any(map(is_base, value.mro())) else "derive it from CustomLogger, and "
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", cls).lower()
    return f"{first}name an instance: add {name} = {cls}() to {owner}, and write {owner}.{name}"


def _faults(callback: object) -> Iterator[str]:
    """Yield what of a callback could not be called as it is meant."""
    cls = type(callback)
    for name in overridden(callback):
        method = cast("object", getattr(cls, name))
        # A decorator may hand on what the method gives, without being a coroutine function itself.
        forms = [method, inspect.unwrap(method) if callable(method) else method]
        if name == WRAPPER:
            if not any(map(inspect.isasyncgenfunction, forms)):
                yield f"{cls.__name__}.{name} is no async generator: write async def, with a yield"
        elif not any(map(inspect.iscoroutinefunction, forms)):
            is_generator = any(map(inspect.isasyncgenfunction, forms))
            mend = "return the answer, and yield nothing" if is_generator else "write async def"
            yield f"{cls.__name__}.{name} is no coroutine function: {mend}"
        if mismatch := _mismatch(method, name):
            yield f"{cls.__name__}.{name} {mismatch}"
    names: object = own_tools(callback)
    if isinstance(names, str):
        yield f"{cls.__name__}.server_fulfilled_tool_names is a text: write {{{names!r}}}"
