"""Agent loops: async generators that decide, and the blocks that they are made of."""

from . import errors, events, testing, util
from .agent import Agent, AgentStream, RunOutcome, current_agent
from .app import App
from .approval import ToolApproval
from .bound_call import BoundToolCall
from .budget import Budget
from .context import Context
from .default import default_loop
from .events import AgentEvent, Event
from .find import find
from .hook_registry import HookRegistry, get_hook_registry, use_hook_registry
from .hooks import cancel_hook, defer_hook, hook, resolve_hook
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
    "Budget",
    "Context",
    "Event",
    "HookRegistry",
    "LocalRuntime",
    "Message",
    "Messages",
    "ModelPort",
    "ModelRequest",
    "RunOutcome",
    "Runtime",
    "Stream",
    "Tool",
    "ToolApproval",
    "ToolCall",
    "ToolContext",
    "ToolResult",
    "ToolRunner",
    "Usage",
    "cancel_hook",
    "current_agent",
    "current_tool_call",
    "default_loop",
    "defer_hook",
    "errors",
    "events",
    "find",
    "get_hook_registry",
    "hook",
    "register_provider",
    "resolve_hook",
    "scripted",
    "stream",
    "testing",
    "tool",
    "use_hook_registry",
    "util",
]
