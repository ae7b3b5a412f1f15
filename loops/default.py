"""The default loop: every agent that does not bring its own decides like this."""

from collections.abc import AsyncGenerator

from .context import Context
from .events import AgentEvent, ToolEnd
from .stream import stream
from .tool_runner import ToolRunner
from .util import merge


async def default_loop(context: Context) -> AsyncGenerator[AgentEvent]:
    """Ask the model and answer its calls until it calls no more."""
    while context.keep_running():
        async with stream(context=context) as reply, ToolRunner() as runner:
            async for event in merge(reply, runner.events()):
                yield event  # noqa: ASYNC119 - whoever runs a loop closes it
                if isinstance(event, ToolEnd):
                    runner.schedule(context.resolve(event.tool_call))
            context.add(reply.message)
            context.add(runner.get_tool_message())
