"""The document's callback in the gateway, which is asked by the providers' own packages.

Each test runs over both endpoints' packages or both models: the provider behind the one speaks
Anthropic's Messages, the one behind the other OpenAI's Chat Completions.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import closing
from typing import Any

import anthropic
import openai
import orjson
import pytest

from tests.documents.agentic_loop import (
    MY_TOOL,
    chat_source,
    class_block,
    configuration_block,
    instance_block,
    registration_block,
)
from tests.fleet import ROOT, Fleet
from tests.gateway.served import (
    CONFIGURATION,
    MODELS,
    SHAPE,
    Served,
    calls_again,
    calls_each_tool,
    served,
)
from tests.gateway.upstream import fails, says
from worker.embedded import Server

pytestmark = pytest.mark.documents

CHAT_TOOL, APP_TOOL, CLIENT_TOOL = "my_chat_tool", "my_app_tool", "client_tool"

COUNTING = '''
import json
from pathlib import Path

from loops.callbacks import CustomLogger


class Counting(CustomLogger):
    async def async_should_run_agentic_loop(self, model, messages, stream, kwargs, **more):
        """Write down that it was asked."""
        with Path(__file__).with_name("asked.jsonl").open("a") as file:
            surface = kwargs["_agentic_loop_api_surface"]
            told = {"surface": surface, "depth": kwargs["_agentic_loop_depth"], "stream": stream}
            file.write(json.dumps(told) + "\\n")
        return False, {}


counting = Counting()
'''

AN_APP = """
import loops as ai

