"""Sessions over HTTP: open one, read it, follow it, forget it."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from . import pages
from .cursors import given, session_cursor, wanted_types
from .deps import AtDesk, SessionBody
from .desk import checked_session_id, desk_of, promptly
from .follower import End
from .idempotency import idempotency
from .kit_form import refuse_format
from .schemas import MessageList, MessageView, SessionList, SessionView
from .session_feed import open_session_feed
from .streams import form_of

router = APIRouter(prefix="/v1/sessions")


@router.post("", status_code=HTTPStatus.CREATED)
async def create_session(request: Request, desk: AtDesk, body: SessionBody) -> SessionView:
    """Open a session; the same request under the same `Idempotency-Key` gives the same one."""
    created = desk.office.resources.sessions.create(
        desk.tenant,
        session_id=body.id,
        metadata=dict(body.metadata),
        idempotency=idempotency(request, body),
    )
    return SessionView.of(await promptly(created))


@router.get("")
async def list_sessions(
    desk: AtDesk,
    before: Annotated[str | None, Query(max_length=64)] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> SessionList:
    """List the caller's sessions, last used first."""
    sessions = desk.office.resources.sessions
    records, next_ = await promptly(sessions.page(desk.tenant, before=before, limit=limit))
    return SessionList(sessions=[SessionView.of(record) for record in records], next=next_)


@router.get("/{session_id}")
async def get_session(session_id: str, desk: AtDesk) -> SessionView:
    """Return a session, as it stands."""
    sessions = desk.office.resources.sessions
    name = checked_session_id(session_id)
    return SessionView.of(await promptly(sessions.load(desk.tenant, name)))


@router.delete("/{session_id}", status_code=HTTPStatus.NO_CONTENT)
async def delete_session(session_id: str, desk: AtDesk) -> None:
    """Forget a session; the run that has it is cancelled first."""
    sessions = desk.office.resources.sessions
    await promptly(sessions.delete(desk.tenant, checked_session_id(session_id)))


@router.get("/{session_id}/messages")
async def list_messages(
    session_id: str,
    desk: AtDesk,
    after: Annotated[int, Query(ge=0, lt=10**9)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> MessageList:
    """Return a page of the session's messages, oldest first."""
    sessions = desk.office.resources.sessions
    name = checked_session_id(session_id)
    stored = await promptly(sessions.messages(desk.tenant, name, after=after, limit=limit))
    messages = [MessageView.model_validate(each) for each in stored]
    return MessageList(messages=messages, next=after + len(messages))


async def read_session_events(request: Request) -> Response:
    """Relay the events of all runs of a session, in the order of the runs."""
    query = request.query_params
    refuse_format(query)
    cursor = session_cursor(given(request.headers, query))
    types = wanted_types(query.get("types"))
    limit, wait = pages.page_limit(query.get("limit")), pages.wait_limit(query.get("wait"))
    form, desk = form_of(request), desk_of(request)
    session_id = checked_session_id(request.path_params["session_id"])
    await promptly(desk.office.resources.sessions.load(desk.tenant, session_id))
    feed = open_session_feed(desk, session_id, cursor, types)
    if form is not None:
        return desk.office.stream(feed, form)
    async with feed as opened:
        frames = await pages.gather(opened, limit=limit, wait=wait)
        position = frames[-1].position if len(frames) >= limit else opened.position
    return pages.written(frames, after=position.decode(), is_done=opened.end is End.GONE)
