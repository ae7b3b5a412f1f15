"""An agent of the kit that asks for the weather, as most tests have it."""

from typing import Any

from loops.kit import LLM, ToolContext
from loops.providers.scripted import Reply, scripted

WEATHER: dict[str, Any] = {
    "name": "weather",
    "description": "Tell the weather of a city.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}


async def weather(inp: dict[str, Any], ctx: ToolContext) -> str:
    """Tell it."""
    return f"sunny in {inp['city']}"


def forecaster(reply: Any, **options: Any) -> LLM:
    """Return the agent with a model that answers by the script."""
    model = scripted(reply, **options)
    return LLM().model(model).tools([WEATHER]).on("weather", weather, label="Looking")


__all__ = ["WEATHER", "Reply", "forecaster", "weather"]
