"""Two models: a small one says who is to answer, and it or a large one does.

`python examples/routing.py` runs it in this process; with `LOOPMILL_APP=routing:app` workers do.
The models are scripts here; names like `groq/…` and `anthropic/…` stand in the same places.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import loops as ai
from loops.kit import LLM, default_loop, events, make_provider
from loops.providers.scripted import call

SORT = "Say `hard` if the question needs thought, and `easy` if not. One word, no more."

CITIES = {
    "name": "population",
    "description": "Say how many people live in a city.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}


def small_answer(history: list[dict[str, Any]]) -> Any:
    said = ai.Messages.of(history)[-1]
    if said.tool_results:
        return f"{said.tool_results[0].content} people."
    if "?" not in said.text:
        return "You are welcome."
    if not said.text.startswith("["):
        return [call("population", city="Lima")]
    return "hard" if "Why" in said.text else "easy"


SMALL = ai.scripted(small_answer, name="small")
LARGE = ai.scripted("Because blue light is scattered most.", name="large")


async def population(inp: dict[str, Any]) -> str:
    return {"Lima": "10,400,000"}.get(inp["city"], "nobody knows how many")


async def route(*, context: ai.Context, model: Any = None, **rest: Any) -> AsyncIterator[Any]:
    """Ask the small model who answers; what is left to do, the default loop does."""
    question = [{"role": "user", "content": f"[Sort this] {context.last_message}"}]
    # A request like any other: a run that is resumed on another worker does not ask it again.
    word = await make_provider(model).complete(messages=question, system=SORT, max_tokens=5)
    chosen = LARGE if "hard" in word.lower() else model
    yield events.step(f"Asking {make_provider(chosen).model}")
    async for event in default_loop(context=context, model=chosen, **rest):
        yield event


llm = LLM().model(SMALL).tools([CITIES]).on("population", population, has_details=True).loop(route)
app = ai.App({"router": llm})


async def main() -> None:
    for question in ("How many people live in Lima?", "Why is the sky blue?"):
        outcome = await app.run("router", question)
        print(outcome.output)


if __name__ == "__main__":
    asyncio.run(main())
