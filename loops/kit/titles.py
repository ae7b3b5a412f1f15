"""A name for a new conversation, where the program wants one."""

from collections.abc import AsyncIterator
from typing import Any

from loops.guard import Raised

from .beating import beating
from .kit_run import KitRun
from .rows import log
from .turn import Turn

SYSTEM = "You name conversations. Answer with the name alone: a few words, no quotes, no full stop."
LONGEST = 80
"""How many characters a name may have."""

FIRST = 3
"""Up to how many messages of a person a conversation is new."""


async def title(run: KitRun) -> AsyncIterator[Any]:
    """Yield the name of a new conversation, if the loop is to give it one; a failure is none."""
    said = [each for each in run.session.messages if _is_said(each)]
    if not run.options.titles or not 0 < len(said) <= FIRST or run.session.first_kept:
        return
    # The tokens of it are counted like any other's.
    source = run.provider.stream(
        messages=[{"role": "user", "content": str(said[0]["content"])[:2000]}],
        system=SYSTEM,
        max_tokens=100,
    )
    text = ""
    async for event in run.nest(beating(source, run.options.heartbeat)):
        if isinstance(event, Turn):
            run.spend(event, {"title": True})
            text = event.text
        elif isinstance(event, Raised):
            log(run.context, "title", {"ok": False})
        elif event == {"type": "ping"}:
            yield event
    name = " ".join(text.split())[:LONGEST]
    if name:
        yield {"type": "ui", "action": "title", "chat_id": run.context.chat_id, "title": name}


def _is_said(message: dict[str, Any]) -> bool:
    return (
        message["role"] == "user"
        and not message.get("internal")
        and isinstance(message["content"], str)
    )
