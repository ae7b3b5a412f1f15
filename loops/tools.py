"""Tools: functions that a model may call, with a schema made from their type hints."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from types import UnionType
from typing import (
    Any,
    TypedDict,
    Union,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

import orjson
from pydantic import BaseModel, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError

from .errors import InvalidArguments, SetupError
from .jsonable import jsonable
from .messages import ToolCall, ToolResult, parse_arguments
from .model import ToolSpec
from .naming import NAME_RULE, is_name, refuse_unknown
from .tool_context import ToolContext

Check = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Takes the model's arguments, gives keyword arguments for the function, or raises a ValueError."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that a model may call; called directly it is the function that it was."""

    function: Callable[..., Any]
    name: str
    description: str
    schema: Mapping[str, Any]
    """The JSON schema of the arguments."""
    check: Check
    context_parameter: str | None = None
    """The parameter that gets the `ToolContext`, which no model sees."""
    timeout: timedelta | None = None
    """How long one try may take; None is the runtime's default."""
    queue: str = "tools"
    """The queue whose workers perform the calls."""
    idempotent: bool = False
    """Whether a second call has no second effect, so that a lost one may be tried again."""
    read_only: bool = False
    """Whether the tool changes nothing."""
    retries: int = 0
    """How often the function is called again when it fails, after a pause that grows."""
    inline: bool = False
    """Whether calls are performed where the loop runs, and not as jobs of their own: for what takes
    no time. After a crash such a call is performed again, unless its result was recorded."""
    require_approval: bool | Callable[[Mapping[str, Any]], bool] = False
    """Whether a person has to grant each call before it is carried out; or a function that says so
    of the arguments."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function as if it were no tool."""
        return self.function(*args, **kwargs)

    @property
    def spec(self) -> ToolSpec:
        """What a model is told of the tool."""
        return ToolSpec(self.name, self.description, self.schema)

    def wants_approval(self, arguments: Mapping[str, Any]) -> bool:
        """Say whether a person has to grant a call with these arguments.

        Raises:
            InvalidArguments: When they do not fit the tool.
        """
        wanted = self.require_approval
        if wanted is False:
            return False
        self.validated(arguments)
        return wanted if wanted is True else bool(wanted(arguments))

    def validated(self, arguments: str | Mapping[str, Any]) -> dict[str, Any]:
        """Return the keyword arguments for the function, each as its type hint says.

        Raises:
            InvalidArguments: When they do not fit; the text names each problem for the model.
        """
        given = parse_arguments(self.name, arguments) if isinstance(arguments, str) else arguments
        try:
            return self.check(given)
        except ValidationError as error:
            problems = _problems(error)
        except ValueError as error:
            problems = str(error)
        raise InvalidArguments(f"the arguments of {self.name!r} do not fit: {problems}")


class ToolOptions(TypedDict, total=False):
    """What `@tool` takes; see the fields of `Tool`."""

    name: str
    description: str
    timeout: timedelta | None
    queue: str
    idempotent: bool
    read_only: bool
    retries: int
    inline: bool
    require_approval: bool | Callable[[Mapping[str, Any]], bool]


_NOT_YET = ("concurrency",)


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None, /, **options: Unpack[ToolOptions]
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a function callable by models.

    An `async def` is awaited, a plain `def` runs in a thread, a generator gives its values one by
    one and its last value is the result. The docstring is what the model is told.

    Raises:
        SetupError: When the name or a parameter is of no use to a model, or an option does not
            exist or is of another kind.
    """
    if function is not None:
        return _tool_of(function, options)

    def decorate(decorated: Callable[..., Any]) -> Tool:
        return _tool_of(decorated, options)

    return decorate


def as_tool(value: Tool | Callable[..., Any]) -> Tool:
    """Return a tool as it is, and make a plain function one."""
    return value if isinstance(value, Tool) else tool(value)


def arguments_of(call: ToolCall, overrides: Mapping[str, Any] | None) -> str:
    """Return the call's arguments as JSON text, those replaced that are overridden."""
    if not overrides:
        return call.arguments
    try:
        given = call.parsed()
    except InvalidArguments:
        given = {}
    return orjson.dumps(jsonable({**given, **overrides})).decode()


