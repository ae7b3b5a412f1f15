"""The three turns as LangGraph has them: a graph that goes round between model and tools."""

from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

TURNS = 3


@tool
async def look(place: str) -> str:
    """Look at a place."""
    return f"{place} is fine"


async def answer(state: MessagesState) -> dict[str, Any]:
    """Call tools for three turns, then say the last word: what our scripted model does."""
    turn = sum(message.type == "ai" for message in state["messages"])
    width = int(str(state["messages"][0].content))
    if turn == TURNS:
        return {"messages": [AIMessage("all is well")]}
    calls = [
        {"name": "look", "args": {"place": f"place {turn}.{each}"}, "id": f"call_{turn}_{each}"}
        for each in range(width)
    ]
    return {"messages": [AIMessage(f"I look at {width} places", tool_calls=calls)]}


def further(state: MessagesState) -> str:
    """Go to the tools while there are calls."""
    return "tools" if getattr(state["messages"][-1], "tool_calls", None) else END


builder = StateGraph(MessagesState)
builder.add_node("model", answer)
builder.add_node("tools", ToolNode([look]))
builder.add_edge(START, "model")
builder.add_conditional_edges("model", further, ["tools", END])
builder.add_edge("tools", "model")
graph = builder.compile()
