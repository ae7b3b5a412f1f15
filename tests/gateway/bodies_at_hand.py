"""Requests and replies of both surfaces, as the methods of a callback are given them by hand."""

import json
from typing import Any

MESSAGES = "anthropic_messages"
CHAT = "chat_completions"


def kwargs(surface: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return what a method finds in its `kwargs`."""
    return {
        "litellm_call_id": "run_1",
        "litellm_metadata": {},
        "_agentic_loop_api_surface": surface,
        "_agentic_loop_depth": 0,
        "max_agentic_loops": 3,
        "_agentic_loop_fingerprints": [],
        "custom_llm_provider": "anthropic",
        "model_info": {},
        "proxy_server_request": {"body": body or {}, "headers": {}},
    }


def use(name: str, arguments: dict[str, Any], own: str = "toolu_1") -> dict[str, Any]:
    """Return a call in the shape of Messages."""
    return {"type": "tool_use", "id": own, "name": name, "input": arguments}


def message(*blocks: dict[str, Any]) -> dict[str, Any]:
    """Return a reply in the shape of Messages."""
    return {"id": "msg_1", "role": "assistant", "content": [*blocks], "stop_reason": "tool_use"}


def completion(*calls: dict[str, Any], text: str | None = None) -> dict[str, Any]:
    """Return a reply of a chat completion with the calls."""
    told = [
        {
            "id": each["id"],
            "type": "function",
            "function": {"name": each["name"], "arguments": json.dumps(each["input"])},
        }
        for each in calls
    ]
    said = {"role": "assistant", "content": text, "tool_calls": told}
    return {"id": "chatcmpl_1", "choices": [{"index": 0, "message": said}]}


async def gate(callback: Any, response: Any, tools: list[Any], **others: Any) -> Any:
    """Return what the generic gate says."""
    told = {"model": "x", "messages": [], "stream": False, "custom_llm_provider": "anthropic"}
    told = {**told, "kwargs": kwargs(MESSAGES), **others}
    return await callback.async_should_run_agentic_loop(response=response, tools=tools, **told)


async def plan(
    callback: Any,
    response: Any,
    calls: list[Any],
    told: dict[str, Any],
    params: dict[str, Any] | None = None,
) -> Any:
    """Return what the builder of the surface plans; the history before it is one question."""
    common = {
        "tools": {"tool_calls": calls},
        "model": "x",
        "messages": [{"role": "user", "content": "hi"}],
        "response": response,
        "logging_obj": None,
        "stream": False,
        "kwargs": told,
    }
    if told["_agentic_loop_api_surface"] == CHAT:
        return await callback.async_build_chat_completion_agentic_loop_plan(
            optional_params=params or {}, **common
        )
    return await callback.async_build_agentic_loop_plan(
        anthropic_messages_provider_config=None,
        anthropic_messages_optional_request_params=params or {},
        **common,
    )


async def admitted(callback: Any, data: dict[str, Any], call_type: str = MESSAGES) -> Any:
    """Return the request as the callback lets it pass; the same where it changes nothing."""
    given = await callback.async_pre_call_hook(
        user_api_key_dict=None, cache=None, data=data, call_type=call_type
    )
    return data if given is None else given
