"""The plans that have led to a round, and what their callbacks do when it is over."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Any, Self, cast

from loops.blocks import Raw
from loops.guard import Raised
from loops.jsonable import jsonable
from loops.runtime import Runtime

from .answer import Answer
from .call import Call
from .custom_logger import AgenticLoopPlan
from .in_time import outcome_within
from .methods import name_of, overrides
from .planning import fields_of

logger = logging.getLogger("loopmill.gateway")

POST = "async_post_agentic_loop_response_hook"
CLEANUP = "async_agentic_loop_cleanup_hook"


@dataclass(frozen=True, slots=True)
class Link:
    """A plan that was followed, and whose it is."""

    callback: object
    plan: AgenticLoopPlan
    kwargs: Mapping[str, Any]
    """What the callback was told when it made the plan."""

    @property
    def changes(self) -> bool:
        """Whether the callback wants to see the answer before the caller does."""
        return overrides(self.callback, POST)


class Chain:
    """The plans of a call, in their order; when it is over, their callbacks clean up.

    Args:
        runtime: Keeps what callbacks give.
        limit: How long a method of a callback may take.
    """

    def __init__(self, runtime: Runtime, limit: timedelta) -> None:
        self._runtime = runtime
        self._limit = limit
        self._links: list[Link] = []

    @property
    def changes(self) -> bool:
        """Whether a callback wants to see the answer before the caller does."""
        return any(link.changes for link in self._links)

    def add(self, link: Link | None) -> None:
        """Follow another plan."""
        if link is not None:
            self._links.append(link)

    async def changed(self, call: Call, body: Raw) -> Raw:
        """Return the reply as the callbacks want it, the last of them first.

        One that raises, or takes too long, leaves it as it is.
        """
        for depth in reversed(range(len(self._links))):
            link = self._links[depth]
            if link.changes:
                name = f"post:{depth}:{name_of(link.callback)}"
                told = await self._runtime.step(name, partial(self._posted, link, call, body))
                body = told["body"] or body
        return body

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for depth in reversed(range(len(self._links))):
            link = self._links[depth]
            if overrides(link.callback, CLEANUP):
                # Where somebody else goes on with the run, this is refused: he cleans up.
                name = f"cleanup:{depth}:{name_of(link.callback)}"
                await self._runtime.step(name, partial(self._cleaned, link))

    async def _cleaned(self, link: Link) -> Raw:
        await self._called(link, CLEANUP, {})
        return {}

    async def _posted(self, link: Link, call: Call, body: Raw) -> Raw:
        given = await self._called(link, POST, {"response": Answer(body, call.surface)})
        changed = None if isinstance(given, Raised) else fields_of(given)
        return {"body": None if changed is None else jsonable(changed)}

    async def _called(self, link: Link, method: str, more: Mapping[str, Any]) -> Any:
        work = cast("Callable[..., Any]", getattr(link.callback, method))
        whole = partial(work, **more, plan=link.plan, kwargs=dict(link.kwargs))
        given = await outcome_within(self._limit, whole)
        if isinstance(given, Raised):
            logger.error("! %s.%s raised %s", name_of(link.callback), method, given.text)
        return given
