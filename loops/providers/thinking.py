"""How much a model may think: one wish, in the words of each vendor; pure.

`params["thinking"]` is None or False for not at all, "adaptive" or True for as much as the model
sees fit, "low", "medium", "high", or a number of tokens. A mapping is the vendor's own way to say
it, and goes through as it is.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from loops.blocks import Raw
from loops.errors import InvalidRequest

LEVELS: Mapping[str, int] = {"low": 4_096, "medium": 16_384, "high": 32_768}
"""The levels, and how many tokens each of them is about."""


@dataclass(frozen=True, slots=True)
class Wish:
    """How much a model may think."""

    is_on: bool = True
    level: str | None = None
    """The level that was asked for; None for a budget, and for as much as the model sees fit."""
    budget: int | None = None
    """The tokens that were asked for."""

    @property
    def nearest(self) -> str | None:
        """The level, or the lowest that gives room for the budget."""
        if self.budget is None:
            return self.level
        return next((each for each, tokens in LEVELS.items() if tokens >= self.budget), "high")

    @property
    def tokens(self) -> int | None:
        """The budget, or what the level is about."""
        return self.budget if self.level is None else LEVELS[self.level]


def wish_of(params: Mapping[str, Any]) -> Wish | None:
    """Return what the params wish; None where they say nothing, or say it in the vendor's words.

    Raises:
        InvalidRequest: When it is no word that all vendors understand.
    """
    if "thinking" not in params or isinstance(params["thinking"], Mapping):
        return None
    match params["thinking"]:
        case None | False | 0:
            return Wish(is_on=False)
        case "adaptive" | True:
            return Wish()
        case "low" | "medium" | "high" as level:
            return Wish(level=level)
        case int(budget) if budget > 0:
            return Wish(budget=budget)
        case other:
            words = ", ".join(map(repr, (None, "adaptive", *LEVELS)))
            raise InvalidRequest(
                f"nobody can think {other!r}; thinking is {words}, a number of tokens, or an "
                "object in the vendor's own words"
            )


Thinking = Callable[[Wish], Raw]
"""Returns the fields of a request that say the wish."""


def effort(wish: Wish) -> Raw:
    """Say it as most services of OpenAI's protocol take it."""
    return {"reasoning_effort": wish.nearest} if wish.nearest else {}


def switch(wish: Wish) -> Raw:
    """Say it as Z.ai takes it: on or off."""
    return {"thinking": {"type": "enabled" if wish.is_on else "disabled"}}


def switch_and_effort(wish: Wish) -> Raw:
    """Say it as DeepSeek takes it."""
    return switch(wish) | effort(wish)


def switch_and_budget(wish: Wish) -> Raw:
    """Say it as Qwen takes it."""
    budget = {} if wish.tokens is None else {"thinking_budget": wish.tokens}
    return {"enable_thinking": wish.is_on} | budget


_KIMIS = {"low": "low", "medium": "high", "high": "max"}


def kimi_effort(wish: Wish) -> Raw:
    """Say it as Kimi takes it, whose levels are other ones."""
    return {"reasoning_effort": _KIMIS[wish.nearest]} if wish.nearest else {}


def routed(wish: Wish) -> Raw:
    """Say it as OpenRouter takes it, which passes it on in the words of others."""
    if wish.budget is not None:
        return {"reasoning": {"max_tokens": wish.budget}}
    if wish.level is not None:
        return {"reasoning": {"effort": wish.level}}
    return {"reasoning": {"enabled": True}} if wish.is_on else {}


LEAST = 1_024
"""The smallest budget that Anthropic's service takes."""

_SHORTER = {None: 8_192, "low": 4_096, "medium": 8_192, "high": 15_000}
"""Budgets of Anthropic's older models: with a reply of the usual length they fit in the 32,000
tokens that the smallest of these models can write."""

_VERSION = re.compile(r"claude(?:-[a-z]+)?-(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")

_ADAPTIVE, _NO_BUDGET = (4, 6), (4, 7)
"""From which versions on models see for themselves how much to think, and take no budget."""

_BY_ITSELF = (5, 0)
"""The version whose models think by themselves, and can be told not to."""

_NAMELESS = (99, 0)
"""The version of a name that tells none: a new one, though perhaps not so new."""


def anthropic(wish: Wish, model: str) -> Raw:
    """Say it as Anthropic's service takes it of this model: each takes one way, some take two."""
    version = _version(model)
    if not wish.is_on:
        # Older models think only when they are told to, newer ones whatever they are told.
        return {"thinking": {"type": "disabled"}} if version == _BY_ITSELF else {}
    takes_budget = version < _NO_BUDGET or version == _NAMELESS
    if version >= _ADAPTIVE and not (takes_budget and wish.budget):
        output = {"output_config": {"effort": wish.nearest}} if wish.nearest else {}
        return {"thinking": {"type": "adaptive"}} | output
    budget = max(LEAST, wish.budget or _SHORTER[wish.level])
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def _version(model: str) -> tuple[int, int]:
    """Return the model's version; 0 for those of others, which know the protocol's first words."""
    if "claude" not in model.lower():
        return (0, 0)
    found = _VERSION.search(model.lower())
    return (int(found[1]), int(found[2] or 0)) if found else _NAMELESS
