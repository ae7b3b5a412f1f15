"""The callback that searches the web for a model, by a function of the user's own.

A request that asks for its provider's own search, or for this one's by name, gets one tool in its
place; the model's calls of it are answered here, whoever the provider is.
"""

# ruff: noqa: ARG002, FBT001, PLR0913, PLR0917 - its methods are those of the base class

import copy
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, cast

from loops.blocks import Raw
from loops.errors import SetupError
from loops.guard import Raised, outcome_of_call
from loops.model import ModelPort, resolve_model
from loops.providers.deployment import DeployedModel
from loops.providers.told import listed

from .answering import (
    CHAT,
    ToolShape,
    answered,
    calls_of,
    is_chat,
    lifted_limit,
    member,
    name_of_tool,
)
from .custom_logger import AgenticLoopPlan, AgenticLoopRequestPatch, CustomLogger
from .native_search import is_native, is_search, native_blocks, without_native_blocks
from .searching import AnySearch, searched

NAME = "litellm_web_search"

SCHEMA: Raw = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "What to look for."}},
    "required": ["query"],
}

FAILED = "web_search_failed"
BLOCKS = "native_blocks"


class WebSearch(CustomLogger):
    """Answers a model's calls for a web search.

    Args:
        search: Takes a query, and gives dicts with `title`, `url` and `snippet`, or a text. What it
            raises is what the model is told.
        tool_name: What the tool is called.
        enabled_providers: The vendors whose models get the tool; all, where it is None.
        max_agentic_loops: How often a model may be asked again for one call that has the tool.
    """

    server_fulfilled_tool_names: ClassVar[frozenset[str]] = frozenset({NAME})

    def __init__(
        self,
        search: AnySearch,
        *,
        tool_name: str = NAME,
        enabled_providers: Sequence[str] | None = None,
        max_agentic_loops: int | None = None,
    ) -> None:
        if not callable(search):
            raise SetupError("WebSearch takes a function of a query, as WebSearch(my_search)")
        self._search = search
        self._name = tool_name
        self._providers = None if enabled_providers is None else frozenset(enabled_providers)
        self._loops = max_agentic_loops
        self._tool = ToolShape(tool_name, "Search the web. Returns what was found.", SCHEMA)
        # The class has the usual name for all; an instance may have another one.
        vars(self)["server_fulfilled_tool_names"] = frozenset({tool_name})

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str
    ) -> Any:
        """Return the request with the one tool in the place of its web searches."""
        tools = listed(data.get("tools"))
        searches = [each for each in tools if is_search(each, self._name)]
        messages = without_native_blocks(data.get("messages"))
        is_same = messages == listed(data.get("messages"))
        changed = data if is_same else {**data, "messages": messages}
        if not searches or not (self._providers is None or self._serves(_vendor_of(data))):
            return None if changed is data else changed
        changed = {**changed, "tools": self._with_tool(tools, chat=call_type in CHAT)}
        if "tool_choice" in data:
            replaced = {name_of_tool(each) for each in searches}
            changed["tool_choice"] = self._choice(data["tool_choice"], replaced)
        if self._loops is not None and not _has_limit(data):
            changed.setdefault("max_agentic_loops", self._loops)
        return changed

    async def async_should_run_agentic_loop(
        self,
        response: Any,
        model: str,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None,
        stream: bool,
        custom_llm_provider: str,
        kwargs: dict[str, Any],
    ) -> tuple[bool, dict[str, Any]]:
        """Take up the calls for a search."""
        is_meant = self._serves(custom_llm_provider) and self._name in map(
            name_of_tool, tools or []
        )
        calls = calls_of(response, self._name) if is_meant else []
        return bool(calls), {"tool_calls": calls} if calls else {}

    async def async_build_agentic_loop_plan(
        self,
        tools: dict[str, Any],
        model: str,
        messages: list[dict[str, Any]],
        response: Any,
        anthropic_messages_provider_config: Any,
        anthropic_messages_optional_request_params: dict[str, Any],
        logging_obj: Any,
        stream: bool,
        kwargs: dict[str, Any],
    ) -> AgenticLoopPlan:
        """Search for all calls at once, and have the model asked again."""
        limit = lifted_limit(anthropic_messages_optional_request_params)
        return await self._plan(tools["tool_calls"], messages, response, kwargs, limit)

    async def async_build_chat_completion_agentic_loop_plan(
        self,
        tools: dict[str, Any],
        model: str,
        messages: list[dict[str, Any]],
        response: Any,
        optional_params: dict[str, Any],
        logging_obj: Any,
        stream: bool,
        kwargs: dict[str, Any],
    ) -> AgenticLoopPlan:
        """Search for all calls at once, and have the model asked again."""
        limit = lifted_limit(optional_params)
        return await self._plan(tools["tool_calls"], messages, response, kwargs, limit)

    async def async_post_agentic_loop_response_hook(
        self, response: Any, plan: AgenticLoopPlan, kwargs: dict[str, Any]
    ) -> Any:
        """Show the searches to a caller who has asked for his provider's own."""
        blocks = plan.metadata.get(BLOCKS)
        if not blocks:
            return response
        whole = [*blocks, *listed(member(response, "content"))]
        if isinstance(response, Mapping):
            return {**cast("Mapping[str, Any]", response), "content": whole}
        changed = copy.copy(response)
        changed.content = whole
        return changed

    async def _plan(
        self,
        calls: Sequence[Mapping[str, Any]],
        messages: Sequence[Raw],
        response: object,
        kwargs: Mapping[str, Any],
        limit: int | None,
    ) -> AgenticLoopPlan:
        found = await searched(self._search, [member(each["input"], "query") for each in calls])
        metadata: dict[str, Any] = {}
        if _wants_native(kwargs):
            metadata = {BLOCKS: native_blocks(calls, found)}
            if all(each.error for each in found):
                return AgenticLoopPlan(terminate=True, stop_reason=FAILED, metadata=metadata)
        turns = answered(response, calls, [each.text for each in found], chat=is_chat(kwargs))
        patch = AgenticLoopRequestPatch(messages=[*messages, *turns], max_tokens=limit)
        return AgenticLoopPlan(run_agentic_loop=True, request_patch=patch, metadata=metadata)

    def _serves(self, vendor: str) -> bool:
        return self._providers is None or vendor in self._providers

    def _with_tool(self, tools: Sequence[Any], *, chat: bool) -> list[Any]:
        """Return the tools with ours in the place of the first search, and no other search."""
        places = [place for place, each in enumerate(tools) if is_search(each, self._name)]
        first = places[0]
        rest = [each for place, each in enumerate(tools) if place not in places]
        return [*rest[:first], self._tool.written(chat=chat), *rest[first:]]

    def _choice(self, choice: Any, replaced: set[str]) -> Any:
        """Return the choice of a tool; one that forces a search forces ours."""
        match choice:
            case {"type": "tool", "name": str(name)} if name in replaced:
                return {**choice, "name": self._name}
            case {"type": "function", "function": {"name": str(name)}} if name in replaced:
                return {"type": "function", "function": {"name": self._name}}
            case _:
                return choice


def _wants_native(kwargs: Mapping[str, Any]) -> bool:
    """Say whether the caller has asked for his provider's own search, and reads its blocks."""
    tools = member(member(kwargs.get("proxy_server_request"), "body"), "tools")
    return not is_chat(kwargs) and any(map(is_native, listed(tools)))


def _vendor_of(data: Mapping[str, Any]) -> str:
    """Return the vendor behind the name by which a model is asked for."""
    port = _port_of(data)
    return (str(data.get("model", "")) if port is None else port.name).partition("/")[0]


def _has_limit(data: Mapping[str, Any]) -> bool:
    """Say whether the model's configuration says itself how often it may be asked again."""
    port = _port_of(data)
    return isinstance(port, DeployedModel) and port.deployment.max_agentic_loops is not None


def _port_of(data: Mapping[str, Any]) -> ModelPort | None:
    port = outcome_of_call(partial(resolve_model, str(data.get("model", ""))))
    return None if isinstance(port, Raised) else port
