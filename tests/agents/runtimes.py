"""One agent, two runtimes: a run in this process or on workers, and what it gave."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

import loops as ai
from loops.events import AgentEvent, HookEvent, ToolCallResult
from loops.question import Answer
from loops.wire import decode
from tests.worker.driving import TENANT, Mill, milling
from worker.calls import RunPlace
from worker.event_log import TERMINAL_EVENTS, LogEvent
from worker.link import Link
from worker.new_run import NewRun

Told = TypeVar("Told")

Reaction = Callable[[AgentEvent], Mapping[str, Any]]
"""What a reader answers when it has read the event: answers, by the labels of the hooks."""


def nothing(event: AgentEvent) -> Mapping[str, Any]:
    """Let the run go on by itself."""
    del event
    return {}


def when_asked(answer: Mapping[str, Any]) -> Reaction:
    """Answer each hook like this as soon as it is open."""

    def react(event: AgentEvent) -> Mapping[str, Any]:
        is_open = isinstance(event, HookEvent) and event.status == "opened"
        return {event.label: answer} if isinstance(event, HookEvent) and is_open else {}

    return react


NOBODY: Mapping[str, ai.Agent] = MappingProxyType({})


@dataclass(frozen=True)
class Outcome:
    """What a run gave to whoever read it."""

    output: Any
    history: list[dict[str, Any]]
    events: list[AgentEvent]

    def of(self, kind: type[Told]) -> list[Told]:
        """Return the events of a kind."""
        return [each for each in self.events if isinstance(each, kind)]

    @property
    def results(self) -> list[tuple[Any, bool]]:
        """What the calls were answered, and whether that is an error."""
        return [(each.content, each.is_error) for each in self.of(ToolCallResult)]

    @property
    def roles(self) -> list[str]:
        """Whose messages the history holds, as a provider is told."""
        return [message["role"] for message in self.history]


class Through(Protocol):
    """Sees one run of an agent through."""

    async def __call__(
        self,
        agent: ai.Agent,
        messages: str | list[dict[str, Any]] = "go",
        react: Reaction = nothing,
        others: Mapping[str, ai.Agent] = NOBODY,
    ) -> Outcome:
        """Run the agent with these messages; the reader answers as `react` says.

        The others are agents of the same app, by their names.
        """
        ...


async def in_process(
    agent: ai.Agent,
    messages: str | list[dict[str, Any]] = "go",
    react: Reaction = nothing,
    others: Mapping[str, ai.Agent] = NOBODY,
) -> Outcome:
    """See a run through in this process."""
    events: list[AgentEvent] = []
    app = ai.App(agents={"agent": agent, **others})
    async with app.start("agent", messages) as stream:
        async for event in stream:
            events.append(event)
            for label, answer in react(event).items():
                ai.resolve_hook(label, answer)
    return Outcome(stream.output, stream.messages.raw, events)


def on_workers(link: Link) -> Through:
    """Return what sees runs through on workers."""

    async def through(
        agent: ai.Agent,
        messages: str | list[dict[str, Any]] = "go",
        react: Reaction = nothing,
        others: Mapping[str, ai.Agent] = NOBODY,
    ) -> Outcome:
        async with milling(link, {"agent": agent, **others}) as mill:
            new = NewRun("agent", ai.Messages.of(messages).raw)
            created = await mill.resources.runs.create(TENANT, new)
            place = RunPlace(mill.resources.keys, TENANT, created.run_id)
            events = await _followed(mill, place, react)
            ended = await mill.ended(place)
        return Outcome(ended.run.output, ended.history, events)

    return through


async def _followed(mill: Mill, place: RunPlace, react: Reaction) -> list[AgentEvent]:
    """Read the run's log to its end, and answer its hooks from outside."""
    events: list[AgentEvent] = []
    is_over = False
    while not is_over:
        await mill.until(place, _has_more_than(len(events)))
        for told in (await mill.log(place))[len(events) :]:
            event = decode(told.type, told.data, turn=told.turn)
            events.append(event)
            is_over = told.type in TERMINAL_EVENTS
            for label, answer in react(event).items():
                hook = await mill.resources.hooks.load(TENANT, place.run_id, label)
                await mill.resources.hooks.close(TENANT, hook, Answer("resolved", answer))
    return events


def _has_more_than(count: int) -> Callable[[list[LogEvent]], bool]:
    return lambda log: len(log) > count
