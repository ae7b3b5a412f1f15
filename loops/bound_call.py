"""A model's call together with the tool that answers it, ready to be scheduled."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from .approval import approved
from .errors import InvalidArguments
from .events import ToolCallResult
from .messages import ToolCall, ToolResult
from .runtime import Runtime
from .tools import Tool, arguments_of


class BoundToolCall:
    """A call that is carried out when it is called; what the tool raises is its result.

    The tool is None when the agent has none of the call's name: that is an error result, too.
    """

    def __init__(self, call: ToolCall, tool: Tool | None, runtime: Callable[[], Runtime]) -> None:
        self.call = call
        self.tool = tool
        self._runtime = runtime

    @property
    def id(self) -> str:
        """The provider's id of the call, or our own where the provider gave none."""
        return self.call.id or self.call.key

    @property
    def name(self) -> str:
        """The name of the tool, as the model wrote it."""
        return self.call.name

    @property
    def kwargs(self) -> dict[str, Any]:
        """The arguments, each as the tool's type hint says.

        Raises:
            InvalidArguments: When they do not fit the tool.
        """
        if self.tool is None:
            return self.call.parsed()
        return self.tool.validated(self.call.arguments)

    async def __call__(self, **overrides: Any) -> ToolCallResult:
        """Carry the call out, with some arguments replaced, once it is granted if it has to be.

        Raises:
            InvalidArguments: When the overrides do not fit, for they are the program's own.
        """
        if overrides and self.tool is not None:
            self.tool.validated({**self._given(), **overrides})
        return ToolCallResult.of(await self._result(overrides or None), turn=self.call.number)

    async def _result(self, overrides: Mapping[str, Any] | None) -> ToolResult:
        runtime = self._runtime()
        known = runtime.known(self.call)
        if known is not None:
            return known
        if self.tool is None or not self.tool.require_approval:
            return await runtime.call(self.call, self.tool, overrides)
        # What a person grants is what is carried out, so it is put together before.
        call = replace(self.call, arguments=arguments_of(self.call, overrides))
        granted = await approved(call, self.tool, runtime)
        return (
            granted if isinstance(granted, ToolResult) else await runtime.call(granted, self.tool)
        )

    def _given(self) -> dict[str, Any]:
        try:
            return self.call.parsed()
        except InvalidArguments:
            return {}
