"""What follows a round: its reply is the answer, or another one is asked for."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from logging import getLogger

from loops.blocks import Raw
from loops.runtime import Runtime

from .asking import Asked
from .call import Call
from .chain import Link
from .claims import Reply, all_claimed, claim_of, refusal_of
from .custom_logger import AgenticLoopPlan
from .given import given_body
from .methods import name_of
from .next_request import next_call
from .planning import Built, plan_of
from .rounds import Outcome, RoundEnd

logger = getLogger("loopmill.gateway")


@dataclass(frozen=True, slots=True)
class Decision:
    """What is done after a round."""

    end: RoundEnd
    next: Call | None = None
    """What is asked next; None for nothing."""
    link: Link | None = None
    """The plan that was made, and followed."""
    given: Raw | None = None
    """The body of an answer that a callback gives itself."""


FINAL = Decision(RoundEnd(Outcome.FINAL))


async def decide(
    runtime: Runtime, callbacks: Sequence[object], asked: Asked, limit: timedelta
) -> Decision:
    """Return what the first callback wants that acts; the reply is the answer if none does.

    Raises:
        CallbackFailed: When a callback fails that has taken calls up.
        PlanLost: When a worker died while a callback answered them.
    """
    if not callbacks:
        return FINAL
    call, reply = asked.call, Reply.of(asked.call.surface, asked.body(), asked.model)
    for place, callback in enumerate(callbacks):
        claim = await claim_of(callback, place, call, reply, limit)
        if claim is None:
            continue
        refusal = refusal_of(call, claim)
        if refusal is not None:
            logger.warning("! run %s: %s; its turn ends", call.id, refusal)
            places = await all_claimed(callbacks, call, reply, claim, limit)
            return Decision(RoundEnd(Outcome.CLOSED, places))
        built = Built(call, reply, claim)
        decision = _followed(built, await plan_of(runtime, built, limit))
        if decision is not None:
            # Calls that others take up are not left to the caller either.
            places = await all_claimed(callbacks, call, reply, claim, limit)
            return replace(decision, end=replace(decision.end, claimed=places))
    return FINAL


def _followed(built: Built, plan: AgenticLoopPlan) -> Decision | None:
    """Return what a plan comes to: its own answer, an end, another round; None for nothing."""
    call, claim = built.call, built.claim
    if plan.response_override is not None:
        given = given_body(call, plan.response_override)
        return Decision(RoundEnd(Outcome.AGAIN, claim.places), given=given)
    link = Link(claim.callback, plan, call.told(built.reply.vendor))
    if plan.terminate:
        why = plan.stop_reason or "its plan says so"
        logger.info("· run %s ends with %s: %s", call.id, name_of(claim.callback), why)
        return Decision(RoundEnd(Outcome.CLOSED, claim.places), link=link)
    if plan.run_agentic_loop:
        following = next_call(call, built.reply, claim, plan)
        return Decision(RoundEnd(Outcome.AGAIN, claim.places), next=following, link=link)
    return None
