"""What one pass works with, put together: from the loop's context to the writer of its scripts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from loops.agent import Agent
from loops.agentic import GATEWAY
from loops.app import App
from loops.context import Context
from loops.tasks import Owner

from .answers import Answers
from .begin import Begun
from .calls import CallDesk, Offer, RunPlace
from .children import Children
from .hook_desk import HookDesk
from .idling import Idling
from .log_head import LogHead
from .outbox import Outbox
from .publisher import QUICK, WINDOW, Publisher
from .queue import Claim
from .run_clock import RunClock
from .run_context import context_of
from .runtime import QueueRuntime
from .turns import Turns
from .waits import Waits
from .working import WorkerResources
from .workspaces import workspace_of
from .writer import Writer


@dataclass(frozen=True, slots=True)
class Gear:
    """What one pass works with."""

    context: Context
    writer: Writer
    publisher: Publisher
    desk: CallDesk
    hooks: HookDesk
    head: LogHead
    idling: Idling
    clock: RunClock
    runtime: QueueRuntime


def gear_of(
    resources: WorkerResources,
    place: RunPlace,
    begun: Begun,
    *,
    claim: Claim,
    services: Owner,
    is_draining: Callable[[], bool],
) -> Gear:
    """Return what a pass works with.

    Raises:
        UnknownLoop: When the app has no such agent.
    """
    link, settings, app = resources.link, resources.settings, resources.app
    context = context_of(app, begun)
    context.workspace = workspace_of(settings, place.tenant, begun.run.session_id)
    writer = Writer(link, place.record, begun.epoch, services)
    publisher = _publisher(app, begun, writer)
    publisher.follow(context)
    desk = CallDesk(link, place, settings, offer=_offer(app, begun, context))
    hooks, idling = HookDesk(link, place, services), Idling(claim.slot, services)
    answers = Answers(begun.handed)
    waits = Waits(begun.journal, publisher=publisher, answers=answers, idling=idling, hooks=hooks)
    pace = resources.pace
    turns = Turns(begun, publisher=publisher, waits=waits, pace=pace, is_draining=is_draining)
    children = Children(resources, place, begun, waits)
    return Gear(
        context=context,
        writer=writer,
        publisher=publisher,
        desk=desk,
        hooks=hooks,
        head=LogHead(link, resources.log, place, settings),
        idling=idling,
        clock=RunClock(begun.run.timeout, begun.ran, idling),
        runtime=QueueRuntime(
            begun, publisher=publisher, turns=turns, desk=desk, waits=waits, children=children
        ),
    )


def _publisher(app: App, begun: Begun, writer: Writer) -> Publisher:
    agent = app.agents[begun.run.agent]
    ahead = agent.LOOP_BUFFER if isinstance(agent, Agent) else None
    return Publisher(
        writer,
        Outbox(begun.published),
        base=len(begun.window.history),
        ahead=ahead,
        window=QUICK if begun.run.agent == GATEWAY else WINDOW,
    )


def _offer(app: App, begun: Begun, context: Context) -> Offer:
    name = begun.run.agent
    tools = app.tools_of(name)
    return Offer(name, tools, context.tool_context(), given=lambda: context.tools)
