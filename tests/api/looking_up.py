"""Callbacks of the gateway's tests: each answers the calls of one tool."""

from typing import Any

from loops.callbacks import AgenticLoopPlan, AgenticLoopRequestPatch, CustomLogger


class LookUp(CustomLogger):
    """Finds whatever it is asked for."""

    def __init__(self, tool: str) -> None:
        self.tool = tool

    async def async_should_run_agentic_loop(
        self, response: Any, **more: Any
    ) -> tuple[bool, dict[str, Any]]:
        calls = [each for each in response.content if each.get("name") == self.tool]
        return bool(calls), {"calls": calls}

    async def async_build_agentic_loop_plan(
        self, tools: dict[str, Any], messages: list[dict[str, Any]], **more: Any
    ) -> AgenticLoopPlan:
        results = [
            {"type": "tool_result", "tool_use_id": each["id"], "content": "found"}
            for each in tools["calls"]
        ]
        turns = [
            {"role": "assistant", "content": [dict(each) for each in tools["calls"]]},
            {"role": "user", "content": results},
        ]
        patch = AgenticLoopRequestPatch(messages=[*messages, *turns])
        return AgenticLoopPlan(run_agentic_loop=True, request_patch=patch)


class Hidden(LookUp):
    """The same, for a tool that no caller is to see."""

    server_fulfilled_tool_names = frozenset({"hidden"})


look_up = LookUp("look_up")
hidden = Hidden("hidden")
