"""What replies cost, in the words of both protocols; pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from loops.blocks import Raw
from loops.messages import Usage
from loops.providers.told import fields, whole_number


def is_usage_wanted(body: Mapping[str, Any]) -> bool:
    """Say whether the request of a streamed chat completion asks what the reply costs."""
    return fields(body.get("stream_options")).get("include_usage") is True


def summed(usages: Iterable[Raw]) -> Raw:
    """Return the sum, number by number, also inside objects; of words the last one counts."""
    total: Raw = {}
    for each in usages:
        total = _added(total, each)
    return total


def _plus(before: Any, more: Any) -> Any:
    if type(before) is type(more) is dict:
        return _added(before, more)
    if type(before) is type(more) is list:
        return before + more
    if _is_number(before) and _is_number(more):
        return before + more
    return before if more is None else more


def _added(before: Raw, more: Raw) -> Raw:
    names = dict.fromkeys([*before, *more])
    return {name: _plus(before.get(name), more.get(name)) for name in names}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def message_usage(usage: Usage | None) -> Raw:
    """Return it as Messages tells it; zeros where nobody said, since its clients add them up."""
    told = usage or Usage()
    cached = {
        "cache_creation_input_tokens": told.cache_write_tokens,
        "cache_read_input_tokens": told.cache_read_tokens,
    }
    known = {name: count for name, count in cached.items() if count is not None}
    counts = {"input_tokens": told.input_tokens or 0, "output_tokens": told.output_tokens or 0}
    return {**counts, **known}


def chat_usage(usage: Usage | None) -> Raw:
    """Return it as Chat Completions tells it: what was read from a cache is part of the prompt."""
    told = usage or Usage()
    cached = (told.cache_read_tokens or 0) + (told.cache_write_tokens or 0)
    asked, written = (told.input_tokens or 0) + cached, told.output_tokens or 0
    counts: Raw = {
        "prompt_tokens": asked,
        "completion_tokens": written,
        "total_tokens": asked + written,
    }
    if told.cache_read_tokens is None:
        return counts
    return {**counts, "prompt_tokens_details": {"cached_tokens": told.cache_read_tokens}}


def usage_of_message(told: object) -> Usage:
    """Return the usage of a message's body."""
    counts = fields(told)
    return Usage(
        input_tokens=whole_number(counts.get("input_tokens")),
        output_tokens=whole_number(counts.get("output_tokens")),
        cache_read_tokens=whole_number(counts.get("cache_read_input_tokens")),
        cache_write_tokens=whole_number(counts.get("cache_creation_input_tokens")),
    )


def usage_of_chat(told: object) -> Usage:
    """Return the usage of a chat completion's body."""
    counts = fields(told)
    asked = whole_number(counts.get("prompt_tokens"))
    read = whole_number(fields(counts.get("prompt_tokens_details")).get("cached_tokens"))
    if asked is not None and read is not None:
        read = min(asked, read)
        asked -= read
    written = whole_number(counts.get("completion_tokens"))
    return Usage(input_tokens=asked, output_tokens=written, cache_read_tokens=read)
