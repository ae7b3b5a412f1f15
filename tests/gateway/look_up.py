"""A callback that a configuration names: it answers the calls of one tool, on either endpoint."""

from typing import Any

from loops.callbacks import AgenticLoopPlan, AgenticLoopRequestPatch, CustomLogger

TOOL = "look_up"


class LookUp(CustomLogger):
    """Finds whatever is looked up."""

    async def async_should_run_agentic_loop(
        self, response: Any, **told: Any
    ) -> tuple[bool, dict[str, Any]]:
        """Take up the calls of the tool."""
        calls = [block for block in response.content if block.get("name") == TOOL]
        return bool(calls), {"calls": calls}

    async def async_build_agentic_loop_plan(
        self, tools: dict[str, Any], messages: list[dict[str, Any]], **told: Any
    ) -> AgenticLoopPlan:
        """Say what was found, in the words of Messages."""
        results = [
            {"type": "tool_result", "tool_use_id": each["id"], "content": "found"}
            for each in tools["calls"]
        ]
        asked = {"role": "assistant", "content": [dict(each) for each in tools["calls"]]}
        return _again([*messages, asked, {"role": "user", "content": results}])

    async def async_build_chat_completion_agentic_loop_plan(
        self, response: Any, messages: list[dict[str, Any]], **told: Any
    ) -> AgenticLoopPlan:
        """Say it in the words of Chat Completions."""
        calls = [
            call
            for call in response.choices[0].message.tool_calls
            if call["function"]["name"] == TOOL
        ]
        asked = {"role": "assistant", "content": None, "tool_calls": calls}
        results = [
            {"role": "tool", "tool_call_id": each["id"], "content": "found"} for each in calls
        ]
        return _again([*messages, asked, *results])


def _again(messages: list[dict[str, Any]]) -> AgenticLoopPlan:
    patch = AgenticLoopRequestPatch(messages=messages)
    return AgenticLoopPlan(run_agentic_loop=True, request_patch=patch)


look_up = LookUp()
