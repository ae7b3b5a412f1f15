"""A callback of LiteLLM's proxy that answers the calls of one tool, in its own dialect.

It is copied beside the proxy's configuration. A reply of Messages is a dict there, whatever the
documentation says. In this version a chat completion reaches the generic methods alone: the plan
that the documentation names for it is never asked for.
"""

from __future__ import annotations

import json
from typing import Any

from litellm.integrations.custom_logger import CustomLogger
from litellm.types.integrations.custom_logger import AgenticLoopPlan, AgenticLoopRequestPatch

TOOL = "lookup"

Message = dict[str, Any]


class Lookup(CustomLogger):
    """Answers each call with what it asks for."""

    async def async_should_run_agentic_loop(
        self, response: Any, **_: Any
    ) -> tuple[bool, dict[str, Any]]:
        if isinstance(response, dict):
            blocks = response.get("content") or []
            calls = [b for b in blocks if b.get("type") == "tool_use" and b.get("name") == TOOL]
            return bool(calls), {"calls": calls, "is_chat": False}
        told = response.choices[0].message.tool_calls or []
        calls = [call.model_dump() for call in told if call.function.name == TOOL]
        return bool(calls), {"calls": calls, "is_chat": True}

    async def async_build_agentic_loop_plan(
        self, tools: dict[str, Any], messages: list[Message], **_: Any
    ) -> AgenticLoopPlan:
        answered = _chat(tools["calls"]) if tools["is_chat"] else _messages(tools["calls"])
        patch = AgenticLoopRequestPatch(messages=[*messages, *answered])
        return AgenticLoopPlan(run_agentic_loop=True, request_patch=patch)


def _messages(calls: list[dict[str, Any]]) -> list[Message]:
    results = [
        {"type": "tool_result", "tool_use_id": call["id"], "content": call["input"]["query"]}
        for call in calls
    ]
    return [{"role": "assistant", "content": calls}, {"role": "user", "content": results}]


def _chat(calls: list[dict[str, Any]]) -> list[Message]:
    results = [
        {
            "role": "tool",
            "tool_call_id": call["id"],
            "content": json.loads(call["function"]["arguments"])["query"],
        }
        for call in calls
    ]
    return [{"role": "assistant", "content": None, "tool_calls": calls}, *results]


lookup = Lookup()
