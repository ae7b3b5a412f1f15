"""A callback that answers the calls of one tool, as our gateway's documentation has it.

It is copied beside the configuration. One gate serves both protocols: a reply has its calls as
blocks in either.
"""

from __future__ import annotations

import json
from typing import Any

from loops.callbacks import AgenticLoopPlan, AgenticLoopRequestPatch, CustomLogger

TOOL = "lookup"


def _plan(messages: list[dict[str, Any]]) -> AgenticLoopPlan:
    patch = AgenticLoopRequestPatch(messages=messages)
    return AgenticLoopPlan(run_agentic_loop=True, request_patch=patch)


class Lookup(CustomLogger):
    """Answers each call with what it asks for."""

    async def async_should_run_agentic_loop(
        self, response: Any, **_: Any
    ) -> tuple[bool, dict[str, Any]]:
        calls = [
            block
            for block in response.content or []
            if block.get("type") == "tool_use" and block.get("name") == TOOL
        ]
        return bool(calls), {"calls": calls}

    async def async_build_agentic_loop_plan(
        self, tools: dict[str, Any], messages: list[dict[str, Any]], **_: Any
    ) -> AgenticLoopPlan:
        calls = tools["calls"]
        results = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": call["input"]["query"]}
            for call in calls
        ]
        said = {"role": "assistant", "content": calls}
        return _plan([*messages, said, {"role": "user", "content": results}])

    async def async_build_chat_completion_agentic_loop_plan(
        self, tools: dict[str, Any], messages: list[dict[str, Any]], **_: Any
    ) -> AgenticLoopPlan:
        calls = tools["calls"]
        said = {"role": "assistant", "content": None, "tool_calls": [_call(each) for each in calls]}
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": call["input"]["query"]}
            for call in calls
        ]
        return _plan([*messages, said, *results])


def _call(block: dict[str, Any]) -> dict[str, Any]:
    told = {"name": block["name"], "arguments": json.dumps(block["input"])}
    return {"id": block["id"], "type": "function", "function": told}


lookup = Lookup()
