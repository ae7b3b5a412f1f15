"""One run of the default loop: whom it asks, what it has come to, what it counts."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from loops.blocks import Raw
from loops.context import Context
from loops.errors import SetupError
from loops.providers.deployment import Price
from loops.runtime import active_scope

from .deciding import Progress
from .dispatch import Desk
from .estimate import tokens_of
from .limits import Repetition
from .nest import Nest
from .options import Options, trigger
from .plain import to_raw
from .priced import cost_of
from .rows import log
from .session import Session
from .turn import Turn

KEEP = 0.3
"""The share of the window that is kept word for word when earlier messages are put together."""


class KitRun:
    """What the parts of the default loop share."""

    def __init__(self, context: Context, session: Session, options: Options, nest: Nest) -> None:
        self.context = context
        self.session = session
        self.options = options
        self.nest = nest
        self.is_over = False
        """Whether there is nothing left to answer."""
        self.provider = options.asked()
        self.tools: list[Raw] = options.offered()
        self.progress = Progress()
        self.repetition = Repetition(options.limits.repeats)
        self._used: set[str] = set()
        if options.limits.cost is not None and self.price is None:
            raise SetupError("a limit of cost needs a price: LLM().price(input=…, output=…)")
        self.turn: Turn | None = None
        """The reply that came last."""
        self.cost = 0.0
        self.asked = 0
        """How many replies this loop has asked for."""
        is_known = session.limit_of == self.provider.model
        self.window = min(options.window, (is_known and session.limit) or options.window)
        self.tokens = 0

    @property
    def trigger(self) -> int:
        """From how many tokens on earlier messages are put together."""
        return trigger(self.window, self.options.output)

    @property
    def keep(self) -> int:
        """How many tokens are kept word for word then."""
        return max(1, int(self.window * KEEP))

    @property
    def can_fold(self) -> bool:
        """Whether there is something that could be put together."""
        return len(self.session.messages) - self.session.first_kept > 2

    def standing_request(self) -> dict[str, Any]:
        """Return what is asked each time, besides the messages."""
        options = self.options
        told = {
            "system": options.system,
            "tools": self.tools,
            "thinking": options.thinking,
            "extra_body": options.extra_body,
            "mcp_servers": options.mcp_servers,
        }
        return {name: value for name, value in told.items() if value is not None}

    def request(self) -> dict[str, Any]:
        """Return what is asked next."""
        messages = self.session.context()
        return {**self.standing_request(), "messages": messages, "max_tokens": self.options.output}

    def measure(self) -> None:
        """Estimate how many tokens the next request has."""
        asked = tokens_of(self.session.context()) + tokens_of(self.options.system)
        self.tokens = asked + sum(tokens_of(str(tool)) for tool in self.tools)

    async def take(self, turn: Turn) -> None:
        """Take a reply: add it to the session, count what it has cost."""
        self.turn = turn
        self.asked += 1
        self.context.turns += 1
        self.tokens = turn.read + turn.output if turn.read else self.tokens + turn.output
        self.spend(turn, {"stop": turn.stop_reason})
        usage = {
            "model": self.provider.model,
            "input": turn.input,
            "output": turn.output,
            "cached": turn.cached,
            "cache_create": turn.cache_create,
            "cost": f"{cost_of(turn, self.price):.6f}",
            "at": (await self.context.now()).isoformat(),
        }
        self.session.add_turn(turn, usage=usage)

    def spend(self, turn: Turn, more: Mapping[str, Any]) -> None:
        """Count and log what a reply has cost, whatever it was asked for."""
        cost = cost_of(turn, self.price)
        self.cost += cost
        if not turn.replayed:
            counted = {name: getattr(turn, name) for name in _COUNTED}
            row = {"model": self.provider.model, **counted, "cost": f"{cost:.6f}", **more}
            log(self.context, "usage", row)

    @property
    def price(self) -> Price | None:
        """What a million tokens cost."""
        given = self.options.price
        return given if given is None or isinstance(given, Price) else Price(**given)

    def desk(self) -> Desk:
        """Return what plans the calls of the next reply."""
        options = self.options
        return Desk(
            self.context.workspace,
            options.bash_timeout,
            options.handlers or {},
            ctx=options.acting(self.context),
            used=self._used,
            offered=frozenset(tool["name"] for tool in self.tools),
            declined=frozenset(options.declined),
        )

    async def take_steers(self) -> bool:
        """Take in what was said to the run meanwhile, and say whether it was something."""
        if not self._is_its_own:
            return False
        said = await self.context.current_runtime().steers()
        self.session.messages += [to_raw(message) for message in said]
        if said:
            await self.session.checkpoint()
        return bool(said)

    @property
    def is_steered(self) -> bool:
        """Whether something was said to the run that it has not taken in."""
        return self._is_its_own and self.context.current_runtime().is_steered

    @property
    def _is_its_own(self) -> bool:
        scope = active_scope()
        return scope is not None and scope.context is self.context

    async def idle(self) -> timedelta:
        """Return how long ago the last reply of the session came; nothing where that is unknown."""
        for message in reversed(self.session.messages):
            came = _time_of(message)
            if came is not None:
                return await self.context.now() - came
        return timedelta(0)


def _time_of(message: Mapping[str, Any]) -> datetime | None:
    """Return when a reply came; None where that is not said, or not as we say it."""
    usage: Any = message.get("usage")
    with suppress(AttributeError, TypeError, ValueError):
        came = datetime.fromisoformat(usage.get("at"))
        return came if came.tzinfo is not None else None
    return None


_COUNTED = ("input", "output", "cached", "cache_create")
