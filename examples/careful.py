"""The loop of `ai.Agent`, written out, as a place to start from.

Each tool starts as soon as the model has written its call. Nothing in it is private.
"""

from collections.abc import AsyncGenerator

import loops as ai


class Careful(ai.Agent):
    """Decides what `ai.Agent` decides."""

    async def loop(self, context: ai.Context) -> AsyncGenerator[ai.AgentEvent]:
        """Ask and call, until the model has nothing to call."""
        while context.keep_running():
            async with ai.stream(context=context) as reply, ai.ToolRunner() as runner:
                async for event in ai.util.merge(reply, runner.events()):
                    yield event  # noqa: ASYNC119 - whoever runs a loop closes it
                    if isinstance(event, ai.events.ToolEnd):
                        runner.schedule(context.resolve(event.tool_call))
                context.add(reply.message)
                context.add(runner.get_tool_message())


app = ai.App({"careful": Careful(model=ai.scripted("I am careful."))})
