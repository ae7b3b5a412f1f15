"""A state machine as a loop: a desk that asks, quotes, and books only what was quoted.

A state is what the model is told, and which tools it has. Its edges are tools as well, so that a
call of anything else is refused by `dispatch`, whatever the model writes. The state is not kept
anywhere: it is the last edge in the session, so it outlives workers, and holds for the next run.

`python examples/state_machine.py` runs it in this process; with `LOOPMILL_APP=state_machine:app`
workers do. The model is a script here.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import loops as ai
from loops.blocks import Raw
from loops.kit import LLM, Session, Turn, build_tools, dispatch, make_provider
from loops.providers.scripted import call, in_turn, text


@dataclass(frozen=True)
class State:
    """What the model is told in a state, and what it may call there."""

    task: str
    tools: Sequence[str]


STATES = {
    "ask": State("Find out from where to where the guest travels.", ["to_quote"]),
    "quote": State("Say what it costs.", ["price", "to_ask", "to_book"]),
    "book": State("Book, and tell the number of the booking.", ["book"]),
}
FIRST = "ask"


async def price(inp: Raw) -> str:
    return f"to {inp['to']}: 90 EUR"


async def book(inp: Raw) -> str:
    return f"booked for {inp['to']}: A7"


async def moved(_: Raw) -> str:
    return "done; go on there"


def state_of(messages: Sequence[Raw]) -> str:
    """Return the state of a session: where its last edge led that was not refused."""
    state, called = FIRST, dict[str, str]()
    for message in messages:
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block["type"] == "tool_use":
                called[block["id"]] = block["name"]
            elif block["type"] == "tool_result" and not block.get("is_error"):
                name = called.get(block["tool_use_id"], "")
                state = name.removeprefix("to_") if name.startswith("to_") else state
    return state


async def machine(
    *, context: ai.Context, model: Any = None, tools: Any = None, handlers: Any = None, **_: Any
) -> AsyncIterator[Any]:
    """Ask with what the state allows, carry out what was called, until nothing is."""
    provider, session = make_provider(model), await Session.open(context)
    await session.add_user(context.messages.raw[-1]["content"])
    reply: Turn | None = None
    while reply is None or reply.calls:
        name = state_of(session.messages)
        state = STATES[name]
        yield {"type": "status", "status": name}
        offered = build_tools((), [each for each in tools if each["name"] in state.tools])
        async for event in provider.stream(
            messages=session.context(), system=state.task, tools=offered, max_tokens=1000
        ):
            reply = event if isinstance(event, Turn) else reply
            yield event  # the Turn too: `llm.run` gives it to the session
        await session.checkpoint()
        if reply is None or not reply.calls:
            return
        results = []
        for block in reply.calls:
            step, answer = dispatch(block, context.workspace, 60, handlers, offered=state.tools)
            yield step
            results.append(result_of(block, str(await answer)))
        session.messages.append({"role": "user", "content": results})
        await session.checkpoint()


def result_of(block: Raw, answer: str) -> Raw:
    result = {"type": "tool_result", "tool_use_id": block["id"], "content": answer}
    return {**result, "is_error": True} if answer.startswith("Error:") else result


SCRIPT = in_turn(
    # It is in a hurry; the first call is refused, for nothing was quoted yet.
    [call("book", to="Rome")],
    [call("to_quote")],
    [call("price", to="Rome")],
    "That is 90 EUR. Shall I book?",
    [text("Gladly. "), call("to_book")],
    [call("book", to="Rome")],
    "Your booking is A7.",
)


def tool(name: str, description: str, **properties: Raw) -> Raw:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"name": name, "description": description, "input_schema": schema}


TO = {"type": "string", "description": "Where to."}


llm = (
    LLM()
    .model(ai.scripted(SCRIPT))
    .tools(
        [
            tool("price", "Look up what a journey costs.", to=TO),
            tool("book", "Book a journey.", to=TO),
            *(tool(f"to_{name}", f"Go on with: {state.task}") for name, state in STATES.items()),
        ]
    )
    .on("price", price)
    .on("book", book)
    .loop(machine)
)
for each in STATES:
    llm = llm.on(f"to_{each}", moved)
app = ai.App({"desk": llm})


async def main() -> None:
    for said in ("To Rome, please", "Yes"):
        async for event in llm.run(context=ai.Context(messages=said, chat_id="guest")):
            match event:
                case {"type": "status", "status": state}:
                    print(f"[{state}] ", end="")
                case {"type": "step", "tool_name": name}:
                    print(name)
                case str():
                    print(event, end="")
        print()


if __name__ == "__main__":
    asyncio.run(main())
