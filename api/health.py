"""Health: whether the process lives, whether it may be sent requests, and its figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from http import HTTPStatus

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from worker.looking import ModelView, QueueView, look_at_models, look_at_queues
from worker.new_run import NEEDED_QUEUES

from .deps import AtDesk
from .desk import Office, promptly
from .errors import Refusal

router = APIRouter()

TYPE = "text/plain; version=0.0.4; charset=utf-8"


@router.get("/healthz")
async def live() -> Response:
    """Say that the process answers."""
    return JSONResponse({"status": "ok"})


@router.get("/readyz")
async def ready(request: Request) -> Response:
    """Say whether requests are welcome: Redis answers, jobs find workers, nothing stops.

    A queue that a tool names is the tool's affair: a misspelt one turns no request away.
    """
    office: Office = request.app.state.office
    if not office.hub.is_working:
        raise _unready("stopping", "the server is stopping, or its hub is broken")
    resources = office.resources
    queues = await promptly(look_at_queues(resources.link, resources.keys))
    stuck = [queue.name for queue in queues if queue.is_stuck and queue.name in NEEDED_QUEUES]
    if stuck:
        names = ", ".join(stuck)
        raise _unready("no_worker", f"there are jobs and no worker on: {names}; start one")
    return JSONResponse({"status": "ok"})


def _unready(code: str, message: str) -> Refusal:
    headers = {"Retry-After": "5"}
    return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, code, message, headers=headers)


@router.get("/metrics")
async def metrics(desk: AtDesk) -> Response:
    """Return the figures of queues, providers and streams, in Prometheus' text format."""
    office = desk.office
    link, keys = office.resources.link, office.resources.keys
    queues = await promptly(look_at_queues(link, keys))
    models = await promptly(look_at_models(link, keys))
    text = "".join([*_of_queues(queues), *_of_models(models), *_of_streams(office)])
    return PlainTextResponse(text, media_type=TYPE)


def _of_queues(queues: Sequence[QueueView]) -> Iterable[str]:
    def by_queue(field: str) -> list[tuple[str, float]]:
        return [(f'{{queue="{view.name}"}}', float(getattr(view, field))) for view in queues]

    ages = [(f'{{queue="{view.name}"}}', view.oldest.total_seconds()) for view in queues]
    yield _metric(
        "queue_depth", "gauge", "Jobs that are due and that nobody has.", by_queue("depth")
    )
    yield _metric("queue_delayed", "gauge", "Jobs whose time has not come.", by_queue("delayed"))
    yield _metric("queue_claimed", "gauge", "Jobs that a worker has.", by_queue("claimed"))
    yield _metric("queue_oldest_seconds", "gauge", "Age of the first job that is due.", ages)
    yield _metric(
        "queue_workers", "gauge", "Workers alive that serve the queue.", by_queue("workers")
    )


def _of_models(models: Sequence[ModelView]) -> Iterable[str]:
    def by_model(field: str) -> list[tuple[str, float]]:
        return [
            (_labels(account=view.account, model=view.model), float(getattr(view, field)))
            for view in models
        ]

    accounts = {view.account: view for view in models}
    paused = [
        (_labels(account=name), view.paused.total_seconds()) for name, view in accounts.items()
    ]
    limited = [(_labels(account=name), view.limited) for name, view in accounts.items()]
    yield _metric(
        "provider_requests", "gauge", "Requests of the last minute.", by_model("requests")
    )
    yield _metric("provider_tokens", "gauge", "Tokens of the last minute.", by_model("tokens"))
    yield _metric(
        "provider_paused_seconds", "gauge", "For how long nobody asks with the key.", paused
    )
    yield _metric(
        "provider_limited_total", "counter", "Requests that were turned away (429).", limited
    )


def _labels(**values: str) -> str:
    told = [f'{name}="{value.translate(_ESCAPED)}"' for name, value in values.items()]
    return "{" + ",".join(told) + "}"


_ESCAPED = {ord("\\"): "\\\\", ord('"'): '\\"', ord("\n"): "\\n"}


def _of_streams(office: Office) -> Iterable[str]:
    hub, traffic = office.hub, office.traffic
    yield _metric("stream_readers", "gauge", "Readers of events.", [("", len(hub.followers))])
    yield _metric("stream_runs", "gauge", "Runs whose events are heard.", [("", len(hub.followed))])
    yield _metric(
        "stream_connected",
        "gauge",
        "1 while events are heard as they come.",
        [("", hub.is_connected)],
    )
    yield _metric("stream_writes_total", "counter", "Writes to readers.", [("", traffic.writes)])
    yield _metric("stream_bytes_total", "counter", "Bytes to readers.", [("", traffic.bytes)])
    yield _metric(
        "stream_slow_readers_total", "counter", "Readers let go.", [("", traffic.slow_readers)]
    )


def _metric(name: str, kind: str, about: str, samples: Iterable[tuple[str, float]]) -> str:
    lines = [f"# HELP loopmill_{name} {about}\n# TYPE loopmill_{name} {kind}\n"]
    lines += [f"loopmill_{name}{labels} {float(value):g}\n" for labels, value in samples]
    return "".join(lines)
