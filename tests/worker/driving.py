"""Runs in this process: an app, a worker of runs and one of tools, over a real server."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from loops.app import App
from loops.history import inspect
from loops.messages import Messages
from loops.tasks import Owner
from tests.waiting import wait_until
from tests.worker.workshop import settings
from worker.arq_worker import QueueWorker
from worker.calls import RunPlace
from worker.event_log import TERMINAL_EVENTS, LogEvent
from worker.functions import Work
from worker.jobs import JOBS, settle_dead
from worker.link import Link
from worker.new_run import NewRun
from worker.resources import Resources, resources_over
from worker.run_record import RunRecord
from worker.settings import Settings
from worker.working import working

TENANT = "acme"
LAW = {"unanswered_call", "orphan_result", "misplaced_result"}


@dataclass(frozen=True)
class Ended:
    """A run that has ended."""

    run: RunRecord
    events: list[LogEvent]
    history: list[dict[str, Any]]
    """All that its session holds."""

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.events]

    def of(self, *types: str) -> list[dict[str, Any]]:
        """Return the data of the events of these types."""
        return [event.data for event in self.events if event.type in types]

    @property
    def results(self) -> list[Any]:
        """The contents of the results in the history, in its order."""
        messages = Messages.of(self.history)
        return [block.content for message in messages for block in message.tool_results]


@dataclass
class Mill:
    """A small deployment in one process."""

    link: Link
    app: App
    settings: Settings
    resources: Resources
    owner: Owner = field(default_factory=Owner)
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    workers: list[QueueWorker] = field(default_factory=list[QueueWorker])

    async def worker(
        self, *queues: str, concurrency: int = 10, link: Link | None = None
    ) -> QueueWorker:
        """Start a worker, which serves until it is stopped."""
        ctx: dict[str, Any] = {}
        mine = self.resources if link is None else resources_over(link, self.settings)
        work = Work(JOBS, queues, concurrency, on_dead=settle_dead, ctx=ctx)
        worker = QueueWorker(mine.link, mine.keys, self.settings, work)
        opened = working(mine, app=self.app, worker_id=worker.worker_id)
        worker.ctx["resources"] = await self.stack.enter_async_context(opened)
        await worker.ctx["resources"].nudges.is_listening.wait()
        self.owner.start(worker.main(), name=f"worker of {queues}")
        self.workers.append(worker)
        return worker

    async def submit(self, agent: str = "agent", said: str = "go", **new: Any) -> RunPlace:
        """Have a run accepted."""
        message = {"role": "user", "content": said}
        created = await self.resources.runs.create(TENANT, NewRun(agent, [message], **new))
        return RunPlace(self.resources.keys, TENANT, created.run_id)

    async def log(self, place: RunPlace) -> list[LogEvent]:
        """Return the run's events so far."""
        return await self.resources.log.read(
            self.resources.keys.run(TENANT, place.run_id), limit=1_000_000
        )

    async def run_of(self, place: RunPlace) -> RunRecord:
        """Return the run's record."""
        return await self.resources.runs.load(TENANT, place.run_id)

    async def until(
        self, place: RunPlace, is_it: str | Callable[[list[LogEvent]], bool], *, count: int = 1
    ) -> None:
        """Wait for so many events of a type in the run's log, or for what its events say."""

        async def has_come() -> bool:
            events = await self.log(place)
            if not isinstance(is_it, str):
                return is_it(events)
            return [event.type for event in events].count(is_it) >= count

        await wait_until(has_come, for_=f"{is_it} in the log")

    async def ended(self, place: RunPlace) -> Ended:
        """Wait for the run's end."""

        async def is_settled() -> bool:
            return (await self.run_of(place)).is_settled

        await wait_until(is_settled, for_="the run to end")
        run, events = await self.run_of(place), await self.log(place)
        assert events[-1].type in TERMINAL_EVENTS
        stored = await self.resources.sessions.messages(TENANT, run.session_id, limit=10_000)
        history = [each.message for each in stored]
        broken = [issue for issue in inspect(Messages.of(history)) if issue.kind in LAW]
        assert broken == [], f"the pairing law: {broken}"
        return Ended(run, events, history)

    async def through(self, agent: str = "agent", said: str = "go", **new: Any) -> Ended:
        """Submit a run and see it through."""
        return await self.ended(await self.submit(agent, said, **new))

    async def lapse(self, queue: str, job_id: str) -> None:
        """Let a claim be over, as if its worker had died: another one takes the job."""
        names = self.resources.keys.queue(queue)
        await self.link.command("HSET", names.tokens, job_id, "the dead:1")
        await self.link.command("ZADD", names.claims, 1, job_id)
        await self.link.run("wake", [names.queue])

    async def lapse_run(self, place: RunPlace) -> None:
        """Let the claim of the run's job be over."""
        await self.lapse("runs", self.resources.keys.run_job(TENANT, place.run_id))

    async def close(self) -> None:
        """Stop all workers."""
        for worker in self.workers:
            worker.stop()
        await self.owner.join()
        await self.stack.aclose()


@asynccontextmanager
async def milling(
    link: Link,
    agents: Mapping[str, Any],
    *,
    runs: int | None = 10,
    tools: int | None = 10,
    **changes: Any,
) -> AsyncGenerator[Mill]:
    """Serve the agents, with so many slots for runs and for tools; None for no such worker."""
    told = settings(namespace="t", **changes)
    mill = Mill(link, App(agents=agents), told, resources_over(link, told))
    try:
        if runs is not None:
            await mill.worker("runs", concurrency=runs)
        if tools is not None:
            await mill.worker("tools", concurrency=tools)
        yield mill
    finally:
        await mill.close()
