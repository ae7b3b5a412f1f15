"""The command line's client in front of servers that break off, refuse, and go away."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from api.client import ApiError, Client
from api.frames import ERROR, Source
from worker.keys import Keys

Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def serving(*answers: Answer) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """A server that gives one answer after the other; its address, and the headers it got."""
    got: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            got.append({**headers, "path": self.path})
            answers[min(len(got), len(answers)) - 1](self)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", got
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def frame(seq: int, type_: str) -> bytes:
    line = json.dumps({"seq": seq, "type": type_, "data": {"n": seq}})
    return f"id: {seq}\nevent: {type_}\ndata: {line}\n\n".encode()


def stream(*frames: bytes) -> Answer:
    """An answer that sends the frames, and breaks off."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.end_headers()
        handler.wfile.write(b"retry: 1000\n:\n" + b"".join(frames))

    return answer


def status(code: int, body: dict[str, object] | None = None) -> Answer:
    """An answer with a status and perhaps a problem."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        handler.end_headers()
        if body is not None:
            handler.wfile.write(json.dumps(body).encode())

    return answer


def test_a_stream_that_breaks_is_taken_up_where_it_was_left() -> None:
    first = stream(frame(1, "run.queued"), frame(2, "run.started"), b"id: 3\nevent: half")
    rest = stream(frame(3, "text.delta"), frame(4, "run.completed"))

    with serving(first, rest) as (url, got), Client(url, "key-1") as client:
        seen = [(event.type, event.data["n"]) for event in client.follow("run_1")]

    assert seen == [("run.queued", 1), ("run.started", 2), ("text.delta", 3), ("run.completed", 4)]
    assert [headers.get("last-event-id") for headers in got] == [None, "2"]
    assert got[0]["authorization"] == "Bearer key-1"


def test_a_server_that_is_busy_is_asked_again() -> None:
    with serving(status(503), stream(frame(8, "run.failed"))) as (url, got), Client(url) as client:
        seen = [event.type for event in client.follow("run_1", after=7)]

    assert seen == ["run.failed"]
    assert [headers["last-event-id"] for headers in got] == ["7", "7"]


def test_nothing_after_the_last_event_is_an_end() -> None:
    with serving(status(204)) as (url, _), Client(url) as client:
        assert list(client.follow("run_1", after=9)) == []


def test_a_refusal_is_raised_with_what_the_server_says() -> None:
    problem = status(404, {"detail": "there is no such run", "code": "unknown_run"})

    with serving(problem) as (url, _), Client(url) as client:
        with pytest.raises(ApiError, match=r"there is no such run \(unknown_run\)"):
            list(client.follow("run_1"))
        with pytest.raises(ApiError, match=r"there is no such run \(unknown_run\)"):
            client.load("run_1")


def test_an_answer_that_is_no_problem_document_is_named_by_its_status() -> None:
    with (
        serving(status(500)) as (url, _),
        Client(url) as client,
        pytest.raises(ApiError, match="the API answered 500"),
    ):
        client.start("echo", "hi")


def test_a_stream_that_says_that_it_broke_is_an_error() -> None:
    source = Source(Keys("t").run("default", "run_1"), "run_1", "ses_1")
    content = {"code": "run_gone", "message": "the run is gone", "retryable": False}
    broken = source.notices(1, [(ERROR, content)]).sse

    with (
        serving(stream(broken)) as (url, _),
        Client(url) as client,
        pytest.raises(ApiError, match=r"^the stream ended: the run is gone$"),
    ):
        list(client.follow("run_1"))


def test_a_client_that_is_closed_meanwhile_ends_its_events() -> None:
    with serving(stream(frame(1, "run.queued"))) as (url, _), Client(url) as client:
        events = client.follow("run_1")
        assert next(events).type == "run.queued"

        client.__exit__(None, None, None)

        assert list(events) == []


def test_a_refused_key_is_said_with_where_keys_come_from() -> None:
    problem = status(401, {"detail": "this key is not known", "code": "unauthorized"})

    with (
        serving(problem) as (url, _),
        Client(url, "wrong") as client,
        pytest.raises(ApiError, match=r"not known .*; give a key with --key or LOOPMILL_KEY"),
    ):
        client.load("run_1")


def test_somebody_elses_server_is_no_api() -> None:
    def page(handler: BaseHTTPRequestHandler) -> None:
        status(200)(handler)
        handler.wfile.write(b"<html>")

    with (
        serving(page) as (url, _),
        Client(url) as client,
        pytest.raises(ApiError, match="is no Loopmill API; name another one with --url"),
    ):
        client.load("run_1")


def test_runs_are_read_page_by_page() -> None:
    pages = [
        status(200, {"runs": [{"id": "c"}], "next": "c"}),
        status(200, {"runs": [], "next": "b"}),
        status(200, {"runs": [{"id": "a"}], "next": None}),
    ]

    with serving(*pages) as (url, got), Client(url) as client:
        runs = [run["id"] for run in client.runs(status="failed")]

    assert runs == ["c", "a"]
    assert [headers["path"].partition("?")[2] for headers in got] == [
        "limit=200&status=failed",
        "limit=200&status=failed&before=c",
        "limit=200&status=failed&before=b",
    ]
