"""Which calls of a reply a callback takes up, and whether that may go on."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from hashlib import blake2b
from typing import Any, cast

from loops.blocks import Raw
from loops.guard import Raised
from loops.jsonable import jsonable

from .answer import Answer
from .bodies import CallIn, calls_in
from .call import Call
from .custom_logger import AgenticLoopLimitError, AgenticLoopSafetyError
from .in_time import outcome_within
from .json_rows import canonical_text
from .methods import CHAT_GATE, GATE, name_of, overrides, own_tools
from .rounds import Surface

logger = logging.getLogger("loopmill.gateway")

GATES = {Surface.MESSAGES: (GATE,), Surface.CHAT: (CHAT_GATE, GATE)}
"""Which gates are asked on a surface, in this order."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A round's whole reply."""

    body: Raw
    model: str
    """`vendor/model`, as the provider knows it."""
    calls: tuple[CallIn, ...]

    @property
    def vendor(self) -> str:
        """Who is asked."""
        return self.model.partition("/")[0]

    @property
    def model_name(self) -> str:
        """What the vendor calls the model."""
        return self.model.partition("/")[2]

    @classmethod
    def of(cls, surface: Surface, body: Raw, model: str) -> "Reply":
        """Return the reply of a body."""
        return cls(body, model, tuple(calls_in(surface, body)))


@dataclass(frozen=True, slots=True)
class Claim:
    """What a callback takes up."""

    callback: object
    place: int
    """The callback's place among all, from 0."""
    told: dict[str, Any]
    """What its gate has said of it."""
    places: frozenset[int]
    """The calls."""
    fingerprint: str


async def claim_of(
    callback: object, place: int, call: Call, reply: Reply, limit: timedelta
) -> Claim | None:
    """Return what the callback takes up of the reply; None for nothing.

    A gate that raises, takes longer than the limit, or answers with anything else than a truth and
    a dict, takes nothing up.
    """
    for gate in GATES[call.surface]:
        if not overrides(callback, gate):
            continue
        told = await _asked(callback, gate, call, reply, limit)
        if told is not None:
            places = _claimed(callback, told, reply.calls)
            return Claim(callback, place, told, places, _fingerprint(told, reply.calls, places))
    return None


async def _asked(
    callback: object, gate: str, call: Call, reply: Reply, limit: timedelta
) -> dict[str, Any] | None:
    answer: object = await outcome_within(
        limit,
        partial(
            getattr(callback, gate),
            response=Answer(reply.body, call.surface),
            model=reply.model_name,
            messages=call.messages(),
            tools=call.optional_params.get("tools") or [],
            stream=call.asked.streams,
            custom_llm_provider=reply.vendor,
            kwargs=call.told(reply.vendor),
        ),
    )
    where = f"{name_of(callback)}.{gate} of run {call.id}"
    if isinstance(answer, Raised):
        logger.error("! %s raised %s; it takes nothing up", where, answer.text)
        return None
    match answer:
        case (bool(wants), dict()):
            return cast("tuple[bool, dict[str, Any]]", answer)[1] if wants else None
        case _:
            logger.error(
                "! %s gave %.200r; it returns a pair of a truth and a dict, like (True, {…})",
                where,
                answer,
            )
            return None


def refusal_of(call: Call, claim: Claim) -> AgenticLoopSafetyError | None:
    """Return why the model is not asked again; None when it may be."""
    if claim.fingerprint in call.fingerprints:
        return AgenticLoopSafetyError("the model makes the same calls again")
    if call.depth >= call.most_loops:
        return AgenticLoopLimitError(f"the model was asked again {call.depth} times, the limit")
    return None


async def all_claimed(
    callbacks: Sequence[object], call: Call, reply: Reply, claim: Claim, limit: timedelta
) -> frozenset[int]:
    """Return the calls that any callback takes up: none of them is left to the caller."""
    places = claim.places
    for place, callback in enumerate(callbacks):
        if place != claim.place and len(places) < len(reply.calls):
            other = await claim_of(callback, place, call, reply, limit)
            places |= other.places if other is not None else frozenset()
    return places


def _claimed(callback: object, told: Mapping[str, Any], calls: Sequence[CallIn]) -> frozenset[int]:
    """Return the calls that a gate has named: by their ids, else by their names.

    A gate that names none means those of its class, or else all.
    """
    words = set(_words(told))
    own = own_tools(callback)
    by_id = [each for each in calls if each.id and each.id in words]
    is_shared = len({each.id for each in by_id}) < len(by_id)
    ways = (
        # An id that the model has given to several calls tells less than their names.
        {each.place for each in by_id if is_shared and each.name in {*words, *own}},
        {each.place for each in by_id},
        {each.place for each in calls if each.name in words},
        {each.place for each in calls if each.name in own},
        {each.place for each in calls},
    )
    return frozenset(next(filter(None, ways), ()))


def _words(value: object, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth < 8 and isinstance(value, Mapping):
        for each in cast("Mapping[str, object]", value).values():
            yield from _words(each, depth + 1)
    elif depth < 8 and isinstance(value, list | tuple | set | frozenset):
        for each in cast("Sequence[object]", value):
            yield from _words(each, depth + 1)


def _fingerprint(told: Mapping[str, Any], calls: Sequence[CallIn], places: frozenset[int]) -> str:
    """Return what is the same when a model makes the same calls again, whatever their ids."""
    seen = sorted(each.fingerprint for each in calls if each.place in places)
    text = canonical_text(seen or jsonable(told))
    return blake2b(text.encode(), digest_size=16).hexdigest()
