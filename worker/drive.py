"""Drive a claimed run: begin a pass, pull its loop, leave the run once; again if a pass ended.

This knows no arq: it is given a claim, and gives it up by the scripts that end a pass.
"""

from __future__ import annotations

from functools import partial

import orjson

from loops.errors import InvalidInput, LoopFailed
from loops.guard import Raised, outcome_of_call

from .begin import NotBegun, begin
from .calls import RunPlace
from .insist import insist
from .left import AGAIN, Left
from .lifecycle import Lifecycle
from .link import Link
from .queue import Claim
from .run_pass import RunPass
from .working import WorkerResources

EXPIRED = {"code": "expired", "message": "the run's time to start was over before a worker had it"}


async def drive(
    resources: WorkerResources, place: RunPlace, *, claim: Claim, lifecycle: Lifecycle
) -> Left:
    """Drive the run until it is settled, or somebody else goes on with it."""
    link, reason = resources.link, ""
    while True:
        try:
            run = (place.tenant, place.run_id)
            begun = await begin(link, resources.keys, claim, run=run, reason=reason)
        except InvalidInput as error:
            return await _give_up(link, place, claim, error.code, str(error))
        if isinstance(begun, NotBegun):
            return await _let_go(link, place, claim, begun)
        made = outcome_of_call(
            partial(RunPass, resources, place, begun, claim=claim, lifecycle=lifecycle)
        )
        if isinstance(made, Raised):
            return await _give_up(link, place, claim, LoopFailed.code, made.text)
        left = await made.run()
        if left not in AGAIN:
            return left
        reason = AGAIN[left]


async def _let_go(link: Link, place: RunPlace, claim: Claim, found: NotBegun) -> Left:
    claim.released = True
    if not found.is_late:
        return Left.LOST
    await settle_unowned(link, place, claim, status="expired", failure=EXPIRED)
    return Left.EXPIRED


async def _give_up(link: Link, place: RunPlace, claim: Claim, code: str, message: str) -> Left:
    """Fail a run whose loop cannot even be called."""
    claim.released = True
    failure = {"code": code, "message": message}
    await settle_unowned(link, place, claim, status="failed", failure=failure)
    return Left.FAILED


async def settle_unowned(
    link: Link, place: RunPlace, claim: Claim, *, status: str, failure: dict[str, str]
) -> bool:
    """Settle a run whose claim is held, but which no pass drives; say whether it was open still."""
    settled: int = await insist(
        link,
        "settle_unowned",
        keys=[place.record],
        arguments=[
            claim.queue,
            claim.job_id,
            claim.token,
            status,
            orjson.dumps([{"type": f"run.{status}", "data": failure}]),
            "error",
            orjson.dumps(failure),
        ],
    )
    return settled == 1
