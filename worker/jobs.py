"""The functions behind jobs of runs and calls; arguments are ids, the record is the truth."""

from __future__ import annotations

from typing import Any

from .call_results import fail_unbegun
from .calls import RunPlace
from .drive import drive, settle_unowned
from .functions import JobFunction, job_function
from .queue import RELEASED, Claim, Released
from .tool_job import ToolJob
from .verdict import NotHere
from .working import WorkerResources


async def drive_run(
    ctx: dict[str, Any], tenant: str, run_id: str, agent: str
) -> Released | NotHere:
    """Drive one run to its end, or until somebody else goes on with it."""
    resources: WorkerResources = ctx["resources"]
    if agent not in resources.app.agents:
        # In a rolling deploy a newer worker knows it.
        return NotHere()
    place = RunPlace(resources.keys, tenant, run_id)
    await drive(resources, place, claim=ctx["claim"], lifecycle=ctx["lifecycle"])
    return RELEASED


async def perform_call(
    ctx: dict[str, Any], tenant: str, run_id: str, call: str, tool: str
) -> Released | NotHere:
    """Fulfil one call of a tool; `tool` is its agent and its name, with a `/` between."""
    resources: WorkerResources = ctx["resources"]
    agent, _, name = tool.rpartition("/")
    if agent not in resources.app.agents or name not in resources.app.tools_of(agent):
        return NotHere()
    place = RunPlace(resources.keys, tenant, run_id)
    await ToolJob(resources, ctx["claim"], place, call).run()
    return RELEASED


async def settle_dead(ctx: dict[str, Any], claim: Claim, reason: str) -> Released | None:
    """Settle the run or the call whose job will never run, so that nobody waits for it."""
    resources: WorkerResources = ctx["resources"]
    namespace, tenant, run_id, *call = [*claim.job_id.split("/", 3), "", ""][:4]
    if namespace != resources.keys.namespace or not run_id:
        return None
    place = RunPlace(resources.keys, tenant, run_id)
    claim.released = True
    message = f"no worker could begin its job: {reason.replace('_', ' ')}"
    if any(call):
        await fail_unbegun(resources.link, place, claim, key=call[0], message=message)
    else:
        failure = {"code": reason, "message": message}
        await settle_unowned(resources.link, place, claim, status="failed", failure=failure)
    return RELEASED


JOBS: list[JobFunction] = [
    job_function(drive_run, settles_itself=True),
    job_function(perform_call, settles_itself=True),
]
"""What every worker can do; its queues decide what it does."""
