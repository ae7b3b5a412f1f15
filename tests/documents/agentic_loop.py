"""The document on the agentic-loop hook: its blocks as modules and files, import lines replaced."""

from typing import Any

from loops.callbacks import AgenticLoopPlan, CustomLogger
from tests.documents.blocks import blocks_in, module_of, python_blocks, with_imports

DOCUMENT = "000_7adf2ed19db1d0b8.txt"
IMPORTS = "from loops.callbacks import AgenticLoopPlan, AgenticLoopRequestPatch, CustomLogger\n"
REGISTERING = "import loops.callbacks as litellm\n"

MY_TOOL = "my_tool"
"""The tool of the document's callback."""

CHAT_VARIANT = '''
import json


class MyChatCallback(MyToolCallback):
    async def async_build_chat_completion_agentic_loop_plan(
        self, tools, model, messages, response, optional_params, logging_obj, stream, kwargs
    ):
        """Do the same in the words of the other protocol."""
        calls = tools["tool_calls"]
        asked = [
            {"id": c["id"], "type": "function",
             "function": {"name": c["name"], "arguments": json.dumps(c["input"])}}
            for c in calls
        ]
        answers = [
            {"role": "tool", "tool_call_id": c["id"], "content": f"result for {c['input']}"}
            for c in calls
        ]
        told = {"role": "assistant", "content": None, "tool_calls": asked}
        patch = AgenticLoopRequestPatch(messages=[*messages, told, *answers])
        return AgenticLoopPlan(run_agentic_loop=True, request_patch=patch)
'''
"""What the document describes for chat completions in a sentence."""


def class_block() -> str:
    """The document's class, as a module has it."""
    return with_imports(python_blocks(DOCUMENT)[0], IMPORTS)


def registration_block() -> str:
    """The lines that register an instance from a program."""
    return with_imports(python_blocks(DOCUMENT)[1], REGISTERING)


def instance_block() -> str:
    """The line that a module has after the class, for a configuration to name."""
    return python_blocks(DOCUMENT)[2]


def configuration_block() -> str:
    """The section of the configuration that names the instance."""
    (block,) = blocks_in(DOCUMENT, "yaml")
    return block


def chat_source() -> str:
    """The document's class, and the one that is derived from it."""
    return f"{class_block()}\n{CHAT_VARIANT}"


def document_callback() -> Any:
    """An instance of the document's class, made by the line of the document."""
    return module_of(f"{class_block()}\n{instance_block()}", "my_module").my_tool_callback


def chat_callback() -> Any:
    """A callback of the document's gate and, instead of its builder, of the chat's."""
    module = module_of(chat_source(), "chat_module")
    gate, builder = (
        "async_should_run_agentic_loop",
        "async_build_chat_completion_agentic_loop_plan",
    )
    members = {
        gate: getattr(module.MyToolCallback, gate),
        builder: getattr(module.MyChatCallback, builder),
    }
    return type("Instead", (CustomLogger,), members)()


def planning(plan: AgenticLoopPlan, **more: Any) -> Any:
    """An instance of the document's class that answers with this plan, once.

    Args:
        plan: What it wants done in the first round; later ones are the document's.
        more: Other methods of the class.
    """
    base = type(document_callback())

    async def build(self: Any, tools: Any, kwargs: Any, **others: Any) -> AgenticLoopPlan:
        if kwargs["_agentic_loop_depth"]:
            built: AgenticLoopPlan = await base.async_build_agentic_loop_plan(
                self, tools=tools, kwargs=kwargs, **others
            )
            return built
        return plan

    return type("Planning", (base,), {"async_build_agentic_loop_plan": build, **more})()
