"""What routes ask for by their parameters' types. FastAPI's `Depends` stands here alone.

The functions are coroutines, though they do not wait: a plain one would cost a thread each time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from http import HTTPStatus
from typing import Annotated, TypeVar

from fastapi import Depends, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from . import schemas
from .desk import Desk
from .errors import Refusal
from .limits import read_json

Model = TypeVar("Model", bound=schemas.Body)

WAIT_LIMIT = timedelta(seconds=60)
"""How long a request may ask to wait."""


async def _desk(request: Request) -> Desk:
    return Desk(request.app.state.office, request.state.caller)


def _body(model: type[Model]) -> Callable[[Request], Awaitable[Model]]:
    async def read(request: Request) -> Model:
        return _validated(model, await read_json(request))

    return read


def _optional_body(model: type[Model]) -> Callable[[Request], Awaitable[Model]]:
    async def read(request: Request) -> Model:
        has_body = "content-type" in request.headers
        return _validated(model, await read_json(request) if has_body else {})

    return read


def _validated(model: type[Model], value: object) -> Model:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        raise RequestValidationError(faults) from error


async def _wait(request: Request) -> timedelta:
    text = request.query_params.get("wait", "0")
    whole, _, rest = text.partition(".")
    digits = whole + rest
    is_number = digits.isascii() and digits.isdigit() and whole and len(digits) < 10
    if not is_number or float(text) > WAIT_LIMIT.total_seconds():
        limit = WAIT_LIMIT.total_seconds()
        message = f"wait is a number of seconds, at most {limit:g}, not {text[:50]!r}"
        raise Refusal(HTTPStatus.BAD_REQUEST, "invalid_wait", message)
    return timedelta(seconds=float(text))


AtDesk = Annotated[Desk, Depends(_desk)]
RunBody = Annotated[schemas.RunRequest, Depends(_body(schemas.RunRequest))]
SessionBody = Annotated[schemas.SessionRequest, Depends(_optional_body(schemas.SessionRequest))]
Wait = Annotated[timedelta, Depends(_wait)]
