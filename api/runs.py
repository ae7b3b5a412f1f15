"""Runs over HTTP: accept one, look at it, wait for it, cancel it, forget it."""

from __future__ import annotations

from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response

from loops.errors import UnknownCall
from worker.new_run import Created, NewRun
from worker.retrying import Changes
from worker.run_record import RunRecord, RunStatus

from . import pages, tickets
from .auth import now
from .deps import AtDesk, RunBody, Wait, read_call_answer, read_retry, read_said
from .desk import Desk, promptly
from .events import Reading
from .grants import answer_cards, is_asked_again, refuse_conflict
from .idempotency import idempotency
from .requests import RunRequest, as_duration, limits_of, messages_of
from .schemas import Accepted, CallList, Cancelled, Result, RunList, RunView, TicketView
from .streams import FRAMES
from .tickets import Ticket

router = APIRouter(prefix="/v1/runs")


@router.post("", status_code=HTTPStatus.ACCEPTED, response_model=Accepted)
async def create_run(request: Request, desk: AtDesk, body: RunBody) -> Response:
    """Accept a run; the same request under the same `Idempotency-Key` gives the same run."""
    desk.office.app.loop_of(body.agent)
    new = _new_run(request, body)
    if (body.approvals or body.declined) and not await is_asked_again(desk, new):
        refuse_conflict(body.on_conflict)
        await answer_cards(desk, body.session_id, body.approvals, body.declined)
    created = await promptly(desk.office.resources.runs.create(desk.tenant, new))
    if body.stream:
        return await _stream(desk, created.run_id)
    status = HTTPStatus.ACCEPTED if created.is_new else HTTPStatus.OK
    headers = {"Location": f"/v1/runs/{created.run_id}"}
    return JSONResponse(Accepted.of(created).model_dump(mode="json"), status, headers)


def _new_run(request: Request, body: RunRequest) -> NewRun:
    return NewRun(
        agent=body.agent,
        messages=messages_of(body.input),
        session_id=body.session_id,
        on_conflict=body.on_conflict,
        timeout=as_duration(body.timeout),
        metadata=body.metadata,
        budget=limits_of(body.budget),
        idempotency=idempotency(request, body, but=frozenset({"stream"})),
        traceparent=_traceparent(request.headers.get("traceparent")),
    )


def _traceparent(text: str | None) -> str | None:
    """Return the header if it can be one; a broken one is as good as none."""
    parts = (text or "").split("-")
    is_one = [len(part) for part in parts] == [2, 32, 16, 2] and all(map(_is_hex, parts))
    return text if is_one else None


def _is_hex(text: str) -> bool:
    return set(text) <= set("0123456789abcdef")


async def _stream(desk: Desk, run_id: str) -> Response:
    reading = Reading(desk, await desk.run(run_id), after=0, types=None)
    response = desk.office.stream(reading.follow(), FRAMES)
    response.headers["Location"] = f"/v1/runs/{run_id}"
    return response


@router.get("")
async def list_runs(
    desk: AtDesk,
    before: Annotated[str | None, Query(max_length=64)] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    status: RunStatus | None = None,
    agent: Annotated[str | None, Query(max_length=200)] = None,
) -> RunList:
    """List the caller's runs, newest first."""
    page = await promptly(
        desk.office.resources.runs.page(
            desk.tenant, before=before, limit=limit, status=status, agent=agent
        )
    )
    return RunList(runs=[RunView.of(record) for record in page.runs], next=page.next)


@router.get("/{run_id}")
async def get_run(run_id: str, desk: AtDesk) -> RunView:
    """Return a run, as it stands."""
    return RunView.of(await desk.run(run_id))


@router.get("/{run_id}/result")
async def get_result(run_id: str, desk: AtDesk, wait: Wait, response: Response) -> Result:
    """Return what came out of a run: 200 once it has ended, 202 before."""
    record = await _settled(desk, await desk.run(run_id), wait)
    response.status_code = HTTPStatus.OK if record.is_settled else HTTPStatus.ACCEPTED
    return Result.model_validate(record)


