"""The blocks of the document on custom function loops, as agents; an app of them for workers.

A block that is the body of a function is set into one, indented, and nothing else is changed. The
names that it uses and does not define are given by whoever asks for it.
"""

import re
from collections import Counter
from functools import cache
from textwrap import indent
from types import ModuleType
from typing import Any

import loops as ai
from loops.kit import LLM, ToolContext
from loops.providers.scripted import Reply, call, in_turn, scripted, text
from tests.documents.blocks import documents_folder, module_of, with_imports
from tests.effects import mark

DOCUMENT = "004_097a01a6111b73a5.txt"
IMPORTS = """\
import loops.kit as cycls
from collections.abc import AsyncIterator
from typing import Protocol
from loops.kit import build_tools, compact, default_loop, dispatch, events, make_provider, Session
"""

_FENCE = re.compile(r"^```python[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LONG_IMPORT = re.compile(r"^from [^\n]* import \([^)]*\)$", re.MULTILINE)


@cache
def blocks() -> list[str]:
    """Return the document's Python blocks: hooking, injecting, replacing, session, provider."""
    return _FENCE.findall((documents_folder() / DOCUMENT).read_text(encoding="utf-8"))


def own_lines(block: str) -> str:
    """Return the block without its import lines; one over several lines is one."""
    return with_imports(_LONG_IMPORT.sub("from it import all", block), "").lstrip("\n")


def whole(block: str) -> ModuleType:
    """Return a module with what the block defines."""
    return module_of(IMPORTS + own_lines(block), "function_loops")


def body(block: str, **given: Any) -> Any:
    """Return the function whose body is the block; the names are given to it."""
    wrapped = "async def hooked(context):\n" + indent(own_lines(block), "    ")
    module = module_of(IMPORTS + wrapped, "function_loops")
    module.__dict__.update(given)
    return module.hooked


class Metrics:
    """What the document's code counts by."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def increment(self, name: str) -> None:
        """Count one more."""
        self.counts[name] += 1


def hooking(llm: LLM, metrics: Metrics, alerts: list[str]) -> Any:
    """Return the document's first loop, around this agent."""
    return body(blocks()[0], llm=llm, metrics=metrics, alert_ops=alerts.append)


def injecting(llm: LLM) -> Any:
    """Return the document's second loop, around this agent."""
    return body(blocks()[1], llm=llm)


def replacing() -> LLM:
    """Return the agent whose loop the document writes out."""
    made: LLM = whole(blocks()[2]).llm
    return made


LETTER = {"name": "send", "input_schema": {"type": "object"}}
LETTERS: Reply = in_turn(
    [text("First. "), call("send", to="ann")], [call("send", to="bob")], "Done."
)


async def _send(inp: dict[str, Any], ctx: ToolContext) -> str:
    mark(ctx, "send")
    return f"sent to {inp['to']}"


def _app() -> ai.App:
    writer = LLM().model(scripted(LETTERS)).tools([LETTER]).on("send", _send)
    agents = {
        "hooking": hooking(writer, Metrics(), []),
        "injecting": injecting(writer),
        "replacing": replacing(),
    }
    return ai.App(agents=agents, tools=writer.agent_tools())


def __getattr__(name: str) -> ai.App:
    """Make the app when a worker asks for it: whoever only collects tests may lack the document."""
    if name == "app":
        return _app()
    raise AttributeError(name)
