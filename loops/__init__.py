"""Agent loops: async generators that decide, and the blocks that they are made of."""

from . import errors, events, testing, util
from .agent import Agent, AgentStream, RunOutcome, current_agent
from .app import App
from .bound_call import BoundToolCall
from .context import Context
from .default import default_loop
from .events import AgentEvent, Event
from .find import find
from .local import LocalRuntime
from .messages import Message, Messages, ToolCall, ToolResult, Usage
from .model import ModelPort, ModelRequest, register_provider
from .providers.scripted import scripted
from .providers.shipped import SHIPPED
from .runtime import Runtime
from .stream import Stream, stream
from .tool_context import ToolContext, current_tool_call
from .tool_runner import ToolRunner
from .tools import Tool, tool

for _vendor, _factory in SHIPPED.items():
    register_provider(_vendor, _factory)

__all__ = [
    "Agent",
    "AgentEvent",
    "AgentStream",
    "App",
    "BoundToolCall",
    "Context",
    "Event",
    "LocalRuntime",
    "Message",
    "Messages",
    "ModelPort",
    "ModelRequest",
    "RunOutcome",
    "Runtime",
    "Stream",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolResult",
    "ToolRunner",
    "Usage",
    "current_agent",
    "current_tool_call",
    "default_loop",
    "errors",
    "events",
    "find",
    "register_provider",
    "scripted",
    "stream",
    "testing",
    "tool",
    "util",
]
