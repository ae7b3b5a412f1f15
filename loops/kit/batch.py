"""Carry out the calls of one reply, side by side; each has one result, whatever becomes of the run.

The results are kept before their reader is shown any: what was done is never forgotten.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from loops.blocks import Raw
from loops.tasks import Owner
from loops.tool_runner import CALLS_PER_TURN

from .estimate import blocks_of, tokens_of
from .events import PING
from .kit_run import KitRun
from .planned import Planned
from .rows import log
from .session import INTERRUPTED
from .shaping import Output, shaped
from .turn import Turn

NOT_BEGUN = "Error: the run was interrupted before this call began; it has had no effect."
REPEATED = (
    "Error: you have made these very calls {count} times in a row, so they were not carried out "
    "again. Do something else, or tell the user what is missing."
)
TOO_MANY = f"Error: not called; a reply may have at most {CALLS_PER_TURN} calls."

DRAIN = 2.0
"""Seconds that calls have to end when the run is cancelled."""


@dataclass
class Batch:
    """The calls of a reply while they are carried out."""

    planned: list[Planned]
    begun: set[int] = field(default_factory=set[int])
    outputs: dict[int, Output] = field(default_factory=dict[int, Output])
    took: dict[int, float] = field(default_factory=dict[int, float])

    async def carry_out(self, lane: Sequence[int]) -> None:
        """Carry out some calls, one after the other."""
        for at in lane:
            self.begun.add(at)
            began = monotonic()
            given = await self.planned[at].work()
            self.took[at] = monotonic() - began
            self.outputs[at] = shaped(self.planned[at], given)

    @property
    def ends(self) -> bool:
        """Whether it is the person's turn now."""
        return any(output.ends for output in self.outputs.values())

    def message(self) -> Raw:
        """Return the message with one result for each call."""
        blocks = [self._result(at).block(each.block["id"]) for at, each in enumerate(self.planned)]
        return {"role": "user", "content": blocks}

    def _result(self, at: int) -> Output:
        missing = INTERRUPTED if at in self.begun else NOT_BEGUN
        return self.outputs.get(at) or Output(missing, is_error=True)


async def answer(run: KitRun, turn: Turn) -> AsyncIterator[Any]:
    """Yield what the reader is shown of the calls; `run.turn` has its results in the session then.

    Yields `Batch` last.
    """
    desk = run.desk()
    batch = Batch([desk.plan(block) for block in turn.calls])
    owner = Owner()
    try:
        for each in batch.planned:
            yield each.step
            if each.card is not None:
                yield each.card
        tasks = [
            owner.start(batch.carry_out(lane), name="calls") for lane in lanes(run, batch, turn)
        ]
        pending = set(tasks)
        while pending:
            every = run.options.heartbeat.total_seconds()
            _, pending = await asyncio.wait(pending, timeout=every)
            if pending:
                yield PING
    finally:
        await owner.close_within(DRAIN)
        await _keep(run, batch)
    for task in tasks:
        # What is not a tool's own failure ends the run.
        task.result()
    for shown in _shown(batch):
        yield shown
    yield batch


def not_begun(messages: Sequence[Raw]) -> list[Raw]:
    """Return the message that answers the calls of a reply that comes last; none if it has none."""
    blocks = blocks_of(messages[-1]) if messages else []
    calls = [block for block in blocks if block.get("type") == "tool_use"]
    answers = [Output(NOT_BEGUN, is_error=True).block(block["id"]) for block in calls]
    return [{"role": "user", "content": answers}] if answers else []


async def _keep(run: KitRun, batch: Batch) -> None:
    message = batch.message()
    run.session.messages.append(message)
    run.tokens += tokens_of([message])
    await run.session.checkpoint()
    if run.turn is not None and not run.turn.replayed:
        for at, output in batch.outputs.items():
            log(run.context, "tool_call", _row(batch, at, output))


def _row(batch: Batch, at: int, output: Output) -> Raw:
    block = batch.planned[at].block
    return {
        "tool": block.get("name"),
        "tool_use_id": block.get("id"),
        "ms": round(batch.took.get(at, 0.0) * 1000),
        "ok": not output.is_error,
        "output_bytes": len(str(output.content).encode("utf-8", "replace")),
    }


def _shown(batch: Batch) -> list[Any]:
    places = range(len(batch.planned))
    return [shown for at in places if at in batch.outputs for shown in batch.outputs[at].shown]


def lanes(run: KitRun, batch: Batch, turn: Turn) -> list[list[int]]:
    """Return which calls are carried out, those of a list one after the other.

    Edits of one file keep their order. What is not carried out has its answer already.
    """
    if run.repetition.is_refused:
        refusal = Output(REPEATED.format(count=run.repetition.count), is_error=True)
        batch.outputs = dict.fromkeys(range(len(turn.calls)), refusal)
        return []
    for at in range(CALLS_PER_TURN, len(turn.calls)):
        batch.outputs[at] = Output(TOO_MANY, is_error=True)
    by_file: dict[object, list[int]] = {}
    for at, block in enumerate(turn.calls[:CALLS_PER_TURN]):
        is_edit = block.get("name") == "edit" and isinstance(block.get("input"), dict)
        by_file.setdefault(str(block["input"].get("path")) if is_edit else at, []).append(at)
    return list(by_file.values())
