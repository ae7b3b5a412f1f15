"""A run's events: as a stream for whoever stays, as a page for whoever asks again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from worker.run_record import RunRecord

from . import pages
from .cursors import given, run_cursor, wanted_types
from .desk import Desk, desk_of
from .errors import Refusal
from .follower import End
from .hub import Stay
from .kit_form import KitForm, is_kit
from .streams import form_of


@dataclass(frozen=True, slots=True)
class Reading:
    """One request for a run's events."""

    desk: Desk
    record: RunRecord
    after: int
    types: frozenset[str] | None

    @property
    def is_over(self) -> bool:
        """Whether the reader has everything that there will ever be.

        Raises:
            Refusal: When it says that it has read more than that.
        """
        if self.record.is_settled and self.after > self.record.last_seq:
            last = self.record.last_seq
            message = f"the run has ended with event {last}; nobody can have read {self.after}"
            raise Refusal(HTTPStatus.BAD_REQUEST, "invalid_cursor", message)
        return self.record.is_settled and self.after == self.record.last_seq

    def follow(self) -> Stay:
        """Return a reader that goes on with the run."""
        if self.record.is_settled:
            return self.read()
        source = self.desk.source(self.record.id, self.record.session_id)
        return self.desk.office.hub.follow(source, after=self.after, types=self.types)

    def read(self) -> Stay:
        """Return a reader of what stands in the log."""
        return self.desk.office.hub.read(
            self.desk.source(self.record.id, self.record.session_id),
            last_seq=self.record.last_seq,
            is_settled=self.record.is_settled,
            after=self.after,
            types=self.types,
        )


async def read_events(request: Request) -> Response:
    """Relay a run's events: as server-sent events, as lines of JSON, or as one page.

    Server-sent events may be those of the loop kit's dialect.
    """
    query = request.query_params
    after = run_cursor(given(request.headers, query))
    types = wanted_types(query.get("types"))
    limit, wait = pages.page_limit(query.get("limit")), pages.wait_limit(query.get("wait"))
    form, desk = form_of(request), desk_of(request)
    in_dialect = is_kit(query, form)
    reading = Reading(desk, await desk.run(request.path_params["run_id"]), after, types)
    if form is None:
        return await _page(reading, limit, wait)
    if reading.is_over:
        return Response(status_code=HTTPStatus.NO_CONTENT)
    told = KitForm(reading.record.session_id) if in_dialect else form
    return desk.office.stream(reading.follow(), told)


async def _page(reading: Reading, limit: int, wait: timedelta) -> Response:
    if reading.is_over:
        return pages.written([], after=reading.after, is_done=True)
    async with reading.follow() if wait else reading.read() as follower:
        frames = await pages.gather(follower, limit=limit, wait=wait)
        after = frames[-1].seq if len(frames) >= limit else follower.cursor
    is_done = bool(frames) and (frames[-1].is_final or follower.end is End.GONE)
    return pages.written(frames, after=after, is_done=is_done)
