"""What a request wishes of a reply, read from one protocol and said in the other; pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from loops.blocks import Raw
from loops.errors import InvalidRequest
from loops.providers.told import fields, word

from .rounds import Surface


@dataclass(frozen=True, slots=True)
class Choice:
    """Whether a tool is to be called, and which."""

    kind: str
    """`auto`, `any`, `none` or `tool`."""
    name: str = ""
    """The tool's, where the kind is `tool`."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What both protocols have words for; None where the request says nothing."""

    temperature: Any = None
    top_p: Any = None
    stop: Any = None
    """A list of texts."""
    choice: Choice | None = None
    is_parallel: bool | None = None
    thinks: Any = None
    """A level, a number of tokens, `adaptive`, or False for not at all."""
    user: str = ""
    schema: Raw | None = None
    """The JSON schema that the reply fits."""
    schema_name: str = ""


def wishes_of(surface: Surface, body: Mapping[str, Any]) -> Wishes:
    """Return what the body wishes, in the words of neither protocol.

    Raises:
        InvalidRequest: When it wishes for what no other protocol has.
    """
    return _of_messages(body) if surface is Surface.MESSAGES else _of_chat(body)


def params_of(wishes: Wishes, protocol: Surface) -> Raw:
    """Return the fields of a request that say the wishes; `thinking` is as `thinking.py` has it."""
    told = _to_messages(wishes) if protocol is Surface.MESSAGES else _to_chat(wishes)
    return {name: value for name, value in told.items() if value is not None}


def _of_messages(body: Mapping[str, Any]) -> Wishes:
    choice = fields(body.get("tool_choice"))
    is_single = choice.get("disable_parallel_tool_use")
    shape = fields(fields(body.get("output_config")).get("format") or body.get("output_format"))
    return Wishes(
        temperature=body.get("temperature"),
        top_p=body.get("top_p"),
        stop=body.get("stop_sequences") or None,
        choice=Choice(word(choice["type"]), word(choice.get("name"))) if "type" in choice else None,
        is_parallel=not is_single if isinstance(is_single, bool) else None,
        thinks=_thinks(body),
        user=word(fields(body.get("metadata")).get("user_id")),
        schema=fields(shape.get("schema")) or None,
    )


def _thinks(body: Mapping[str, Any]) -> Any:
    thinking = fields(body.get("thinking"))
    effort = _LEVELS.get(word(fields(body.get("output_config")).get("effort")))
    match thinking.get("type"):
        case "enabled":
            return thinking.get("budget_tokens") or "adaptive"
        case "disabled":
            return False
        case "adaptive":
            return effort or "adaptive"
        case _:
            return effort


_LEVELS: Mapping[str, str | bool] = {
    "none": False,
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
    "max": "high",
}
"""What either protocol calls an effort, in the words that all of our models understand."""


def _of_chat(body: Mapping[str, Any]) -> Wishes:
    if body.get("n") not in {None, 1}:
        raise InvalidRequest("the model gives one answer; n is 1, or is left out", status=400)
    stop = body.get("stop") or None
    is_parallel = body.get("parallel_tool_calls")
    shape = fields(body.get("response_format"))
    schema = fields(shape.get("json_schema"))
    return Wishes(
        temperature=body.get("temperature"),
        top_p=body.get("top_p"),
        stop=[stop] if isinstance(stop, str) else stop,
        choice=_choice(body.get("tool_choice")),
        is_parallel=is_parallel if isinstance(is_parallel, bool) else None,
        thinks=_LEVELS.get(word(body.get("reasoning_effort"))),
        user=word(body.get("user")),
        schema=fields(schema.get("schema")) or None,
        schema_name=word(schema.get("name")),
    )


def _choice(told: object) -> Choice | None:
    if isinstance(told, str):
        return Choice(_KINDS.get(told, "auto"))
    choice = fields(told)
    if "mode" in (allowed := fields(choice.get("allowed_tools"))):
        return Choice(_KINDS.get(word(allowed["mode"]), "auto"))
    named = fields(choice.get("function")) or fields(choice.get("custom"))
    return Choice("tool", word(named.get("name"))) if named else None


_KINDS = {"auto": "auto", "required": "any", "none": "none"}


def _to_messages(wishes: Wishes) -> Raw:
    choice = _choice_of_messages(wishes)
    thinks = wishes.thinks
    if choice is not None and choice["type"] in {"any", "tool"}:
        # The service thinks only where it may choose; a call that must be made goes before.
        thinks = None
    is_free = thinks in {None, False}
    told: Raw = {
        "temperature": _cool(wishes.temperature) if is_free else None,
        "top_p": wishes.top_p if is_free else None,
        "stop_sequences": wishes.stop,
        "tool_choice": choice,
        "thinking": thinks,
        "metadata": {"user_id": wishes.user} if wishes.user else None,
    }
    if wishes.schema is not None:
        told["output_config"] = {"format": {"type": "json_schema", "schema": wishes.schema}}
    return told


def _cool(temperature: Any) -> Any:
    """Return a temperature of at most 1, where Anthropic's scale ends."""
    is_number = isinstance(temperature, int | float)
    return min(temperature, 1) if is_number else temperature


def _choice_of_messages(wishes: Wishes) -> Raw | None:
    choice = wishes.choice
    if choice is None and wishes.is_parallel is not False:
        return None
    told: Raw = {"type": "auto" if choice is None else choice.kind}
    if choice is not None and choice.name:
        told["name"] = choice.name
    if wishes.is_parallel is not None and told["type"] != "none":
        told["disable_parallel_tool_use"] = not wishes.is_parallel
    return told


def _to_chat(wishes: Wishes) -> Raw:
    told: Raw = {
        "temperature": wishes.temperature,
        "top_p": wishes.top_p,
        "stop": wishes.stop,
        "tool_choice": _choice_of_chat(wishes.choice),
        "parallel_tool_calls": wishes.is_parallel,
        "thinking": wishes.thinks,
        "user": wishes.user or None,
    }
    if wishes.schema is not None:
        named = {"name": wishes.schema_name or "reply", "schema": wishes.schema, "strict": True}
        told["response_format"] = {"type": "json_schema", "json_schema": named}
    return told


def _choice_of_chat(choice: Choice | None) -> Any:
    if choice is None:
        return None
    if choice.kind == "tool":
        return {"type": "function", "function": {"name": choice.name}}
    return {"any": "required"}.get(choice.kind, choice.kind)


def unforced(surface: Surface, choice: object) -> object:
    """Return the choice of a request without its force; the very same where it forces nothing."""
    if surface is Surface.MESSAGES:
        told = fields(choice)
        if told.get("type") not in {"any", "tool"}:
            return choice
        return {"type": "auto"} | {k: v for k, v in told.items() if k not in {"type", "name"}}
    if not isinstance(choice, dict):
        return "auto" if choice == "required" else choice
    told = cast("Raw", choice)
    allowed = fields(told.get("allowed_tools"))
    if not allowed:
        return "auto"
    return {**told, "allowed_tools": allowed | {"mode": "auto"}} if _is_forced(allowed) else told


def _is_forced(allowed: Raw) -> bool:
    return allowed.get("mode") == "required"
