"""Say something to a run that goes on: it takes that in before its next turn."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import orjson

from loops.errors import (
    AlreadySettled,
    IdempotencyConflict,
    InvalidInput,
    QueueFull,
    RequestError,
    UnknownRun,
)

from .keys import Keys
from .link import Link
from .new_run import IDEMPOTENCY, milliseconds
from .wire import Part

STEERS = 100
"""How many messages may wait that were said to a run."""


async def steer(
    link: Link,
    keys: Keys,
    run: tuple[str, str],
    messages: Sequence[dict[str, Any]],
    *,
    idempotency: tuple[str, str] | None = None,
) -> str:
    """Say the messages to a run, and return the run's id; the same request says them once.

    What a run that ends has not taken in stands in its session, for the next one.

    Args:
        link: The way to the server.
        keys: The names.
        run: Tenant and id.
        messages: Plain messages in Anthropic's shape.
        idempotency: Digests of the idempotency key and of the request's body.

    Raises:
        UnknownRun: This tenant has no such run.
        AlreadySettled: The run has ended.
        IdempotencyConflict: The key came before with another body.
        InvalidInput: That is too much at once.
        QueueFull: Too much waits already that was said to it.
    """
    tenant, run_id = run
    if len(messages) > STEERS:
        raise InvalidInput(f"at most {STEERS} messages are said to a run at once")
    digest, body = idempotency or ("", "")
    arguments: list[Part] = [body, milliseconds(IDEMPOTENCY), run_id, STEERS]
    arguments += [orjson.dumps(message) for message in messages]
    names = [keys.run(*run).record, keys.idempotency(tenant, digest) if digest else ""]
    code, about = await link.run("steer_run", names, arguments)
    if code in {1, 2}:
        return str(about.decode())
    raise _refusal(code, run_id, about.decode())


def _refusal(code: int, run_id: str, about: str) -> RequestError:
    match code:
        case 3:
            return IdempotencyConflict.of(about)
        case 5:
            return QueueFull(
                f"{STEERS} messages wait already for run {run_id!r}; say more when it has taken "
                "them in",
                retry_after=timedelta(seconds=5),
            )
        case 0:
            return AlreadySettled(f"run {run_id!r} is {about} already")
        case _:
            return UnknownRun(f"there is no run {run_id!r}")
