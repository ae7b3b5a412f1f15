"""A callback of the original library, asked by our gateway; runs where that library is installed.

It prints what callers of both protocols got, as JSON.
"""

import asyncio
import json
import sys

from litellm.integrations.custom_logger import CustomLogger
from litellm.types.integrations.custom_logger import AgenticLoopPlan, AgenticLoopRequestPatch

from loops.callbacks import acompletion, amessages
from loops.providers.scripted import call, scripted, text

SAID = [{"role": "user", "content": "Look it up."}]


class Lookup(CustomLogger):
    """Answers the calls of one tool."""

    async def async_should_run_agentic_loop(
        self, response, model, messages, tools, stream, custom_llm_provider, kwargs
    ):
        calls = [each for each in response.content if each.get("type") == "tool_use"]
        return bool(calls), {"tool_calls": calls}

    async def async_build_agentic_loop_plan(self, tools, messages, **_):
        calls = tools["tool_calls"]
        results = [
            {"type": "tool_result", "tool_use_id": each["id"], "content": "42"} for each in calls
        ]
        said = [{"role": "assistant", "content": calls}, {"role": "user", "content": results}]
        patch = AgenticLoopRequestPatch(messages=messages + said)
        return AgenticLoopPlan(run_agentic_loop=True, request_patch=patch)


def model():
    def reply(messages):
        has_result = "tool_result" in json.dumps(messages)
        return text("It is 42.") if has_result else call("lookup", word="it")

    return scripted(reply)


async def main():
    message = await amessages(model=model(), messages=SAID, max_tokens=99, callbacks=[Lookup()])
    completion = await acompletion(model=model(), messages=SAID, callbacks=[Lookup()])
    told = [message.content[0].text, completion.choices[0].message.content]
    sys.stdout.write(f"{json.dumps(told)}\n")


asyncio.run(main())
