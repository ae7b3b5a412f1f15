"""A plan first, then the work: the plan is shown, and stands in the instructions of what follows.

`python examples/planning.py` runs it in this process; with `LOOPMILL_APP=planning:app` workers do.
The model is a script here.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import loops as ai
from loops.kit import LLM, Session, Turn, default_loop, make_provider
from loops.providers.scripted import call, text

PLAN = "Write a plan for what the user wants: one line a step, no more than five. Do nothing yet."

MEASURE = {
    "name": "measure",
    "description": "Measure one side of the room, in metres.",
    "input_schema": {
        "type": "object",
        "properties": {"side": {"type": "string"}},
        "required": ["side"],
    },
}


async def measure(inp: dict[str, Any]) -> dict[str, Any]:
    return {"side": inp["side"], "metres": {"long": 5, "short": 4}[inp["side"]]}


def answer(history: list[dict[str, Any]]) -> Any:
    """Plan when asked to, measure both sides, then say what they come to."""
    last = ai.Messages.of(history)[-1]
    if last.tool_results:
        return "The room has 20 square metres."
    if last.text == PLAN:
        return "1. measure both sides\n2. multiply"
    return [text("As planned. "), call("measure", side="long"), call("measure", side="short")]


async def plan_first(
    *, context: ai.Context, model: Any = None, system: str = "", **rest: Any
) -> AsyncIterator[Any]:
    """Ask for a plan without tools; then let the default loop work by it."""
    session = await Session.open(context)
    asked = [*session.context(), session.request, {"role": "user", "content": PLAN}]
    plan = ""
    async for event in make_provider(model).stream(messages=asked, system=system, max_tokens=500):
        # Only the plan's `Turn` is of use; kept from the reader, it is no part of the session.
        if isinstance(event, Turn):
            plan = event.text
    yield {"type": "ui", "action": "plan", "steps": plan.splitlines()}
    system = f"{system}\n\nThis is the plan you made:\n{plan}".strip()
    async for event in default_loop(context=context, model=model, system=system, **rest):
        yield event


llm = LLM().model(ai.scripted(answer)).tools([MEASURE]).on("measure", measure).loop(plan_first)
app = ai.App({"planner": llm})


async def main() -> None:
    async for event in llm.run(context=ai.Context(messages="How large is the room?")):
        match event:
            case {"action": "plan", "steps": steps}:
                print("plan:", *steps, sep="\n  ")
            case {"type": "step", "tool_name": name}:
                print(f"[{name}]")
            case str():
                print(event, end="")
    print()


if __name__ == "__main__":
    asyncio.run(main())
