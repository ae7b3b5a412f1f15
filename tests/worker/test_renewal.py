"""Renewing claims, from a thread that depends on nobody's event loop."""

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from tests.waiting import wait_until
from tests.worker.workshop import KEYS
from worker.link import Link
from worker.queue import Claim
from worker.renewal import CHUNK, Registration, Renewal, Report, renew, script_caller
from worker.wire import Part

ME = Registration(KEYS, "w", ("tools",), timedelta(seconds=1), "{}", "healthy")


def _claim(number: int) -> Claim:
    return Claim(f"t/{number}", KEYS.queue("tools").queue, f"w:{number}", 0, False, "w")


class Registry:
    """Answers renewals, and keeps the tokens that it was asked for."""

    def __init__(self) -> None:
        self.calls: list[list[Part]] = []
        self.is_away = False
        self.lost: list[bytes] = []

    def __call__(self, name: str, keys: Sequence[Part], arguments: Sequence[Part]) -> Any:
        if self.is_away:
            raise RedisConnectionError("away")
        self.calls.append(list(arguments[8::3]))
        return [self.lost, []]


@pytest.fixture
def registry() -> Registry:
    return Registry()


Starter = Callable[..., Renewal]


@pytest.fixture
def start(registry: Registry) -> Iterator[Starter]:
    """Run a renewal in a thread; at the end the thread is gone."""
    threads: list[tuple[Renewal, threading.Thread]] = []

    def start_one(
        claims: Sequence[Claim], tell: Callable[[Report], None], stall: float = 60
    ) -> Renewal:
        renewal = Renewal(
            registry,
            every=timedelta(milliseconds=10),
            stall=timedelta(seconds=stall),
            claims=lambda: claims,
            worker=lambda: ME,
        )
        thread = threading.Thread(target=renewal.run, args=[tell])
        threads.append((renewal, thread))
        thread.start()
        return renewal

    yield start_one
    for renewal, thread in threads:
        renewal.stop()
        thread.join(5)
        assert not thread.is_alive()


def test_many_claims_are_renewed_in_chunks(registry: Registry):
    claims = [_claim(number) for number in range(CHUNK + 1)]

    assert renew(registry, ME, claims) == Report(answered=True)

    assert [len(tokens) for tokens in registry.calls] == [CHUNK, 1]


def test_a_worker_without_claims_registers_all_the_same(registry: Registry):
    renew(registry, ME, [])

    assert registry.calls == [[]]


async def test_a_claim_that_is_being_given_up_or_past_its_limit_is_not_renewed(
    registry: Registry, start: Starter
):
    kept, released, late = _claim(1), _claim(2), _claim(3)
    released.released = True
    late.renew_until = time.monotonic()
    assert kept.renew_until == math.inf

    start([kept, released, late], lambda report: None)

    await wait_until(lambda: len(registry.calls) > 2, for_="some renewals")
    assert {tuple(tokens) for tokens in registry.calls} == {("w:1",)}


async def test_an_event_loop_that_stands_still_is_renewed_no_more_until_it_moves(
    registry: Registry, start: Starter
):
    reports: list[Report] = []
    registry.lost = [b"w:1"]
    renewal = start([_claim(1)], reports.append, stall=0.1)
    renewal.tick()
    started = time.monotonic()

    await wait_until(
        lambda: bool(registry.calls) and time.monotonic() - started > 0.3, for_="the stall"
    )
    stopped = len(registry.calls)
    await wait_until(lambda: time.monotonic() - started > 0.4, for_="some time")
    assert len(registry.calls) == stopped

    renewal.tick()
    await wait_until(lambda: reports[-1].after_stall, for_="a report that tells of the stall")


async def test_a_server_that_is_away_is_asked_again(registry: Registry, start: Starter):
    reports: list[Report] = []
    registry.is_away = True
    start([_claim(1)], reports.append)
    await wait_until(lambda: Report(answered=False) in reports, for_="a failure")

    registry.is_away = False

    await wait_until(lambda: Report(answered=True) in reports, for_="a renewal")


async def test_a_renewal_can_be_asked_for(registry: Registry):
    renewal = Renewal(
        registry,
        every=timedelta(seconds=60),
        stall=timedelta(seconds=60),
        claims=list,
        worker=lambda: ME,
    )
    thread = threading.Thread(target=renewal.run, args=[lambda report: None])
    thread.start()
    await wait_until(lambda: len(registry.calls) == 1, for_="the first renewal")

    renewal.ask()

    await wait_until(lambda: len(registry.calls) == 2, for_="the one that was asked for")
    renewal.stop()
    thread.join(5)
    assert not thread.is_alive()


async def test_the_thread_gives_the_server_a_script_that_it_forgot(link: Link):
    assert link.blocking is not None
    await link.command("SCRIPT", "FLUSH")

    report = renew(script_caller(link.blocking), ME, [_claim(1)])

    assert report == Report(answered=True, lost=("w:1",))