app = ai.App({"silent": ai.Agent(model=ai.scripted("."))})
"""


def files() -> dict[str, str]:
    """What lies beside the configuration, and itself: its first lines are the document's.

    The tool's name is a variable of the module, so that each callback takes up one of its own.
    """
    chat = f"MY_TOOL = {CHAT_TOOL!r}\nchat_callback = MyChatCallback()\n"
    more = "callbacks: [counting_module.counting, chat_module.chat_callback]\n"
    return {
        "my_module.py": f"{class_block()}\n{instance_block()}",
        "chat_module.py": f"{chat_source()}\n{chat}",
        "my_app.py": f"{class_block()}\nMY_TOOL = {APP_TOOL!r}\n{registration_block()}{AN_APP}",
        "counting_module.py": COUNTING,
        CONFIGURATION: f"{configuration_block()}\n{more}",
    }


ASKED = [{"role": "user", "content": "look x up"}]
ANSWER, BOTH = "found it", ("let me look", "found it")

models = pytest.mark.parametrize("model", ["claude", "gpt"])
modes = pytest.mark.parametrize("mode", ["compatible", "merged", "hold"])
helped = pytest.mark.parametrize("mode", ["merged", "hold"])
callbacks = pytest.mark.parametrize("tool", [MY_TOOL, CHAT_TOOL, APP_TOOL])


@pytest.fixture(scope="module")
def gateway(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("gateway")
    with served(server.url, folder, files(), app="my_app:app") as gateway:
        yield gateway


@pytest.fixture(autouse=True)
def forgotten(gateway: Served) -> None:
    """What was asked before is no matter of this test."""
    gateway.up.script = calls_each_tool
    gateway.up.asked.clear()
    (gateway.folder / "asked.jsonl").write_text("")


def gates(gateway: Served) -> list[dict[str, Any]]:
    """How the counting callback was asked."""
    lines = (gateway.folder / "asked.jsonl").read_text().splitlines()
    return [orjson.loads(line) for line in lines]


Anthropic = Callable[[str], anthropic.AsyncAnthropic]
OpenAI = Callable[[str], openai.AsyncOpenAI]


@pytest.fixture
async def messages(gateway: Served) -> AsyncIterator[Anthropic]:
    """Makes a client of one package that asks in a mode."""
    made: list[anthropic.AsyncAnthropic] = []

    def client(mode: str) -> anthropic.AsyncAnthropic:
        headers = {"x-loopmill-streaming": mode}
        made.append(
            anthropic.AsyncAnthropic(
                base_url=gateway.url, api_key="mine", default_headers=headers, max_retries=0
            )
        )
        return made[-1]

    yield client
    for each in made:
        await each.close()


@pytest.fixture
async def chat(gateway: Served) -> AsyncIterator[OpenAI]:
    """Makes a client of the other package."""
    made: list[openai.AsyncOpenAI] = []

    def client(mode: str) -> openai.AsyncOpenAI:
        headers = {"x-loopmill-streaming": mode}
        url = f"{gateway.url}/v1"
        made.append(
            openai.AsyncOpenAI(base_url=url, api_key="mine", default_headers=headers, max_retries=0)
        )
        return made[-1]

    yield client
    for each in made:
        await each.close()


def message(model: str, *tools: str) -> Any:
    listed = [{"name": name, "input_schema": SHAPE} for name in tools]
    return {"model": model, "max_tokens": 100, "messages": ASKED, "tools": listed}


def completion(model: str, *tools: str) -> Any:
    functions = [{"name": name, "parameters": SHAPE} for name in tools]
    listed = [{"type": "function", "function": each} for each in functions]
    return {"model": model, "messages": ASKED, "tools": listed}


def streamed(model: str, *tools: str) -> Any:
    return {**completion(model, *tools), "stream_options": {"include_usage": True}}


def kinds(content: Any) -> list[str]:
    return [block.type for block in content]


async def all_of(asking: Awaitable[Any]) -> list[Any]:
    """Everything that a stream has."""
    return [each async for each in await asking]


# -- plain


@models
@callbacks
async def test_a_message_is_the_answer_after_the_call(
    gateway: Served, messages: Anthropic, model: str, tool: str
) -> None:
    answer = await messages("compatible").messages.create(**message(model, tool))

    assert [block.to_dict() for block in answer.content] == [{"type": "text", "text": ANSWER}]
    assert answer.stop_reason == "end_turn"
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (20, 10)
    first, second = gateway.up.requests
    assert "result for {'q': 'x'}" in str(second.body["messages"][-1])
    assert len(second.body["messages"]) == len(first.body["messages"]) + 2


@models
@callbacks
async def test_a_completion_is_the_answer_after_the_call(
    gateway: Served, chat: OpenAI, model: str, tool: str
) -> None:
    answer = await chat("compatible").chat.completions.create(**completion(model, tool))

    [choice] = answer.choices
    assert (choice.message.content, choice.message.tool_calls) == (ANSWER, None)
    assert choice.finish_reason == "stop"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (20, 10)
    assert len(gateway.up.requests) == 2
    assert "result for {'q': 'x'}" in str(gateway.up.requests[1].body["messages"][-1])


@models
async def test_a_call_of_the_clients_own_tool_is_left_to_it(
    messages: Anthropic, chat: OpenAI, model: str
) -> None:
    told = await messages("compatible").messages.create(**message(model, CLIENT_TOOL))
    said = await chat("compatible").chat.completions.create(**completion(model, CLIENT_TOOL))

    assert (kinds(told.content), told.stop_reason) == (["text", "tool_use"], "tool_use")
    assert said.choices[0].finish_reason == "tool_calls"
    assert [each.function.name for each in said.choices[0].message.tool_calls or []] == [
        CLIENT_TOOL
    ]


# -- raw streams of messages


@models
async def test_a_compatible_stream_is_two_messages(messages: Anthropic, model: str) -> None:
    events = await all_of(
        messages("compatible").messages.create(**message(model, MY_TOOL), stream=True)
    )

    named = [event.type for event in events]
    assert (named.count("message_start"), named.count("message_stop")) == (2, 2)
    blocks = [event.content_block.type for event in events if event.type == "content_block_start"]
    assert blocks == ["text", "tool_use", "text"]
    reasons = [event.delta.stop_reason for event in events if event.type == "message_delta"]
    assert reasons == ["tool_use", "end_turn"]


@models
@helped
async def test_any_other_stream_is_one_message(messages: Anthropic, model: str, mode: str) -> None:
    asked = message(model, MY_TOOL)

    events = await all_of(messages(mode).messages.create(**asked, stream=True))

    named = [event.type for event in events]
    assert (named.count("message_start"), named.count("message_stop")) == (1, 1)
    begun = [event for event in events if event.type == "content_block_start"]
    assert {event.content_block.type for event in begun} == {"text"}
    assert [event.index for event in begun] == ([0, 1] if mode == "merged" else [0])
    text = [event.delta.text for event in events if event.type == "content_block_delta"]
    assert "".join(text) == ("".join(BOTH) if mode == "merged" else ANSWER)


# -- raw streams of completions


def folded(chunks: list[Any]) -> tuple[str, list[str], list[str | None]]:
    """The text, the names of calls, and why it ended."""
    choices = [choice for chunk in chunks for choice in chunk.choices]
    text = "".join(choice.delta.content or "" for choice in choices)
    calls = [call for choice in choices for call in choice.delta.tool_calls or []]
    names = [call.function.name for call in calls if call.function.name]
    return text, names, [each.finish_reason for each in choices if each.finish_reason]


@models
async def test_a_compatible_stream_of_a_completion_asks_no_callback(
    gateway: Served, chat: OpenAI, model: str
) -> None:
    asking = chat("compatible").chat.completions

    chunks = await all_of(asking.create(**streamed(model, CHAT_TOOL), stream=True))

    assert folded(chunks) == ("let me look", [CHAT_TOOL], ["tool_calls"])
    assert gates(gateway) == []
    assert len(gateway.up.requests) == 1


@models
@helped
@callbacks
async def test_any_other_stream_of_a_completion_is_one(
    gateway: Served, chat: OpenAI, model: str, mode: str, tool: str
) -> None:
    asking = chat(mode).chat.completions

    chunks = await all_of(asking.create(**streamed(model, tool), stream=True))

    text = "\n\n".join(BOTH) if mode == "merged" else ANSWER
    assert folded(chunks) == (text, [], ["stop"])
    assert len({chunk.id for chunk in chunks}) == 1
    usages = [chunk.usage for chunk in chunks if chunk.usage]
    assert [(each.prompt_tokens, each.completion_tokens) for each in usages] == [(20, 10)]
    assert gates(gateway)[-1]["depth"] == 1
    assert {each["surface"] for each in gates(gateway)} == {"chat_completions"}


# -- the packages' own helpers


@models
@helped
async def test_the_messages_helper_gives_the_final_message(
    messages: Anthropic, model: str, mode: str
) -> None:
    async with messages(mode).messages.stream(**message(model, MY_TOOL)) as stream:
        shown = "".join([text async for text in stream.text_stream])
        final = await stream.get_final_message()

    told = [block.text for block in final.content if block.type == "text"]
    assert told == (list(BOTH) if mode == "merged" else [ANSWER])
    assert (shown, kinds(final.content)) == ("".join(told), ["text"] * len(told))
    assert final.stop_reason == "end_turn"
    assert (final.usage.input_tokens, final.usage.output_tokens) == (20, 10)


@models
@helped
async def test_the_completions_helper_gives_the_final_completion(
    chat: OpenAI, model: str, mode: str
) -> None:
    async with chat(mode).chat.completions.stream(**streamed(model, CHAT_TOOL)) as stream:
        events = [event.type async for event in stream]
        final = await stream.get_final_completion()

    [choice] = final.choices
    assert choice.message.content == ("\n\n".join(BOTH) if mode == "merged" else ANSWER)
    assert (choice.message.tool_calls, choice.finish_reason) == (None, "stop")
    assert final.usage is not None
    assert (final.usage.prompt_tokens, final.usage.completion_tokens) == (20, 10)
    assert not [each for each in events if each.startswith("tool_calls")]


@models
@helped
async def test_the_helpers_keep_a_call_of_the_clients_own(
    messages: Anthropic, chat: OpenAI, model: str, mode: str
) -> None:
    tools = (MY_TOOL, CLIENT_TOOL)
    async with messages(mode).messages.stream(**message(model, *tools)) as told:
        final = await told.get_final_message()
    async with chat(mode).chat.completions.stream(**streamed(model, *tools)) as said:
        [choice] = (await said.get_final_completion()).choices

    calls = [block for block in final.content if block.type == "tool_use"]
    assert [(call.name, call.input) for call in calls] == [(CLIENT_TOOL, {"q": "x"})]
    assert final.stop_reason == "tool_use"
    functions = [each.function for each in choice.message.tool_calls or []]
    assert [each.name for each in functions] == [CLIENT_TOOL]
    assert orjson.loads(functions[0].arguments) == {"q": "x"}
    assert choice.finish_reason == "tool_calls"


def test_the_helpers_that_block_work_as_well(gateway: Served) -> None:
    told = {"api_key": "mine", "default_headers": {"x-loopmill-streaming": "hold"}}
    one: Any = anthropic.Anthropic(base_url=gateway.url, **told)
    other: Any = openai.OpenAI(base_url=f"{gateway.url}/v1", **told)

    with one, one.messages.stream(**message("claude", MY_TOOL)) as stream:
        text = stream.get_final_text()
    with other, other.chat.completions.stream(**streamed("gpt", CHAT_TOOL)) as stream:
        [choice] = stream.get_final_completion().choices

    assert (text, choice.message.content) == (ANSWER, ANSWER)


# -- loop safety


@models
@helped
async def test_the_helpers_see_no_call_where_the_loop_is_refused(
    gateway: Served, messages: Anthropic, chat: OpenAI, model: str, mode: str
) -> None:
    gateway.up.script = calls_again
    async with messages(mode).messages.stream(**message(model, MY_TOOL)) as told:
        final = await told.get_final_message()
    async with chat(mode).chat.completions.stream(**streamed(model, CHAT_TOOL)) as said:
        [choice] = (await said.get_final_completion()).choices

    rounds = range(4) if mode == "merged" else range(3, 4)
    assert [getattr(block, "text", "") for block in final.content] == [f"look {n}" for n in rounds]
    assert choice.message.content == "\n\n".join(f"look {n}" for n in rounds)
    assert (final.stop_reason, choice.finish_reason) == ("end_turn", "stop")
    assert (final.usage.input_tokens, choice.message.tool_calls) == (40, None)
    assert len(gateway.up.requests) == 8


@models
async def test_a_refused_call_is_not_the_last_of_a_compatible_stream(
    gateway: Served, messages: Anthropic, model: str
) -> None:
    gateway.up.script = calls_again
    asked = message(model, MY_TOOL)

    events = await all_of(messages("compatible").messages.create(**asked, stream=True))

    reasons = [event.delta.stop_reason for event in events if event.type == "message_delta"]
    assert reasons == ["tool_use"] * 4 + ["end_turn"]


@models
async def test_a_client_does_not_set_the_limit(
    gateway: Served, messages: Anthropic, model: str
) -> None:
    gateway.up.script = calls_again
    theirs = {"max_agentic_loops": 1, "_agentic_loop_depth": 2}

    await messages("compatible").messages.create(**message(model, MY_TOOL), extra_body=theirs)

    assert len(gateway.up.requests) == 4
    assert [each["depth"] for each in gates(gateway)][:4] == [0, 1, 2, 3]


# -- failures


@models
async def test_a_refusal_is_the_packages_own_error(
    gateway: Served, messages: Anthropic, chat: OpenAI, model: str
) -> None:
    gateway.up.script = lambda _: fails(400, "invalid_request_error", "too much of it")

    with pytest.raises(anthropic.BadRequestError, match="too much of it"):
        await messages("merged").messages.create(**message(model, MY_TOOL))
    with pytest.raises(openai.BadRequestError, match="too much of it"):
        await chat("merged").chat.completions.create(**completion(model, CHAT_TOOL))
    with pytest.raises(anthropic.NotFoundError, match="nobody"):
        await messages("merged").messages.create(**message("nobody", MY_TOOL))


@models
@modes
async def test_a_stream_that_breaks_off_is_the_packages_own_error(
    gateway: Served, messages: Anthropic, chat: OpenAI, model: str, mode: str
) -> None:
    gateway.up.script = lambda _: says("let me look it up for you", cut_after=5)

    with pytest.raises(anthropic.APIError):
        await all_of(messages(mode).messages.create(**message(model, MY_TOOL), stream=True))
    with pytest.raises(openai.APIError):
        await all_of(chat(mode).chat.completions.create(**streamed(model, CHAT_TOOL), stream=True))

    assert gates(gateway) == [], "half a reply is shown to no callback"


# -- the start


def test_a_path_of_the_class_fails_the_start(
    server: Server, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("class")
    (folder / "my_module.py").write_text(files()["my_module.py"])
    block = configuration_block().replace("my_module.my_tool_callback", "my_module.MyToolCallback")
    (folder / CONFIGURATION).write_text(MODELS.format(url="http://127.0.0.1:9") + block)
    environment = {
        "LOOPMILL_CONFIG": str(folder / CONFIGURATION),
        "PYTHONPATH": f"{ROOT}:{folder}",
    }

    with closing(Fleet(server.url, app="examples.hello:app", environment=environment)) as fleet:
        members = [fleet.start("api", "api", "--port", "0"), fleet.start("worker", "runs")]
        codes = [member.process.wait(timeout=20) for member in members]
        assert all(member.ready.wait(5) for member in members)

    assert 0 not in codes
    for member in members:
        assert "'my_module.MyToolCallback' is the class MyToolCallback" in member.told()
        assert "my_tool_callback" in member.told()
