"""The methods of callbacks that stand around a call, and not between its rounds.

Each is called once for a call: what it gives is a step of the run.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, cast

from loops.blocks import Raw
from loops.guard import Raised, describe
from loops.jsonable import jsonable
from loops.runtime import Runtime

from .answer import Answer
from .call import Call, is_inner, user_of
from .failing import Failure
from .in_time import outcome_within
from .limits import NAME as LOOPS
from .limits import loops_in
from .methods import name_of, overrides
from .planning import CallbackFailed, fields_of, within
from .rounds import Surface

logger = logging.getLogger("loopmill.gateway")

PRE_CALL = "async_pre_call_hook"
SUCCESS = "async_post_call_success_hook"
FAILURE = "async_post_call_failure_hook"
LOG_SUCCESS = "async_log_success_event"
LOG_FAILURE = "async_log_failure_event"

CALL_TYPES = {Surface.MESSAGES: "anthropic_messages", Surface.CHAT: "acompletion"}


@dataclass(frozen=True, slots=True)
class Admitted:
    """A call as the methods before it leave it."""

    call: Call
    answer: str | None = None
    """What is answered, in the place of the model; None where it is asked."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The callbacks, as far as they stand around a call."""

    callbacks: Sequence[object]
    limit: timedelta

    @property
    def are_told(self) -> bool:
        """Whether somebody wants to hear of the call's end, or to change its answer."""
        return any(self.having(each) for each in (SUCCESS, LOG_SUCCESS, LOG_FAILURE))

    def having(self, method: str) -> list[tuple[int, object]]:
        """Return the callbacks that override the method, with their places."""
        return [(n, each) for n, each in enumerate(self.callbacks) if overrides(each, method)]

    async def admit(self, runtime: Runtime, call: Call) -> Admitted:
        """Let the callbacks look at the request before it is sent.

        Raises:
            CallbackFailed: When one refuses it.
        """
        for place, callback in self.having(PRE_CALL):
            name = f"pre_call:{place}:{name_of(callback)}"
            told = await runtime.step(name, partial(self._looked_at, callback, call))
            if "answer" in told:
                return Admitted(call, told["answer"])
            call = _with_body(call, told["body"], name_of(callback))
        return Admitted(call)

    async def _looked_at(self, callback: object, call: Call) -> Raw:
        data = {**jsonable(call.body), **jsonable(call.kwargs)}
        method = partial(
            getattr(callback, PRE_CALL),
            user_api_key_dict=user_of(call.asked),
            cache=None,
            data=data,
            call_type=CALL_TYPES[call.surface],
        )
        given = await within(self.limit, method, f"{name_of(callback)}.{PRE_CALL}")
        if isinstance(given, str):
            return {"answer": given}
        # A callback may change what it was given, and return nothing.
        body = data if given is None else fields_of(given)
        if body is None:
            kind = type(given).__name__
            raise CallbackFailed(
                f"{name_of(callback)}.{PRE_CALL} gave a {kind}; it returns a body, None or a text"
            )
        return {"body": jsonable(body)}

    async def changed(self, runtime: Runtime, call: Call, body: Raw) -> Raw:
        """Return the final body, as the callbacks want the caller to get it.

        Raises:
            CallbackFailed: When one refuses it.
        """
        for place, callback in self.having(SUCCESS):
            name = f"success:{place}:{name_of(callback)}"
            told = await runtime.step(name, partial(self._success, callback, call, body))
            body = told["body"] or body
        return body

    async def _success(self, callback: object, call: Call, body: Raw) -> Raw:
        response = Answer(body, call.surface)
        method = partial(
            getattr(callback, SUCCESS),
            data=jsonable(call.body),
            user_api_key_dict=user_of(call.asked),
            response=response,
        )
        given = await within(self.limit, method, f"{name_of(callback)}.{SUCCESS}")
        changed = response if given is None else fields_of(given)
        return {"body": None if changed is None else jsonable(_plain(changed))}

    async def refused(self, runtime: Runtime, call: Call, error: BaseException) -> Failure | None:
        """Return what the caller is told of a failure, where a callback says it."""
        told = None
        for place, callback in self.having(FAILURE):
            name = f"failure:{place}:{name_of(callback)}"
            kept = await runtime.step(name, partial(self._refusal, callback, call, error))
            told = told or kept["failure"]
        return None if told is None else Failure(**told)

    async def _refusal(self, callback: object, call: Call, error: BaseException) -> Raw:
        method = partial(
            getattr(callback, FAILURE),
            request_data=jsonable(call.body),
            original_exception=error,
            user_api_key_dict=user_of(call.asked),
            traceback_str=describe(error),
        )
        given = await outcome_within(self.limit, method)
        said = failure_by(given.error if isinstance(given, Raised) else given)
        if said is None and isinstance(given, Raised):
            logger.error("! %s.%s raised %s", name_of(callback), FAILURE, given.text)
        told = None if said is None else {"status": said.status, "message": said.message}
        return {"failure": told}

    async def log(
        self, runtime: Runtime, call: Call, came: Raw | BaseException, began: datetime
    ) -> None:
        """Tell the callbacks how the call ended; what they raise is logged."""
        method = LOG_FAILURE if isinstance(came, BaseException) else LOG_SUCCESS
        for place, callback in self.having(method):
            name = f"{method}:{place}:{name_of(callback)}"
            await runtime.step(name, partial(self._logged, callback, method, call, came, began))

    async def _logged(
        self,
        callback: object,
        method: str,
        call: Call,
        came: Raw | BaseException,
        began: datetime,
    ) -> Raw:
        failed = came if isinstance(came, BaseException) else None
        body = None if isinstance(came, BaseException) else Answer(came, call.surface)
        kwargs: dict[str, Any] = {
            **call.told(""),
            "model": call.body.get("model"),
            "messages": call.messages(),
            "optional_params": call.optional_params,
            "exception": failed,
        }
        whole = partial(
            getattr(callback, method),
            kwargs=kwargs,
            response_obj=body,
            start_time=began,
            end_time=datetime.now(began.tzinfo),
        )
        given = await outcome_within(self.limit, whole)
        if isinstance(given, Raised):
            logger.error("! %s.%s raised %s", name_of(callback), method, given.text)
        return {}


def failure_by(error: object) -> Failure | None:
    """Return the answer that an error asks for, as FastAPI's `HTTPException` does; else None."""
    status: object = getattr(error, "status_code", None)
    if not isinstance(status, int) or not 400 <= status <= 599:
        return None
    detail: object = getattr(error, "detail", None)
    if isinstance(detail, Mapping):
        told = cast("Mapping[str, object]", detail)
        detail = told.get("error", told)
    message = str(detail if detail is not None else getattr(error, "message", error))
    return Failure(status, message, code="callback_refused")


def cause_of(error: BaseException) -> BaseException:
    """Return what a callback has raised, where that is what an error stands for."""
    is_ours = isinstance(error, CallbackFailed) and error.__cause__ is not None
    return cast("BaseException", error.__cause__) if is_ours else error


def _plain(body: Mapping[str, Any]) -> Raw:
    return body.model_dump() if isinstance(body, Answer) else dict(body)


def _with_body(call: Call, told: Raw, where: str) -> Call:
    """Return the call with another body; what is meant for later callbacks is no part of it."""
    kwargs = {name: value for name, value in told.items() if is_inner(name)}
    kept = {name: value for name, value in told.items() if name not in {*kwargs, LOOPS}}
    limit = loops_in(told, f"{where}.{PRE_CALL}")
    return replace(call, body=kept, kwargs=kwargs, limit=limit or call.limit)
