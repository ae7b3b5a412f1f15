"""What routes ask for by their parameters' types. FastAPI's `Depends` stands here alone.

The functions are coroutines, though they do not wait: a plain one would cost a thread each time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import Annotated, TypeVar, cast

from fastapi import Depends, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from loops.errors import InvalidInput
from loops.guard import Raised
from loops.tasks import in_thread

from . import requests
from .content import LISTED, TEXT
from .desk import Desk, desk_of
from .limits import read_json
from .pages import wait_limit

Model = TypeVar("Model", bound=requests.Body)

FORMS = frozenset({TEXT, LISTED, "[key]"})
"""What is no part of a place that a caller would know."""

WORDS = {
    "dict_type": "an object",
    "extra_forbidden": "there is no such field",
    "missing": "the field is missing",
    "model_type": "an object",
}
"""What a kind of fault is called, where the library's words would show how we are built."""

FAULTS = 20
"""How many faults of a body are told."""


async def _desk(request: Request) -> Desk:
    return desk_of(request)


def _body(model: type[Model]) -> Callable[[Request], Awaitable[Model]]:
    async def read(request: Request) -> Model:
        return await _checked(model, await read_json(request))

    return read


def _optional_body(model: type[Model]) -> Callable[[Request], Awaitable[Model]]:
    async def read(request: Request) -> Model:
        has_body = "content-type" in request.headers
        return await _checked(model, await read_json(request) if has_body else {})

    return read


async def _checked(model: type[Model], value: object) -> Model:
    if not _has_list(value):
        return _validated(model, value)
    # Messages may be many, and must not hold up everybody else.
    checked = await in_thread(partial(_validated, model, value), name="input")
    if isinstance(checked, Raised):
        raise checked.error
    return checked


def _has_list(value: object) -> bool:
    members = cast("dict[str, object]", value).values() if isinstance(value, dict) else ()
    return any(isinstance(each, list) for each in members)


def _validated(model: type[Model], value: object) -> Model:
    if not isinstance(value, dict):
        raise InvalidInput(f"the body is an object with {_members(model)}")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise RequestValidationError(_faults(error)) from error


def _faults(error: ValidationError) -> list[ErrorDetails]:
    """Return what is wrong in the caller's words: places in the body, and no names of ours."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)[:FAULTS]
    for fault in faults:
        fault["loc"] = tuple(part for part in fault["loc"] if part not in FORMS)
        fault["msg"] = WORDS.get(fault["type"], fault["msg"])
    return faults


def _members(model: type[Model]) -> str:
    needed = [name for name, field in model.model_fields.items() if field.is_required()]
    others = [name for name in model.model_fields if name not in needed]
    perhaps = f"perhaps {', '.join(others)}"
    return f"{' and '.join(needed)}, {perhaps}" if needed else perhaps


async def _wait(request: Request) -> timedelta:
    return wait_limit(request.query_params.get("wait"))


AtDesk = Annotated[Desk, Depends(_desk)]
RunBody = Annotated[requests.RunRequest, Depends(_body(requests.RunRequest))]
SessionBody = Annotated[requests.SessionRequest, Depends(_optional_body(requests.SessionRequest))]
read_call_answer = _body(requests.CallAnswer)
read_said = _body(requests.Said)
read_retry = _optional_body(requests.RetryRequest)
"""These read the body where the route has looked up first what it is for."""

Wait = Annotated[timedelta, Depends(_wait)]