@router.post("/{run_id}/cancel")
async def cancel_run(run_id: str, desk: AtDesk, wait: Wait, response: Response) -> Cancelled:
    """Ask for a run's end: 200 once it has ended, 202 while it is stopping."""
    record = await desk.run(run_id)
    receipt = await promptly(desk.office.resources.runs.cancel(desk.tenant, run_id))
    done = Cancelled.of(run_id, receipt)
    if not done.is_settled and wait:
        record = await _settled(desk, record, wait)
        update: dict[str, Any] = {"status": record.status, "is_settled": record.is_settled}
        done = done.model_copy(update=update)
    response.status_code = HTTPStatus.OK if done.is_settled else HTTPStatus.ACCEPTED
    return done


@router.post("/{run_id}/input", status_code=HTTPStatus.ACCEPTED)
async def say(run_id: str, request: Request, desk: AtDesk) -> Accepted:
    """Say something to a run that goes on; it takes that in before its next turn."""
    record = await desk.run(run_id)
    body = await read_said(request)
    runs, key = desk.office.resources.runs, idempotency(request, body)
    said = messages_of(body.input)
    await promptly(runs.steer(desk.tenant, record.id, said, idempotency=key))
    return Accepted.of(Created(record.id, record.session_id, record.status, is_new=False))


@router.post("/{run_id}/retry", status_code=HTTPStatus.ACCEPTED)
async def retry_run(run_id: str, request: Request, desk: AtDesk, response: Response) -> Accepted:
    """Begin a run again that did not complete; what was answered is not done again."""
    record = await desk.run(run_id)
    desk.office.app.loop_of(record.agent)
    body = await read_retry(request)
    key = idempotency(request, body)
    changes = Changes(as_duration(body.timeout), limits_of(body.budget), key)
    runs = desk.office.resources.runs
    made = await promptly(runs.retry(desk.tenant, run_id, changes))
    response.status_code = HTTPStatus.ACCEPTED if made.is_new else HTTPStatus.OK
    return Accepted.of(made)


async def _settled(desk: Desk, record: RunRecord, wait: timedelta) -> RunRecord:
    """Return the run once it has ended, or as it stands when the wait is over."""
    if record.is_settled or not wait:
        return record
    source = desk.source(record.id, record.session_id)
    nothing_else = frozenset[str]()
    async with desk.office.hub.follow(source, after=record.last_seq, types=nothing_else) as feed:
        await pages.patience(feed, wait)
    return await desk.run(record.id)


@router.get("/{run_id}/calls")
async def list_calls(run_id: str, desk: AtDesk) -> CallList:
    """Return a run's ledger of side effects."""
    await desk.run(run_id)
    calls = await promptly(desk.office.resources.runs.calls(desk.tenant, run_id))
    return CallList(calls=calls)


@router.post("/{run_id}/calls/{call}/result", status_code=HTTPStatus.NO_CONTENT)
async def answer_call(run_id: str, call: str, request: Request, desk: AtDesk) -> None:
    """Give an open call its result by hand; whoever performs it is told to stop."""
    await desk.run(run_id)
    runs = desk.office.resources.runs
    ledger = await promptly(runs.calls(desk.tenant, run_id))
    line = next((each for each in ledger if each.key == call), None)
    if line is None:
        raise UnknownCall(f"the run has no call {call[:200]!r}")
    answer = await read_call_answer(request)
    await promptly(runs.answer_call(desk.tenant, run_id, line, answer.content))


@router.delete("/{run_id}", status_code=HTTPStatus.NO_CONTENT)
async def delete_run(run_id: str, desk: AtDesk) -> None:
    """Forget a run that has ended, with all its content."""
    await desk.run(run_id)
    await promptly(desk.office.resources.runs.delete(desk.tenant, run_id))


@router.post("/{run_id}/ticket", status_code=HTTPStatus.CREATED)
async def issue_ticket(run_id: str, desk: AtDesk) -> TicketView:
    """Give the right to follow this run to somebody who cannot send a header."""
    record = await desk.run(run_id)
    expires_at: datetime = (now() + tickets.LIFE).replace(microsecond=0)
    ticket = Ticket(desk.caller.key_id, record.id, expires_at)
    text = tickets.issue(ticket, desk.caller.digest)
    url = f"/v1/runs/{record.id}/events?ticket={text}"
    return TicketView(ticket=text, url=url, expires_at=expires_at)
