"""The end of a round: what its callbacks change of it, and what stands in the log."""

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime

from loops.blocks import Raw
from loops.events import AgentEvent
from loops.runtime import Runtime

from .asking import Asked
from .bodies import calls_in, without_calls
from .call import Call
from .chain import Chain
from .deciding import Decision
from .given import rows_of
from .neighbours import Neighbours
from .plain_view import plain_body
from .rounds import Outcome, Round, RoundEnd
from .rows import packed
from .rules import Rule, check


class Ending:
    """The ends of a call's rounds.

    Args:
        runtime: Keeps what callbacks give.
        neighbours: Who is told of the call's end, or changes its answer.
        rules: What the text of an answer must not break.
    """

    def __init__(self, runtime: Runtime, neighbours: Neighbours, rules: Sequence[Rule]) -> None:
        self._runtime = runtime
        self._neighbours = neighbours
        self._rules = rules
        self._rounds: list[Round] = []
        self.began = datetime.now(UTC)
        """When the call began."""

    async def events(
        self, asked: Asked, decision: Decision, chain: Chain
    ) -> AsyncIterator[AgentEvent]:
        """Yield what is still to be shown of the round, and its end.

        Raises:
            RuleBroken: When the answer breaks a rule.
            CallbackFailed: When a callback refuses it.
        """
        end = decision.end
        if decision.next is not None:
            for event in self._over(asked, end):
                yield event
            chain.add(decision.link)
            return
        changed = await self._changed(asked, decision, chain)
        for event in asked.kept_back() if changed is None else self._in_place(asked, end, changed):
            yield event
        last = end if changed is None else RoundEnd(Outcome.FINAL)
        async for event in self._concluded(asked, changed, last):
            yield event

    def _in_place(self, asked: Asked, end: RoundEnd, changed: Raw) -> list[AgentEvent]:
        """Return the frames of a body that takes the place of the reply."""
        before: list[AgentEvent] = []
        if end.outcome is Outcome.AGAIN:
            before = self._over(asked, end)
        return [*before, *given_frames(asked.call, changed)]

    def _over(self, asked: Asked, end: RoundEnd) -> list[AgentEvent]:
        self._rounds.append(Round(asked.body(), end))
        return [*asked.kept_back(), end.event()]

    async def _changed(self, asked: Asked, decision: Decision, chain: Chain) -> Raw | None:
        """Return the body that takes the place of the reply; None where that stands as it is.

        What the caller has seen cannot be changed any more.
        """
        call, given = asked.call, decision.given
        if given is not None:
            return await chain.changed(call, given)
        if decision.end.outcome is Outcome.CLOSED and not asked.is_seen:
            chain.add(decision.link)
        if not chain.changes:
            return None
        left = without_calls(call.surface, asked.body(), decision.end.claimed)
        return await chain.changed(call, left)

    async def _concluded(
        self, asked: Asked, changed: Raw | None, end: RoundEnd
    ) -> AsyncIterator[AgentEvent]:
        call, neighbours = asked.call, self._neighbours
        if call.asked.operation != "create" or not (self._rules or neighbours.are_told):
            yield end.event()
            return
        body = asked.body() if changed is None else changed
        self._rounds.append(Round(body, end))
        whole = plain_body(call.surface, self._rounds, call.asked.mode)
        check(self._rules, whole)
        if not call.asked.streams:
            final = await neighbours.changed(self._runtime, call, whole)
            if final != whole:
                yield RoundEnd(Outcome.AGAIN, _all_calls(asked)).event()
                for event in given_frames(call, final):
                    yield event
                end, whole = RoundEnd(Outcome.GIVEN), final
        await neighbours.log(self._runtime, call, whole, self.began)
        yield end.event()


def given_frames(call: Call, body: Raw) -> list[AgentEvent]:
    """Return a body as frames, as the caller wants them."""
    return [*packed(rows_of(call, body))]


def _all_calls(asked: Asked) -> frozenset[int]:
    return frozenset(each.place for each in calls_in(asked.call.surface, asked.body()))
