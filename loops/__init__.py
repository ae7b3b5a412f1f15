"""Agent loops: async generators that decide, and the blocks that they are made of."""

from . import errors, events, testing, util
from .agent import Agent, current_agent
from .agent_stream import AgentStream, RunOutcome
from .aggregate import (
    Aggregate,
    Aggregator,
    ConcatAggregator,
    LastAggregator,
    MessageAggregator,
    StreamingStatusTool,
    StreamingTextTool,
    SubAgentTool,
)
from .app import App
from .approval import ToolApproval
from .bound_call import BoundToolCall
from .budget import Budget
from .building import assistant_message, message, system_message, tool_result, user_message
from .child_run import ChildRun
from .context import Context
from .default import default_loop
from .events import AgentEvent, Event
from .find import find
from .hook_registry import HookRegistry, get_hook_registry, use_hook_registry
from .hooks import cancel_hook, defer_hook, hook, resolve_hook
from .hydrator import MessageBundle, MessageHydrator
from .local import LocalRuntime
from .messages import Message, Messages, ToolCall, ToolResult, Usage
from .model import ModelPort, ModelRequest, register_provider
from .providers.scripted import scripted
from .providers.shipped import SHIPPED
from .runtime import Runtime
from .stream import Stream, generate, stream
from .tool_context import ToolContext, current_tool_call
from .tool_runner import ToolRunner
from .tools import Tool, tool
from .util import yield_from

for _vendor, _factory in SHIPPED.items():
    register_provider(_vendor, _factory)

__all__ = [
    "Agent",
    "AgentEvent",
    "AgentStream",
    "Aggregate",
    "Aggregator",
    "App",
    "BoundToolCall",
    "Budget",
    "ChildRun",
    "ConcatAggregator",
    "Context",
    "Event",
    "HookRegistry",
    "LastAggregator",
    "LocalRuntime",
    "Message",
    "MessageAggregator",
    "MessageBundle",
    "MessageHydrator",
    "Messages",
    "ModelPort",
    "ModelRequest",
    "RunOutcome",
    "Runtime",
    "Stream",
    "StreamingStatusTool",
    "StreamingTextTool",
    "SubAgentTool",
    "Tool",
    "ToolApproval",
    "ToolCall",
    "ToolContext",
    "ToolResult",
    "ToolRunner",
    "Usage",
    "assistant_message",
    "cancel_hook",
    "current_agent",
    "current_tool_call",
    "default_loop",
    "defer_hook",
    "errors",
    "events",
    "find",
    "generate",
    "get_hook_registry",
    "hook",
    "message",
    "register_provider",
    "resolve_hook",
    "scripted",
    "stream",
    "system_message",
    "testing",
    "tool",
    "tool_result",
    "use_hook_registry",
    "user_message",
    "util",
    "yield_from",
]
