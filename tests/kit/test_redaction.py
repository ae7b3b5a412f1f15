"""What a tool hides is hidden in what the kit shows, too."""

import json
from typing import Any

import loops as ai
from loops.kit import LLM
from loops.providers.scripted import call, in_turn, scripted
from tests.agents.runtimes import Through

SECRET = "hunter2"


@ai.tool(redact=["password"])
async def log_in(user: str, password: str) -> str:
    """Log in."""
    return f"hello {user}"


@ai.tool(redact=True, require_approval=True)
async def pay(card: str) -> str:
    """Pay."""
    return f"paid with {card}"


def shown(events: list[Any]) -> str:
    return json.dumps([event.value for event in events])


async def test_a_hidden_argument_is_in_no_event(through: Through) -> None:
    reply = in_turn([call("log_in", user="ann", password=SECRET)], "In.")
    llm = LLM().model(scripted(reply)).tools([log_in])

    outcome = await through(llm, "go")

    told = shown(outcome.of(ai.events.Custom))
    assert SECRET not in told
    assert "log_in" in told
    assert outcome.history[1]["content"][0]["input"]["password"] == SECRET


async def test_a_hidden_call_is_asked_for_without_its_arguments(through: Through) -> None:
    def grant(event: Any) -> dict[str, Any]:
        is_asked = isinstance(event, ai.events.HookEvent) and event.status == "opened"
        return {event.label: {"granted": True}} if is_asked else {}

    llm = LLM().model(scripted(in_turn([call("pay", card=SECRET)], "Paid."))).tools([pay])

    outcome = await through(llm, "go", grant)

    assert SECRET not in shown(outcome.of(ai.events.Custom))
    assert outcome.history[2]["content"][0]["content"] == f"paid with {SECRET}"
