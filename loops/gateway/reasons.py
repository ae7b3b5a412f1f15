"""Why replies end, in the words of both protocols; pure."""

from .rounds import Surface

CALLS = {Surface.MESSAGES: "tool_use", Surface.CHAT: "tool_calls"}
"""The reason of a reply that ends with calls which its caller is to answer."""

END = {Surface.MESSAGES: "end_turn", Surface.CHAT: "stop"}
"""The reason of a reply that says all that it had to say."""

CUT = "cut"
"""The reason of a reply that its provider has broken off: a word that is ours alone."""

_OF_MESSAGE = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    CUT: "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}

_OF_CHAT = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}


def chat_reason(reason: str | None, *, has_calls: bool) -> str:
    """Return a reason of Messages as Chat Completions says it; calls tell it where it is none."""
    return _OF_MESSAGE.get(_told(reason, has_calls=has_calls), "stop")


def message_reason(reason: str | None, *, has_calls: bool) -> str:
    """Return a reason of our own events as Messages says it; calls tell it where it is none."""
    told = _told(reason, has_calls=has_calls)
    return "max_tokens" if told == CUT else told


def reason_of_chat(reason: str | None, *, has_calls: bool) -> str:
    """Return a reason of Chat Completions as Messages says it."""
    return _OF_CHAT.get(reason or "", "tool_use" if has_calls else "end_turn")


def reason_left(surface: Surface, told: object, *, shown: int, hidden: int) -> object:
    """Return why a reply ends, when some of its calls are not shown.

    A reply that was to be answered by calls and has none left has said all.
    """
    has_none_left = hidden and not shown
    return END[surface] if has_none_left and told == CALLS[surface] else told


def _told(reason: str | None, *, has_calls: bool) -> str:
    return reason or ("tool_use" if has_calls else "end_turn")
