"""The other end of the HTTP API: what the command line uses to start, follow and cancel runs."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Event
from types import TracebackType
from typing import Any

import httpx

from worker.event_log import TERMINAL_EVENTS

from .sse import Reader

PATIENCE = timedelta(seconds=30)
"""How long a follower tries to get its stream back before it gives up."""

PAUSE = timedelta(milliseconds=200)
"""How long a follower waits before it connects again."""

SILENCE = timedelta(seconds=30)
"""A stream without even a heartbeat for so long is dead, though its connection stands."""

PAGE = 200
"""How many runs are asked for at once."""

_RETRIED = frozenset({429, 502, 503, 504})


class ApiError(Exception):
    """The API refused, could not be reached, or broke a stream off; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One event of a run, as its follower sees it."""

    type: str
    data: dict[str, Any]
    cursor: str
    """Where to go on from here."""
    attempt: int = 1
    turn: int | None = None
    time: datetime | None = None

    @property
    def is_final(self) -> bool:
        """Whether it is the run's last event."""
        return self.type in TERMINAL_EVENTS


class Client:
    """A connection to one API, closed at the end of its `with`."""

    def __init__(self, url: str, key: str | None = None) -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.url = url.rstrip("/")
        if not re.match(r"https?://[^/]", self.url):
            raise ApiError(f"an API's address is http://HOST:PORT, not {url!r}; {_OTHER_URL}")
        self._is_left = Event()
        self._http = httpx.Client(
            base_url=self.url, headers=headers, timeout=10, transport=httpx.HTTPTransport(retries=1)
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_left.set()
        self._http.close()

    def start(self, agent: str, text: str, *, session_id: str | None = None) -> dict[str, Any]:
        """Start a run, and return what the API says of it.

        Raises:
            ApiError: When the API refuses or cannot be reached.
        """
        body = {"agent": agent, "input": text}
        if session_id is not None:
            body["session_id"] = session_id
        return self._ask("POST", "/v1/runs", json=body)

    def runs(self, *, status: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield all runs of the key's owner, newest first, page by page.

        Raises:
            ApiError: When the API refuses or cannot be reached.
        """
        wanted = {"limit": str(PAGE)} | ({"status": status} if status else {})
        page = self._ask("GET", "/v1/runs", params=wanted)
        yield from page["runs"]
        while page["next"] is not None:
            page = self._ask("GET", "/v1/runs", params={**wanted, "before": page["next"]})
            yield from page["runs"]

    def load(self, run_id: str) -> dict[str, Any]:
        """Return the run's record.

        Raises:
            ApiError: When there is no such run, or the API cannot be reached.
        """
        return self._ask("GET", f"/v1/runs/{run_id}")

    def cancel(self, run_id: str) -> dict[str, Any]:
        """Cancel the run, and return the receipt.

        Raises:
            ApiError: When it is settled already, unknown, or the API cannot be reached.
        """
        return self._ask("POST", f"/v1/runs/{run_id}/cancel", params={"wait": 2})

    def follow(self, run_id: str, *, after: int = 0) -> Iterator[Seen]:
        """Yield the run's events past the number `after`, until its last one.

        When the stream breaks it is taken up again where it was left. When the client is closed
        meanwhile, from another thread, the events end.

        Raises:
            ApiError: When the API refuses, or stays away for half a minute.
        """
        cursor, deadline = str(after), time.monotonic() + PATIENCE.total_seconds()
        while not self._is_left.is_set():
            try:
                for seen in self._stream(run_id, cursor):
                    if seen is None:
                        return
                    cursor, deadline = seen.cursor, time.monotonic() + PATIENCE.total_seconds()
                    yield seen
                    if seen.is_final:
                        return
            except httpx.TransportError as error:
                if time.monotonic() > deadline:
                    raise ApiError(f"{self.url} is away: {_said(error)}") from error
            self._is_left.wait(PAUSE.total_seconds())

    def _stream(self, run_id: str, cursor: str) -> Iterator[Seen | None]:
        """Yield what one connection gives; None says that there is nothing after the cursor."""
        reader = Reader()
        headers = {"Accept": "text/event-stream"} | (
            {"Last-Event-ID": cursor} if cursor != "0" else {}
        )
        timeout = httpx.Timeout(10, read=SILENCE.total_seconds())
        with self._http.stream(
            "GET", f"/v1/runs/{run_id}/events", headers=headers, timeout=timeout
        ) as response:
            if response.status_code == 204:
                yield None
                return
            if response.status_code in _RETRIED:
                raise httpx.ReadError(f"it answered {response.status_code}")
            if response.is_error:
                response.read()
                raise ApiError(_problem(response))
            for chunk in response.iter_raw():
                for message in reader.feed(chunk):
                    yield _seen(message.data, message.last_id)

    def _ask(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        try:
            response = self._http.request(method, path, **options)
        except httpx.TransportError as error:
            raise ApiError(
                f"no API answers at {self.url} ({_said(error)}); start one with `loopmill dev`, "
                "or name another with --url or LOOPMILL_URL"
            ) from error
        if response.is_error:
            raise ApiError(_problem(response))
        try:
            answer: dict[str, Any] = response.json()
        except ValueError as error:
            raise ApiError(
                f"what answers at {self.url} is no Loopmill API; {_OTHER_URL}"
            ) from error
        return answer


def _seen(line: str, cursor: str) -> Seen:
    event: dict[str, Any] = json.loads(line)
    if event["type"] == "error":
        raise ApiError(f"the stream ended: {event['data'].get('message', event['data'])}")
    written = event.get("time")
    return Seen(
        event["type"],
        event["data"],
        cursor,
        event.get("attempt", 1),
        event.get("turn"),
        datetime.fromisoformat(written) if written else None,
    )


def _problem(response: httpx.Response) -> str:
    try:
        problem: dict[str, Any] = response.json()
    except ValueError:
        return f"the API answered {response.status_code}; {_OTHER_URL}"
    said = problem.get("detail") or problem.get("title") or response.reason_phrase
    mend = "; give a key with --key or LOOPMILL_KEY" if response.status_code in _KEYLESS else ""
    return f"{said} ({problem.get('code', response.status_code)}){mend}"


_KEYLESS = frozenset({401, 403})
_OTHER_URL = "name another one with --url or LOOPMILL_URL"


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__
