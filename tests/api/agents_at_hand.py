"""The app of the gateway's tests: one agent that calls a tool, and one that only speaks."""

from typing import Any

import loops as ai
from loops.providers.scripted import call


@ai.tool(read_only=True)
async def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"sunny in {city}"


def answer(history: list[dict[str, Any]]) -> object:
    """Call the tool, and say what it gave."""
    content = history[-1]["content"]
    if isinstance(content, list) and content[0].get("type") == "tool_result":
        return f"It is {content[0]['content']}."
    return ["Let me see. ", call("weather", city="Rome")]


def heard(history: list[dict[str, Any]]) -> object:
    """Say what was heard."""
    return f"{len(history)} messages"


app = ai.App(
    {
        "weather": ai.Agent(model=ai.scripted(answer), tools=[weather]),
        "listener": ai.Agent(model=ai.scripted(heard)),
    }
)
