"""What the API says of itself to machines: the framework's description, and what it cannot see.

Bodies are read by our own rules, and streams are answered before the framework's routes; both are
added here, as are the keys that a request shows and the form of every refusal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from .errors import MEDIA_TYPE
from .gateway_description import FAILURES, gateway_paths, with_failures
from .kit_form import KIT
from .pages import LIMIT, WAIT_LIMIT
from .requests import Body, CallAnswer, RetryRequest, RunRequest, Said, SessionRequest
from .sse import MEDIA_TYPE as EVENT_STREAM
from .streams import JSON_LINES
from .wording import MODELS

Schema = dict[str, Any]

BODIES: dict[str, tuple[type[Body], bool]] = {
    "/v1/runs": (RunRequest, True),
    "/v1/sessions": (SessionRequest, False),
    "/v1/runs/{run_id}/calls/{call}/result": (CallAnswer, True),
    "/v1/runs/{run_id}/input": (Said, True),
    "/v1/runs/{run_id}/retry": (RetryRequest, False),
}
"""What a POST brings, and whether it must."""

OPEN_PATHS = ("/healthz", "/readyz")

SCHEMES: Schema = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "apiKey": {"type": "apiKey", "in": "header", "name": "x-api-key"},
    "ticket": {
        "type": "apiKey",
        "in": "query",
        "name": "ticket",
        "description": "The right to follow one run, from POST /v1/runs/{run_id}/ticket.",
    },
}

KEYS: list[Schema] = [{"bearer": []}, {"apiKey": []}]

PROBLEM: Schema = {
    "type": "object",
    "description": "Why a request was refused, after RFC 9457.",
    "required": ["type", "title", "status", "detail", "code", "retryable"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string"},
        "retryable": {"type": "boolean"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"at": {"type": "string"}, "why": {"type": "string"}},
            },
        },
    },
}


def _parameter(name: str, schema: Schema, about: str, *, place: str = "query") -> Schema:
    return {
        "name": name,
        "in": place,
        "required": place == "path",
        "description": about,
        "schema": schema,
    }


WAIT = _parameter(
    "wait",
    {"type": "number", "minimum": 0, "maximum": WAIT_LIMIT.total_seconds(), "default": 0},
    "Seconds to wait for what is not there yet.",
)
ONCE = _parameter(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": 255},
    "The same request under the same key is done once.",
    place="header",
)
WAITING = (("/v1/runs/{run_id}/result", "get"), ("/v1/runs/{run_id}/cancel", "post"))

READING = [
    _parameter("after", {"type": "string", "default": "0"}, "The cursor of the last event read."),
    _parameter("Last-Event-ID", {"type": "string"}, "The same; it beats `after`.", place="header"),
    _parameter("types", {"type": "string"}, "The wanted types of events, with commas between."),
    _parameter(
        "limit",
        {"type": "integer", "minimum": 1, "maximum": LIMIT, "default": LIMIT},
        "How many events a page holds.",
    ),
    WAIT,
    _parameter("stream", {"enum": ["true"]}, "As `Accept: text/event-stream`."),
]

FORMAT = _parameter(
    "format",
    {"enum": [KIT]},
    "A stream in the loop kit's dialect: `data:` lines of JSON, the last of which is `[DONE]`.",
)


class DescribedServer(FastAPI):
    """The framework's application, whose description is complete."""

    def openapi(self) -> Schema:
        """Return the description, which is made once."""
        if self.openapi_schema is None:
            self.openapi_schema = complete(super().openapi())
        return self.openapi_schema


def complete(found: Mapping[str, Any]) -> Schema:
    """Return the framework's description with what it does not know."""
    paths: dict[str, dict[str, Schema]] = {
        path: {method: _operation(each) for method, each in methods.items()}
        for path, methods in found["paths"].items()
    }
    for path, (model, is_needed) in BODIES.items():
        paths[path]["post"]["requestBody"] = _json_of(model.__name__, is_needed=is_needed)
        _add(paths[path]["post"], ONCE)
    paths["/v1/runs"]["post"]["responses"]["200"] = _SAME_OR_STREAM
    for path, method in WAITING:
        _add(paths[path][method], WAIT)
        answers = paths[path][method]["responses"]
        answers["202"] = {**answers["200"], "description": "The run has not ended yet."}
    for path in OPEN_PATHS:
        paths[path]["get"]["security"] = []
    paths[MODELS]["get"] = with_failures(paths[MODELS]["get"])
    paths |= _streams() | gateway_paths(ONCE)
    components = {"schemas": _schemas(found), "securitySchemes": SCHEMES}
    return {**found, "paths": paths, "components": components, "security": KEYS}


def _operation(found: Mapping[str, Any]) -> Schema:
    # The framework's 422 has a form that no answer of ours has.
    responses = {code: each for code, each in found["responses"].items() if code != "422"}
    return {**found, "responses": {**responses, "default": _REFUSED}}


def _add(operation: Schema, parameter: Schema) -> None:
    operation["parameters"] = [*operation.get("parameters", ()), parameter]


def _schemas(found: Mapping[str, Any]) -> Schema:
    _, made = models_json_schema(
        [(model, "validation") for model, _ in BODIES.values()],
        ref_template="#/components/schemas/{model}",
    )
    known = found.get("components", {}).get("schemas", {})
    ours = {name: schema for name, schema in known.items() if "ValidationError" not in name}
    return {**ours, **made["$defs"], **FAILURES, "Problem": PROBLEM}


def _reference(name: str) -> Schema:
    return {"schema": {"$ref": f"#/components/schemas/{name}"}}


def _json_of(name: str, *, is_needed: bool) -> Schema:
    return {"required": is_needed, "content": {"application/json": _reference(name)}}


_REFUSED: Schema = {
    "description": "The request was refused.",
    "content": {MEDIA_TYPE: _reference("Problem")},
}

_EVENTS: Schema = {EVENT_STREAM: {"schema": {"type": "string"}}}

_SAME_OR_STREAM: Schema = {
    "description": "The run that an earlier request made, or the run's events with `stream`.",
    "content": {"application/json": _reference("Accepted"), **_EVENTS},
}

_PAGE: Schema = {
    "type": "object",
    "required": ["events", "next", "done"],
    "properties": {
        "events": {"type": "array", "items": {"type": "object"}},
        "next": {"type": ["integer", "string"], "description": "The `after` of the next page."},
        "done": {"type": "boolean", "description": "Whether there will be no more."},
    },
}


def _streams() -> dict[str, dict[str, Schema]]:
    return {
        "/v1/runs/{run_id}/events": {
            "get": {
                **_reading("run_id", "Read a run's events, or follow them.", FORMAT),
                "security": [*KEYS, {"ticket": []}],
            }
        },
        "/v1/sessions/{session_id}/events": {
            "get": _reading("session_id", "Read the events of a session's runs, or follow them.")
        },
    }


def _reading(whose: str, about: str, *more: Schema) -> Schema:
    lines: Schema = {JSON_LINES: {"schema": {"type": "string"}}}
    page: Schema = {"application/json": {"schema": _PAGE}}
    return {
        "summary": about,
        "operationId": f"read_events_of_{whose.removesuffix('_id')}",
        "parameters": [
            _parameter(whose, {"type": "string"}, "Whose.", place="path"),
            *READING,
            *more,
        ],
        "responses": {
            "200": {
                "description": "A page, or a stream if the request accepts one.",
                "content": {**page, **_EVENTS, **lines},
            },
            "204": {"description": "A reader that follows has everything already."},
            "default": _REFUSED,
        },
    }
