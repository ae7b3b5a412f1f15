"""What a function's type hints say of a tool: the schema of its arguments, and their check."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, Field, ValidationError

from .errors import SetupError
from .tool_context import ToolContext

Check = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Takes the model's arguments, gives keyword arguments for the function, or raises a ValueError."""


def innermost(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that a partial or a callable object runs in the end."""
    while isinstance(function, partial):
        function = function.func
    return function if inspect.isroutine(function) else type(function).__call__


def hints_of(function: Callable[..., Any], name: str) -> dict[str, Any]:
    """Return the type hints of a function, that of what it returns among them.

    Raises:
        SetupError: When one cannot be resolved.
    """
    try:
        return get_type_hints(innermost(function), include_extras=True)
    except NameError as error:
        raise SetupError(
            f"a type hint of the tool {name!r} cannot be resolved: {error}; "
            "define the type at the top of its module"
        ) from error


def is_context(hint: object) -> bool:
    """Say whether a parameter of the type gets the `ToolContext`."""
    if get_origin(hint) in {Union, UnionType}:
        return any(each is ToolContext for each in get_args(hint))
    return hint is ToolContext


def argument_fields(
    function: Callable[..., Any], name: str, hints: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the fields of a model that checks the arguments.

    Raises:
        SetupError: When a parameter cannot be given by its name.
    """
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}:
            raise SetupError(
                f"the parameter {str(parameter)!r} of the tool {name!r} cannot be given by name"
            )
        hint = hints.get(parameter.name, Any)
        if is_context(hint):
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        # A prefix, since pydantic has attributes of its own that parameters may be named like.
        fields[f"{_PREFIX}{parameter.name}"] = (hint, Field(default, alias=parameter.name))
    return fields


_PREFIX = "argument_"


def checker(model: type[BaseModel]) -> Check:
    """Return what checks the arguments by a model of them."""
    names = {field: field.removeprefix(_PREFIX) for field in model.model_fields}

    def check(given: Mapping[str, Any]) -> dict[str, Any]:
        checked = model.model_validate(dict(given))
        return {name: getattr(checked, field) for field, name in names.items()}

    return check


def problems_of(error: ValidationError) -> str:
    """Return what does not fit, for a model to read."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    lines = [f"{'.'.join(map(str, each['loc'])) or 'it'}: {each['msg']}" for each in found[:10]]
    more = [f"and {len(found) - 10} more"] if len(found) > 10 else []
    return "; ".join(lines + more)
