"""What routes ask for by their parameters' types. FastAPI's `Depends` stands here alone.

The functions are coroutines, though they do not wait: a plain one would cost a thread each time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Annotated, TypeVar

from fastapi import Depends, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from . import schemas
from .desk import Desk, desk_of
from .limits import read_json
from .pages import wait_limit

Model = TypeVar("Model", bound=schemas.Body)


async def _desk(request: Request) -> Desk:
    return desk_of(request)


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
    return wait_limit(request.query_params.get("wait"))


AtDesk = Annotated[Desk, Depends(_desk)]
RunBody = Annotated[schemas.RunRequest, Depends(_body(schemas.RunRequest))]
SessionBody = Annotated[schemas.SessionRequest, Depends(_optional_body(schemas.SessionRequest))]
Wait = Annotated[timedelta, Depends(_wait)]