def unknown_tool_result(call: ToolCall) -> ToolResult:
    """Return the result that tells the model that it has no tool of this name."""
    text = (
        f"UnknownTool: there is no tool named {call.name[:64]!r}; call one of those you were given"
    )
    return ToolResult(call.key, call.id, call.name[:64], text, is_error=True)


def _tool_of(function: Callable[..., Any], options: ToolOptions) -> Tool:
    if not callable(function):
        raise SetupError(
            f"a tool is a function, not {function!r}; write @tool above an async def or def"
        )
    given: dict[str, Any] = {**options}
    name = str(given.pop("name", None) or getattr(function, "__name__", ""))
    described = given.pop("description", None)
    description = inspect.getdoc(function) or "" if described is None else str(described)
    _check_options(name, given)
    hints = _hints(function, name)
    injected = [each for each, hint in hints.items() if _is_context(hint)]
    fields = _argument_fields(function, name, hints)
    try:
        model = create_model(f"{name}_arguments", **fields)
        schema = model.model_json_schema(by_alias=True)
    except PydanticUserError as error:
        raise SetupError(f"the tool {name!r} has a type hint without a schema: {error}") from error
    schema.pop("title", None)
    return Tool(
        function=function,
        name=name,
        description=description,
        schema={"type": "object", "properties": {}, **schema},
        check=_checker(model),
        context_parameter=injected[0] if injected else None,
        **given,
    )


def _check_options(name: str, given: Mapping[str, Any]) -> None:
    if not is_name(name):
        raise SetupError(f"a tool's name is {NAME_RULE}, not {name!r}; give it a name=")
    for option in _NOT_YET:
        if option in given:
            raise SetupError(
                f"@tool has no {option}= yet, so the tool {name!r} cannot have it; leave it out"
            )
    refuse_unknown(given, ToolOptions.__annotations__, subject=f"@tool, above {name!r},")
    for option, value in given.items():
        _check_option(name, option, value)


def _check_option(name: str, option: str, value: object) -> None:
    match option:
        case "timeout":
            fits = value is None or (isinstance(value, timedelta) and value > timedelta(0))
            mend = "give a timedelta above zero, like timedelta(seconds=5)"
        case "retries":
            fits = isinstance(value, int) and not isinstance(value, bool) and value >= 0
            mend = "give a whole number, 0 for none"
        case "require_approval":
            fits = isinstance(value, bool) or callable(value)
            mend = "give True, or a function of the arguments that says so"
        case "queue":
            fits, mend = isinstance(value, str) and value != "", "give the name of a queue"
        case _:
            fits, mend = isinstance(value, bool), "give True or False"
    if not fits:
        raise SetupError(f"the tool {name!r} is given {option}={value!r}; {mend}")


def innermost(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that a partial or a callable object runs in the end."""
    while isinstance(function, partial):
        function = function.func
    return function if inspect.isroutine(function) else type(function).__call__


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    try:
        return get_type_hints(innermost(function), include_extras=True)
    except NameError as error:
        raise SetupError(
            f"a type hint of the tool {name!r} cannot be resolved: {error}; "
            "define the type at the top of its module"
        ) from error


def _is_context(hint: object) -> bool:
    if get_origin(hint) in {Union, UnionType}:
        return any(each is ToolContext for each in get_args(hint))
    return hint is ToolContext


def _argument_fields(
    function: Callable[..., Any], name: str, hints: Mapping[str, Any]
) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}:
            raise SetupError(
                f"the parameter {str(parameter)!r} of the tool {name!r} cannot be given by name"
            )
        hint = hints.get(parameter.name, Any)
        if _is_context(hint):
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        # A prefix, since pydantic has attributes of its own that parameters may be named like.
        fields[f"{_PREFIX}{parameter.name}"] = (hint, Field(default, alias=parameter.name))
    return fields


_PREFIX = "argument_"


def _checker(model: type[BaseModel]) -> Check:
    names = {field: field.removeprefix(_PREFIX) for field in model.model_fields}

    def check(given: Mapping[str, Any]) -> dict[str, Any]:
        checked = model.model_validate(dict(given))
        return {name: getattr(checked, field) for field, name in names.items()}

    return check


def _problems(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    lines = [f"{'.'.join(map(str, each['loc'])) or 'it'}: {each['msg']}" for each in found[:10]]
    more = [f"and {len(found) - 10} more"] if len(found) > 10 else []
    return "; ".join(lines + more)
