"""Rules for the text of an answer: the caller gets none that breaks one."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from loops.blocks import Raw
from loops.errors import RunError
from loops.guard import Raised, outcome_of_call
from loops.providers.told import fields, objects

Rule = Callable[[str], Any]
"""Takes a text; False, or a dict whose `decision` is False and that has a `message`, is a no."""

REFUSED = "the answer did not pass a rule of this server"


class RuleBroken(RunError):  # noqa: N818 - the name says what happened
    """An answer broke a rule, or the rule itself failed."""

    code = "rule_broken"
    status_code = 422


def check(rules: Sequence[Rule], body: Raw) -> None:
    """Pass if the text of a chat completion breaks no rule; one without text breaks none.

    Raises:
        RuleBroken: When it breaks one.
    """
    for choice in objects(body.get("choices")):
        text: object = fields(choice.get("message")).get("content")
        for rule in rules if isinstance(text, str) else ():
            _check(rule, cast("str", text))


def _check(rule: Rule, text: str) -> None:
    said = outcome_of_call(partial(rule, text))
    if isinstance(said, Raised):
        name = getattr(rule, "__name__", repr(rule))
        raise RuleBroken(f"the rule {name!r} raised {said.text}") from said.error
    if said is False:
        raise RuleBroken(REFUSED)
    if isinstance(said, Mapping):
        told = cast("Mapping[str, object]", said)
        if told.get("decision") is False:
            raise RuleBroken(str(told.get("message") or REFUSED))
