"""A model's call together with the tool that answers it, ready to be scheduled."""

from collections.abc import Callable
from typing import Any

from .errors import InvalidArguments
from .events import ToolCallResult
from .messages import ToolCall
from .runtime import Runtime
from .tools import Tool


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
        """Carry the call out, with some arguments replaced.

        Raises:
            InvalidArguments: When the overrides do not fit, for they are the program's own.
        """
        if overrides and self.tool is not None:
            self.tool.validated({**self._given(), **overrides})
        result = await self._runtime().call(self.call, self.tool, overrides or None)
        return ToolCallResult.of(result, turn=self.call.number)

    def _given(self) -> dict[str, Any]:
        try:
            return self.call.parsed()
        except InvalidArguments:
            return {}
