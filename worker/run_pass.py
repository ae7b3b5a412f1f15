"""One pass of a run: its loop, what may end it, and how the run is then left.

*Give up first, close after.* Who parks, hands back or has lost the run ends the pass by its script,
before the loop is cancelled; so nothing that the loop's `except` and `finally` do has any effect.
Only a user's cancel, a timeout and the loop's own end close the loop first, and settle after.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import orjson
from redis.exceptions import RedisError

from loops.budgeted import budgeted
from loops.closing import closing, closing_opened
from loops.errors import ReplayDiverged, RunLeft
from loops.guard import Raised, outcome_of
from loops.hook_registry import HookRegistry, join_hook_registry
from loops.messages import Messages
from loops.runtime import Scope, scoped
from loops.tasks import Owner, overlook
from loops.wire import as_event, encode

from .begin import Begun
from .calls import RunPlace
from .closing_history import closing_messages
from .ending import LEFT_BY_STOP, Ending, refused_at_once
from .gear import gear_of
from .journal import encode_message
from .left import Left
from .lifecycle import Lifecycle
from .nudges import SWEEP
from .queue import Claim
from .settling import settle
from .wire import Part
from .working import WorkerResources
from .writer import GO_ON

REFUSED = 0.05
"""Seconds after a refused park before the run asks again."""

CLOSING = 10.0
"""Seconds that a cancelled loop has to write what it still wants to say."""

logger = logging.getLogger("loopmill.run")


class RunPass:
    """One claim's pass over a run."""

    def __init__(
        self,
        resources: WorkerResources,
        place: RunPlace,
        begun: Begun,
        *,
        claim: Claim,
        lifecycle: Lifecycle,
    ) -> None:
        self._resources = resources
        self._place = place
        self._begun = begun
        self._claim = claim
        self._lifecycle = lifecycle
        self._loops = Owner()
        self._services = Owner()
        self._leaving: asyncio.Task[Left | None] | None = None
        gear = gear_of(
            resources,
            place,
            begun,
            claim=claim,
            services=self._services,
            is_draining=lambda: lifecycle.draining,
        )
        self._writer, self._publisher, self._context = gear.writer, gear.publisher, gear.context
        self._desk, self._hooks, self._head = gear.desk, gear.hooks, gear.head
        self._idling, self._clock = gear.idling, gear.clock
        self._cancelled = asyncio.Event()
        self.runtime = gear.runtime

    async def run(self) -> Left:
        """Drive the loop until it ends or the run is left; the loop is closed in either case."""
        try:
            with self._resources.nudges.listener(self._claim.job_id, self._hear):
                return await self._until_left()
        except RunLeft:
            return Left.LOST
        finally:
            await self._finish_leaving()
            self._writer.leave()
            await self._close_loop()
            self._publisher.close()
            await self._services.close_within(CLOSING)

    async def _until_left(self) -> Left:
        refused = refused_at_once(self._begun, self._claim)
        if refused is not None:
            return await self._left_by(refused) or Left.LOST
        loop = self._loops.start(outcome_of(self._drive_loop), name="loop")
        # A loop that is closed after the run was given up is refused, and nobody asks for that.
        loop.add_done_callback(overlook)
        self._services.start(self._sweep(), name="sweep")
        while True:
            left = await self._left_by(await self._next_ending(loop))
            if left is not None:
                return left

    async def _left_by(self, ending: Ending) -> Left | None:
        # Whatever becomes of this job's task, a leave that was begun is brought to its end.
        self._leaving = self._services.start(self._leave(ending), name="leave")
        left = await asyncio.shield(self._leaving)
        if left is None:
            self._leaving = None
        return left

    async def _finish_leaving(self) -> None:
        if self._claim.stop is not None and self._leaving is None:
            # The worker wants the job's task back: the run is left before the loop hears of it.
            stopped = self._leave(Ending(LEFT_BY_STOP[self._claim.stop]))
            self._leaving = self._services.start(stopped, name="leave")
        if self._leaving is not None:
            await asyncio.wait({self._leaving}, timeout=2 * CLOSING)
            if self._leaving.done() and not self._leaving.cancelled():
                # Whoever stopped the job asks for nothing more; the server knows what became of it.
                self._leaving.exception()

    def _hear(self, kind: str, key: str, value: bytes) -> None:
        if kind in {"call", "hook"}:
            self.runtime.answers.arrive(key, value)
        elif kind == "cancel":
            self._cancelled.set()
        elif kind == "steer":
            self.runtime.steering.hear(int(value))

    async def _next_ending(self, loop: asyncio.Task[Raised | None]) -> Ending:
        watched: dict[asyncio.Future[Any], Left] = {
            self._watch(self._cancelled.wait()): Left.CANCELLED,
            self._watch(self._drained()): Left.HANDED_BACK,
            self._watch(self._asked_to_park()): Left.PARKED,
            self._watch(self._waited_long()): Left.PARKED,
        }
        try:
            done = await self._first_of({loop, self.runtime.left, *watched})
        finally:
            for watcher in watched:
                watcher.cancel()
        if loop in done:
            outcome = loop.result()
            return Ending(Left.FAILED, outcome.error) if outcome else Ending(Left.COMPLETED)
        if self.runtime.left in done:
            return Ending(self.runtime.left.result())
        lefts = [left for future, left in watched.items() if future in done]
        if lefts and (lefts[0] is Left.CANCELLED or self._clock.left):
            return Ending(lefts[0])
        return Ending(Left.TIMED_OUT, self._clock.timed_out())

    async def _first_of(self, futures: set[asyncio.Future[Any]]) -> set[asyncio.Future[Any]]:
        done: set[asyncio.Future[Any]] = set()
        # Waiting does not count, so more time may be left than when the wait began.
        while not done and (left := self._clock.left):
            done, _ = await asyncio.wait(futures, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        return done

    def _watch(self, wait: Coroutine[Any, Any, object]) -> asyncio.Task[object]:
        return self._services.start(wait, name="watch")

    # A run that only waits can be left at no cost; one that waits for answers is woken by them.
    async def _drained(self) -> None:
        await self._lifecycle.drained()
        await self._idling.until_still()

    async def _asked_to_park(self) -> None:
        await self._claim.slot.asked_to_park.wait()
        await self._idling.until_idle()

    async def _waited_long(self) -> None:
        """Wait until it is long enough that the run has waited for a hook or a sleep."""
        seconds = max(self._resources.settings.park_after.total_seconds(), REFUSED)
        while True:
            await self._idling.until_idle_for(seconds)
            if self.runtime.answers.is_outside:
                return

    async def _drive_loop(self) -> None:
        app, run = self._resources.app, self._begun.run
        join_hook_registry(HookRegistry())
        runtime = budgeted(
            self.runtime,
            self._context.budget,
            warn=lambda event: self._publisher.say_once(*encode(event)),
            seconds=lambda: self._clock.ran,
        )
        with scoped(Scope(runtime, self._context, app.agents.get(run.agent))):
            events = app.loop_of(run.agent)(self._context)
            async with closing_opened(), closing(events):
                async for yielded in events:
                    event = as_event(yielded)
                    if event is not None:
                        await self.runtime.publish(event)

    async def _sweep(self) -> None:
        """Make up for lost messages, and keep the log bounded, once a second."""
        while True:
            await asyncio.sleep(SWEEP)
            with suppress(RedisError):
                await self._look_around()
                await self._head.cut_when_long(self._begun.epoch)

    async def _look_around(self) -> None:
        """Read what a message would have told: answers, a cancel, and what was said."""
        await self._desk.look_up(self.runtime.answers, self._begun.epoch)
        await self._hooks.look_up(self.runtime.answers)
        names = self._place.names
        is_cancelled, said = await self._resources.link.all(
            [("HEXISTS", names.record, "cancel"), ("HGET", names.record, "said")]
        )
        if is_cancelled:
            self._cancelled.set()
        self.runtime.steering.hear(int(said or 0))

    async def _close_loop(self) -> None:
        self.runtime.close()
        self._idling.close()
        if not await self._loops.close_within(CLOSING):
            logger.warning("! the loop of %s does not end when it is cancelled", self._begun.run.id)

    # -- leaving

    async def _leave(self, ending: Ending) -> Left | None:
        """Leave the run, and return how; None when a park was refused, and the loop goes on."""
        try:
            return await self._leave_by(ending)
        except ReplayDiverged as error:
            # Its messages are refused, so it cannot go on elsewhere either.
            await self._close_loop()
            await self._settle(Ending(Left.FAILED, error))
            return Left.FAILED

    async def _leave_by(self, ending: Ending) -> Left | None:
        match ending.left:
            case Left.PARKED:
                return await self._park()
            case Left.HANDED_BACK:
                self._claim.released = True
                await self.runtime.end("hand_back", self._claim.token, self._clock.ran_ms)
            case Left.PASS_ENDED | Left.LOST:
                self._writer.leave()
            case _:
                await self._close_loop()
                if not self._has_just_begun:
                    with suppress(RedisError):
                        await self._head.cut_when_long(self._begun.epoch)
                self._claim.released = True
                if not await self._settle(ending):
                    self._claim.released = False
                    return Left.STEERED
        return ending.left

    @property
    def _has_just_begun(self) -> bool:
        """Whether this is the run's first second, and it has said little: its log is short."""
        is_first = self._begun.epoch == 1 and self._clock.ran < SWEEP
        return is_first and self._head.is_short(self._publisher.events, self._publisher.bytes)

    async def _settle(self, ending: Ending) -> bool:
        return await settle(self.runtime, self._context, ending, seconds=self._clock.ran)

    def _closing(self) -> list[bytes]:
        """Return what the session gets if the run ends while it is parked."""
        context, runtime = self._context, self.runtime
        messages = Messages.of(context.messages)
        closing = closing_messages(messages, runtime.last_turn, runtime.answers.result_of)
        return [encode_message(message) for message in closing]

    async def _park(self) -> Left | None:
        waiting = self.runtime.answers.waiting
        if self._idling.is_idle and self.runtime.answers.is_all_missing:
            self._claim.released = True
            reason = "hooks" if self.runtime.answers.is_outside else "tools"
            event = orjson.dumps([{"type": "run.waiting", "data": {"reason": reason}}])
            told: list[Part] = [event, self._clock.ran_ms, len(waiting), *waiting]
            closing = self._closing()
            told += [len(closing), *closing]
            answer = await self.runtime.end("park", *told)
            if answer[0] != GO_ON:
                return Left.PARKED
            self._claim.released = False
            # What it waits for is answered, or it is cancelled, and the message was lost.
            with suppress(RedisError):
                await self._look_around()
        await asyncio.sleep(REFUSED)
        return None
