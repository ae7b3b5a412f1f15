"""The methods of callbacks by their names, and which of them a callback has of its own."""

import inspect

from .custom_logger import CustomLogger

METHODS = tuple(sorted(name for name in vars(CustomLogger) if name.startswith("async_")))
"""The methods that a callback may override."""

GATE = "async_should_run_agentic_loop"
CHAT_GATE = "async_should_run_chat_completion_agentic_loop"

BUILDER = "async_build_agentic_loop_plan"
CHAT_BUILDER = "async_build_chat_completion_agentic_loop_plan"

LEGACY = "async_run_agentic_loop"
"""What builds no plan, but gives the answer."""
CHAT_LEGACY = "async_run_chat_completion_agentic_loop"

WRAPPER = "async_post_call_streaming_iterator_hook"
"""The one that is no coroutine function, but an async generator."""

BASES = frozenset({"loops.gateway.custom_logger", "litellm.integrations.custom_logger"})
"""The modules whose `CustomLogger` does nothing by itself."""


def keywords_of(method: str) -> list[str]:
    """Return the keywords with which a method is called."""
    return list(inspect.signature(vars(CustomLogger)[method]).parameters)[1:]


def is_base(cls: type) -> bool:
    """Say whether a class is `CustomLogger` itself, ours or the original library's."""
    return cls.__name__ == "CustomLogger" and cls.__module__ in BASES


def is_callback(value: object) -> bool:
    """Say whether a value is an instance of `CustomLogger`, ours or the original library's."""
    return any(map(is_base, type(value).__mro__))


def overrides(callback: object, method: str) -> bool:
    """Say whether the class of a callback has a method of its own in the place of the base's."""
    owner = next((cls for cls in type(callback).__mro__ if method in cls.__dict__), None)
    return owner is not None and not is_base(owner)


def overridden(callback: object) -> list[str]:
    """Return the methods that the callback has of its own."""
    return [name for name in METHODS if overrides(callback, name)]


def own_tools(callback: object) -> frozenset[str]:
    """Return the names of the tools whose calls no caller is to see."""
    names: frozenset[str] = getattr(callback, "server_fulfilled_tool_names", frozenset[str]())
    return names


def name_of(callback: object) -> str:
    """Return the name of a callback's class."""
    return type(callback).__name__
