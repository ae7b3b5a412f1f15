"""Each failure of a provider, met by a loop over real wires: the same one again when it is resumed.

The service is asked by the first pass alone; the second one is given what the journal holds.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import orjson
import pytest

import loops as ai
from loops.errors import (
    ContextTooLong,
    Incomplete,
    InvalidRequest,
    Overloaded,
    ProviderError,
    RateLimited,
    Refused,
    Timeout,
    Unauthorized,
    Unavailable,
)
from tests.loops.providers import anthropic_wires as a
from tests.loops.providers import openai_wires as o
from tests.loops.providers.asking import model_at
from tests.loops.providers.service import Answer, Service, serving
from tests.worker.driving import Mill, milling
from worker.calls import RunPlace
from worker.link import Link
from worker.open_turn import FAILURES
from worker.run_record import RunStatus

VENDORS = ["anthropic", "openai"]
SOON = timedelta(milliseconds=250)
LONG = "prompt is too long: 205 tokens > 200 maximum"


def refusal(status: int, kind: str, text: str = "why", **headers: str) -> Answer:
    told = orjson.dumps({"type": "error", "error": {"type": kind, "message": text}})
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer([told], status=status, kind="application/json", headers=named)


@dataclass(frozen=True)
class Failure:
    """What a service answers, by its protocol, and the error that it is."""

    kind: type[ProviderError]
    anthropic: Answer
    openai: Answer
    told: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the error carries, as far as it is not what it has by itself."""


LIMITED = Failure(
    RateLimited,
    refusal(429, "rate_limit_error", retry_after_ms="250"),
    refusal(429, "requests", retry_after_ms="250"),
    {"status": 429, "retry_after": SOON},
)

FAILURES_MET = [
    Failure(
        ContextTooLong,
        refusal(400, "invalid_request_error", LONG),
        refusal(400, "context_length_exceeded", LONG),
        {"status": 400, "limit": 200, "sent": 205},
    ),
    Failure(
        Overloaded,
        refusal(529, "overloaded_error", retry_after_ms="250"),
        refusal(529, "overloaded", retry_after_ms="250"),
        {"status": 529, "retry_after": SOON},
    ),
    Failure(Unavailable, refusal(500, "api_error"), refusal(500, "server_error"), {"status": 500}),
    Failure(Timeout, Answer([a.started()], hangs=True), Answer([o.chunk()], hangs=True)),
    Failure(Incomplete, Answer([a.started()]), Answer([o.chunk()])),
    Failure(
        Unauthorized,
        refusal(401, "authentication_error"),
        refusal(401, "invalid_api_key"),
        {"status": 401},
    ),
    Failure(
        InvalidRequest,
        refusal(400, "invalid_request_error"),
        refusal(422, "invalid_request_error"),
    ),
    Failure(
        Refused,
        Answer([a.reply(a.said(0, "I"), stop_reason="refusal")]),
        Answer([o.reply(o.said("I"), reason="content_filter")]),
    ),
]

CARRIED = ("retryable", "status", "retry_after", "limit", "sent")


@dataclass
class Met:
    """A run whose loop catches what its model fails with, and goes on."""

    service: Service
    model: ai.ModelPort
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    caught: list[ProviderError] = field(default_factory=list[ProviderError])

    async def loop(self, context: ai.Context) -> AsyncIterator[object]:
        """Catch the failure, and wait after it."""
        try:
            async for event in ai.stream(self.model, context.messages):
                yield event
        except ProviderError as error:
            self.caught.append(error)
        yield ai.events.Custom("caught", {})
        await self.gate.wait()
        yield "went on"

    async def through(self, mill: Mill, place: RunPlace) -> int:
        """See the run through a death of its worker; return how often the service was asked."""
        await mill.until(place, "custom.caught")
        asked = len(self.service.asked)
        await mill.lapse_run(place)
        await mill.until(place, lambda events: len(self.caught) == 2)
        self.gate.set()
        ended = await mill.ended(place)
        assert (ended.run.status, ended.run.output) == (RunStatus.COMPLETED, "went on")
        assert len(ended.of("custom.caught")) == 1
        assert len(self.service.asked) == asked
        return asked


async def meet(link: Link, vendor: str, failures: list[Failure]) -> dict[str, tuple[Met, int]]:
    """Return what runs met that each meet one of the failures, all at the same time."""
    async with AsyncExitStack() as stack:
        runs: dict[str, Met] = {}
        for failure in failures:
            service = await stack.enter_async_context(serving(getattr(failure, vendor)))
            model = model_at(service, vendor, idle=timedelta(milliseconds=100))
            runs[failure.kind.code] = Met(service, model)
        loops = {name: met.loop for name, met in runs.items()}
        mill = await stack.enter_async_context(milling(link, loops, rate_wait=timedelta(0)))
        places = {name: await mill.submit(name) for name in runs}
        return {name: (met, await met.through(mill, places[name])) for name, met in runs.items()}


def told(error: ProviderError) -> dict[str, Any]:
    carried = {name: getattr(error, name, None) for name in CARRIED}
    return {"type": type(error), "text": str(error), **carried}


@pytest.mark.parametrize("vendor", VENDORS)
async def test_a_loop_meets_each_failure_and_a_resumed_one_the_same_again(
    link: Link, vendor: str
) -> None:
    met = await meet(link, vendor, FAILURES_MET)

    for failure in FAILURES_MET:
        run, asked = met[failure.kind.code]
        first, again = map(told, run.caught)
        assert first == again
        assert first["type"] is failure.kind
        assert {name: first[name] for name in failure.told} == failure.told
        assert first["retryable"] is failure.kind.retryable
        assert asked == (FAILURES if failure.kind.retryable else 1)


@pytest.mark.parametrize("vendor", VENDORS)
async def test_a_limit_that_reaches_the_loop_is_met_again_when_it_is_resumed(
    link: Link, vendor: str
) -> None:
    met = await meet(link, vendor, [LIMITED])

    [(run, asked)] = met.values()
    first, again = map(told, run.caught)
    assert first == again
    assert {name: first[name] for name in LIMITED.told} == LIMITED.told
    assert (first["type"], first["retryable"]) == (RateLimited, True)
    assert asked == FAILURES


def test_every_failure_of_a_provider_is_met() -> None:
    kinds = {failure.kind for failure in [LIMITED, *FAILURES_MET]}

    ours = ProviderError.__module__
    assert {kind for kind in ProviderError.__subclasses__() if kind.__module__ == ours} == kinds
