"""Tools: functions that a model may call, with a schema made from their type hints."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypedDict, Unpack, cast, overload

import orjson
from pydantic import ValidationError, create_model
from pydantic.errors import PydanticUserError

from .aggregate import Aggregate, Aggregator, gathered
from .errors import InvalidArguments, SetupError
from .jsonable import jsonable
from .messages import ToolCall, ToolResult, parse_arguments
from .model import ToolSpec
from .naming import NAME_RULE, is_name, refuse_unknown
from .tool_schema import Check, argument_fields, checker, hints_of, is_context, problems_of

Redaction = bool | Sequence[str]
"""The arguments of a tool that nobody is shown; True for all of them and the result."""


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

    concurrency: int | None = None
    """How many calls of the tool are performed at the same time, over all runs and workers; None
    for any number."""
    redact: Redaction = False
    """The arguments that no event shows, and no list of calls; True hides all of them, and the
    result as well. The model, the history and the tool see everything."""
    aggregator: Callable[[], Aggregator[Any, Any, Any]] | None = None
    """Makes what gathers the pieces that the function gives; None: the last one is the result."""
    to_model_input: Callable[[Any], Any] | None = None
    """Makes of the result what the model is told; None: it is told the result."""
    return_type: Any = Any
    """The type of the result, as far as the function's hints say it."""

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
            problems = problems_of(error)
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
    concurrency: int | None
    redact: Redaction
    aggregator: Callable[[], Aggregator[Any, Any, Any]] | None
    to_model_input: Callable[[Any], Any] | None
    return_type: Any


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
    hints = hints_of(function, name)
    marked, returned = gathered(name, hints.pop("return", Any))
    injected = [each for each, hint in hints.items() if is_context(hint)]
    fields = argument_fields(function, name, hints)
    try:
        model = create_model(f"{name}_arguments", **fields)
        schema = model.model_json_schema(by_alias=True)
    except PydanticUserError as error:
        raise SetupError(f"the tool {name!r} has a type hint without a schema: {error}") from error
    schema.pop("title", None)
    _check_hidden(name, given.get("redact", False), schema)
    return Tool(
        function=function,
        name=name,
        description=description,
        schema={"type": "object", "properties": {}, **schema},
        check=checker(model),
        context_parameter=injected[0] if injected else None,
        **_of_pieces(name, given, marked),
        **{"return_type": returned, **given},
    )


def _check_hidden(name: str, hides: Redaction, schema: Mapping[str, Any]) -> None:
    known = schema.get("properties", {})
    unknown = [each for each in hides if each not in known] if not isinstance(hides, bool) else []
    if unknown:
        raise SetupError(
            f"the tool {name!r} is to hide {unknown[0]!r}, which is none of its arguments: "
            f"{', '.join(known) or 'it has none'}"
        )


def _of_pieces(name: str, given: dict[str, Any], marked: Aggregate | None) -> dict[str, Any]:
    """Take out of the options how pieces are gathered and what the model is told of the result.

    Raises:
        TypeError: When that is said twice.
    """
    aggregator, told = given.pop("aggregator", None), given.pop("to_model_input", None)
    if aggregator is not None and marked is not None:
        raise TypeError(f"the tool {name!r} has an aggregator= and one in its return type")
    if told is not None and (aggregator or marked):
        raise TypeError(f"the tool {name!r} has to_model_input=, which its aggregator says already")
    return {"aggregator": aggregator or marked, "to_model_input": told}


def _check_options(name: str, given: Mapping[str, Any]) -> None:
    if not is_name(name):
        raise SetupError(f"a tool's name is {NAME_RULE}, not {name!r}; give it a name=")
    refuse_unknown(given, ToolOptions.__annotations__, subject=f"@tool, above {name!r},")
    for option, value in given.items():
        _check_option(name, option, value)


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _are_names(value: object) -> bool:
    names = cast("Sequence[object]", value)
    return isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in names)


_FITS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "timeout": (
        lambda value: value is None or (isinstance(value, timedelta) and value > timedelta(0)),
        "give a timedelta above zero, like timedelta(seconds=5)",
    ),
    "retries": (lambda value: _is_count(value, 0), "give a whole number, 0 for none"),
    "concurrency": (
        lambda value: value is None or _is_count(value, 1),
        "give a whole number from 1, None for no limit",
    ),
    "require_approval": (
        lambda value: isinstance(value, bool) or callable(value),
        "give True, or a function of the arguments that says so",
    ),
    "queue": (
        lambda value: isinstance(value, str) and value != "",
        "give the name of a queue",
    ),
    "redact": (
        lambda value: isinstance(value, bool) or _are_names(value),
        "give a list of arguments, or True for all of them and the result",
    ),
    "aggregator": (
        lambda value: value is None or callable(value),
        "give a class of Aggregator, or a function that makes one",
    ),
    "to_model_input": (
        lambda value: value is None or callable(value),
        "give a function of the result",
    ),
    "return_type": (lambda _: True, ""),
}
"""What an option may be, and the mend of one that it may not."""

_YES_OR_NO: tuple[Callable[[Any], bool], str] = (
    lambda value: isinstance(value, bool),
    "give True or False",
)


def _check_option(name: str, option: str, value: object) -> None:
    fits, mend = _FITS.get(option, _YES_OR_NO)
    if not fits(value):
        raise SetupError(f"the tool {name!r} is given {option}={value!r}; {mend}")
