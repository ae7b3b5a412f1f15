"""The methods of callbacks: when they are called, with what, and what becomes of what they give."""

import asyncio
import logging
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from loops.callbacks import AgenticLoopPlan, CustomLogger, amessages
from loops.gateway.rounds import Mode, Surface
from loops.gateway.settings import GatewaySettings
from loops.providers.anthropic import AnthropicModel
from tests.gateway.rounds_in_process import (
    ASKS,
    CHAT,
    FOUND,
    KEY,
    MESSAGES,
    OURS,
    SURFACES,
    TWO,
    WATCHED,
    Came,
    Raw,
    answering,
    ask,
    builder,
    callback,
    calls_of,
    gate,
    gives,
    hearing,
    planning,
    raises,
)
from tests.gateway.upstream import fails, in_turn, says, upstream

GATE_TOLD = {
    *("response", "model", "messages", "tools", "stream", "custom_llm_provider", "kwargs"),
}
BUILDER_TOLD = {
    *("tools", "model", "messages", "response", "anthropic_messages_provider_config"),
    *("anthropic_messages_optional_request_params", "logging_obj", "stream", "kwargs"),
}
CHAT_TOLD = {
    *("tools", "model", "messages", "response", "optional_params", "logging_obj"),
    *("stream", "kwargs"),
}

GATE, CHAT_GATE = "async_should_run_agentic_loop", "async_should_run_chat_completion_agentic_loop"
BUILDER = "async_build_agentic_loop_plan"
CHAT_BUILDER = "async_build_chat_completion_agentic_loop_plan"
LEGACY, CHAT_LEGACY = "async_run_agentic_loop", "async_run_chat_completion_agentic_loop"
POST, CLEANUP = "async_post_agentic_loop_response_hook", "async_agentic_loop_cleanup_hook"


def all_of(told: Raw) -> Raw:
    return told


async def told_to(method: str, work: Any, *, surface: Surface, **more: Any) -> tuple[Raw, Came]:
    """Return the arguments of the method's first call, and what came of the call."""
    heard: list[Raw] = []
    own = {GATE: gate, BUILDER: builder, method: hearing(heard, all_of, work)}
    came = await ask(TWO, callback(**own), surface=surface, **more)
    return heard[0], came


@pytest.mark.parametrize("protocol", SURFACES)
@pytest.mark.parametrize("surface", SURFACES)
async def test_a_call_is_answered_whatever_the_caller_and_the_provider_speak(
    surface: Surface, protocol: Surface
):
    came = await ask(TWO, answering(), surface=surface, protocol=protocol)

    assert came.error is None
    assert (came.content, came.reason) == ([("text", "found it")], "end_turn")
    assert len(came.sent) == 2
    assert "42" in str(came.sent[1]["messages"][-1])


@pytest.mark.parametrize(
    ("method", "work", "surface", "named"),
    [
        (GATE, gate, MESSAGES, GATE_TOLD),
        (GATE, gate, CHAT, GATE_TOLD),
        (CHAT_GATE, gate, CHAT, GATE_TOLD),
        (BUILDER, builder, MESSAGES, BUILDER_TOLD),
        (BUILDER, builder, CHAT, BUILDER_TOLD),
        (CHAT_BUILDER, builder, CHAT, CHAT_TOLD),
        (POST, gives(None), MESSAGES, {"response", "plan", "kwargs"}),
        (CLEANUP, gives(None), CHAT, {"plan", "kwargs"}),
    ],
)
async def test_each_method_is_called_with_exactly_its_keywords(
    method: str, work: Any, surface: Surface, named: set[str]
):
    told, came = await told_to(method, work, surface=surface)

    assert set(told) == named
    assert came.text == "found it"


async def test_the_legacy_methods_get_what_the_builders_get():
    heard: list[Raw] = []
    legacy = hearing(heard, all_of, gives("told"))

    await ask(TWO, callback(**{GATE: gate, LEGACY: legacy}))
    await ask(TWO, callback(**{GATE: gate, CHAT_LEGACY: legacy}), surface=CHAT)

    assert [set(told) for told in heard] == [BUILDER_TOLD, CHAT_TOLD]


@pytest.mark.parametrize("protocol", SURFACES)
async def test_a_gate_knows_the_request_and_who_answered_it(protocol: Surface):
    told, came = await told_to(GATE, gate, surface=MESSAGES, protocol=protocol)

    vendor = "anthropic" if protocol is MESSAGES else "openai"
    assert (told["model"], told["custom_llm_provider"]) == ("m-main", vendor)
    assert told["messages"] == [{"role": "user", "content": "hi"}]
    assert [each["name"] for each in told["tools"]] == ["ours", "clients"]
    assert told["stream"] is False
    assert told["response"]["stop_reason"] == told["response"].stop_reason == "tool_use"
    assert came.text == "found it"


@pytest.mark.parametrize(("surface", "named"), [(MESSAGES, "max_tokens"), (CHAT, "max_tokens")])
async def test_a_builder_gets_the_params_with_the_limit_of_the_reply(surface: Surface, named: str):
    method = BUILDER if surface is MESSAGES else CHAT_BUILDER
    told, _ = await told_to(method, builder, surface=surface, temperature=0.5, stop=None)

    params = told.get("optional_params") or told["anthropic_messages_optional_request_params"]
    assert (params[named], params["temperature"]) == (99, 0.5)
    assert not {"model", "messages"} & set(params)
    logged = told["logging_obj"].model_call_details["agentic_loop_params"]
    assert logged["model"].endswith("/m-main")
    assert logged["custom_llm_provider"] == logged["model"].partition("/")[0]


@pytest.mark.parametrize("surface", SURFACES)
async def test_no_key_and_no_address_is_told_to_a_callback(surface: Surface):
    heard: list[str] = []
    methods = {GATE: gate, BUILDER: builder, POST: gives(None), CLEANUP: gives(None)}
    methods["async_log_success_event"] = gives(None)
    own = {name: hearing(heard, repr, work) for name, work in methods.items()}

    came = await ask(TWO, callback(**own), surface=surface)

    assert len(heard) == 6
    assert not [told for told in heard if KEY in told or "127.0.0.1" in told]
    assert came.up.requests[0].headers[_key_header(surface)].endswith(KEY)


def _key_header(surface: Surface) -> str:
    return "x-api-key" if surface is MESSAGES else "authorization"


@pytest.mark.parametrize("surface", SURFACES)
async def test_what_a_callback_changes_of_its_arguments_changes_nothing_else(surface: Surface):
    async def spoil(self: Any, **told: Any) -> tuple[bool, Raw]:
        told["messages"].clear()
        told["tools"].clear()
        told["kwargs"]["max_agentic_loops"] = 0
        told["kwargs"]["proxy_server_request"]["body"].clear()
        told["response"].clear()
        return False, {}

    second: list[Raw] = []
    heard = {GATE: hearing(second, all_of, gate), BUILDER: builder}

    came = await ask(TWO, callback(**{GATE: spoil}), callback(**heard), surface=surface)

    assert second[0]["messages"] == [{"role": "user", "content": "hi"}]
    assert len(second[0]["tools"]) == 2
    assert second[0]["kwargs"]["max_agentic_loops"] == 3
    assert calls_of(second[0]["response"], "ours")
    assert came.text == "found it"


async def test_what_a_builder_changes_of_its_params_changes_no_request():
    async def build(self: Any, tools: Raw, messages: list[Raw], **told: Any) -> AgenticLoopPlan:
        told["anthropic_messages_optional_request_params"]["tools"].clear()
        plan = await builder(self, tools, list(messages))
        messages.clear()
        tools.clear()
        return plan

    came = await ask(TWO, callback(**{GATE: gate, BUILDER: build}))

    assert [len(sent["tools"]) for sent in came.sent] == [2, 2]
    assert came.text == "found it"


async def test_callbacks_are_asked_in_their_order_and_the_first_that_acts_wins():
    heard: list[str] = []

    def named(name: str, work: Any) -> Any:
        return hearing(heard, lambda _: name, work)

    skips = callback(**{GATE: named("skips", gate), BUILDER: named("plans none", gives({}))})
    skips = callback(
        **{GATE: named("skips", gate), BUILDER: named("no plan", gives(AgenticLoopPlan()))}
    )
    acts = callback(**{GATE: named("acts", gate), BUILDER: named("plan", builder)})
    late = callback(**{GATE: named("late", gate), BUILDER: named("never", builder)})

    came = await ask(TWO, skips, acts, late)

    assert came.text == "found it"
    assert heard == ["skips", "no plan", "acts", "plan", "skips", "acts", "late"]


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (gives(None), "gave None"),
        (gives(True), "gave True"),
        (gives((True,)), "gave (True,)"),
        (gives((True, None)), "gave (True, None)"),
        (gives(("yes", {})), "gave ('yes', {})"),
        (raises(ValueError("boom")), "raised ValueError: boom"),
    ],
)
@pytest.mark.parametrize("surface", SURFACES)
async def test_a_gate_that_does_not_answer_right_is_logged_and_skipped(
    surface: Surface, work: Any, said: str, caplog: pytest.LogCaptureFixture
):
    wrong = callback(**{GATE: work, BUILDER: raises(AssertionError("it took nothing up"))})

    with caplog.at_level(logging.ERROR):
        came = await ask(TWO, wrong, answering(), surface=surface)

    assert came.text == "found it"
    assert f"Mine.{GATE}" in caplog.text
    assert said in caplog.text


@pytest.mark.parametrize("surface", SURFACES)
async def test_where_no_gate_takes_anything_up_the_reply_stays_word_for_word(surface: Surface):
    came = await ask(TWO, callback(**{GATE: gives((False, {}))}), surface=surface)
    alone = await ask(TWO, surface=surface)

    assert came.body == alone.body
    assert (came.reason, len(came.sent)) == ("tool_use", 1)


class Slow(CustomLogger):
    async def async_should_run_agentic_loop(self, **told: Any) -> Any:
        return await gate(self, **told)

    async def async_build_agentic_loop_plan(self, **told: Any) -> Any:
        await asyncio.Event().wait()


def no_json() -> AgenticLoopPlan:
    return AgenticLoopPlan(response_override={"content": [object()]})


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (answering(**{BUILDER: raises(ValueError("plan boom"))}), "raised ValueError: plan boom"),
        (answering(**{BUILDER: gives(None)}), "gave None, which is no plan"),
        (answering(**{BUILDER: gives({"messages": []})}), "which is no plan"),
        (answering(**{BUILDER: gives(no_json())}), "gave a plan that cannot be kept"),
        (planning(run_agentic_loop=True), "its patch has no messages"),
        (planning(run_agentic_loop=True, request_patch={}), "its patch has no messages"),
        (Slow(), "took longer than 0.05 s"),
    ],
    ids=["raises", "None", "no plan", "no JSON", "no patch", "no messages", "too slow"],
)
@pytest.mark.parametrize("surface", SURFACES)
async def test_a_builder_that_fails_is_told_to_the_caller(surface: Surface, own: Any, said: str):
    short = GatewaySettings(callback_timeout=timedelta(seconds=0.05))

    came = await ask(ASKS, own, surface=surface, settings=short)

    assert came.failure.status == 500
    assert said in came.failure.message
    shown = came.failure.body(surface)
    kind = {MESSAGES: "api_error", CHAT: "server_error"}[surface]
    assert shown["error"]["type"] == kind
    assert shown["error"]["message"] == came.failure.message
    assert "Traceback" not in str(shown)


@pytest.mark.parametrize("mode", [Mode.COMPATIBLE, Mode.MERGED])
async def test_a_builder_that_fails_in_a_live_stream_ends_it_with_an_error(mode: Mode):
    failing = answering(**{BUILDER: raises(ValueError("plan boom"))})

    came = await ask(ASKS, failing, mode=mode, stream=True)

    names = [name for name, _ in came.rows]
    assert names[0] == "message_start"
    assert names[-1] == "error"
    assert "plan boom" in came.rows[-1][1]


@pytest.mark.parametrize("surface", SURFACES)
async def test_after_the_answer_a_callback_may_change_it(surface: Surface):
    async def post(self: Any, response: Any, **_: Any) -> Any:
        said = response.choices[0]["message"]["content"] if surface is CHAT else None
        if said is not None:
            response["choices"][0]["message"]["content"] = f"{said}!"
        else:
            response["content"][0]["text"] += "!"
        return response

    came = await ask(TWO, answering(**{POST: post}), surface=surface)

    assert came.text == "found it!"


@pytest.mark.parametrize("work", [raises(ValueError("post boom")), gives(None), gives("text")])
async def test_a_post_hook_that_gives_nothing_leaves_the_answer(
    work: Any, caplog: pytest.LogCaptureFixture
):
    came = await ask(TWO, answering(**{POST: work}))

    assert came.text == "found it"
    assert ("post boom" in caplog.text) == ("ERROR" in caplog.text)


async def test_post_hooks_are_called_innermost_first_with_their_own_plans():
    heard: list[tuple[str, int]] = []

    def note(told: Raw) -> tuple[str, int]:
        return told["plan"].metadata["at"], told["kwargs"]["_agentic_loop_depth"]

    async def build(self: Any, tools: Raw, messages: list[Raw], kwargs: Raw, **_: Any) -> Any:
        plan = await builder(self, tools, messages)
        return plan.model_copy(update={"metadata": {"at": f"plan {kwargs['_agentic_loop_depth']}"}})

    own = answering(**{BUILDER: build, POST: hearing(heard, note, gives(None))})
    came = await ask(in_turn(ASKS, says(calls=[replace(OURS, input={"q": "y"})]), FOUND), own)

    assert came.text == "found it"
    assert heard == [("plan 1", 1), ("plan 0", 0)]


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("second", [FOUND, fails(400, "invalid_request_error", "no")])
async def test_the_cleanup_is_called_once_however_the_round_after_it_ends(
    surface: Surface, second: Any
):
    heard: list[Any] = []
    own = answering(**{CLEANUP: hearing(heard, lambda told: told["plan"], gives(None))})

    came = await ask(in_turn(ASKS, second), own, surface=surface)

    assert [plan.run_agentic_loop for plan in heard] == [True]
    assert (came.failure is None) == (second is FOUND)


async def test_a_cleanup_that_raises_is_logged_and_changes_nothing(
    caplog: pytest.LogCaptureFixture,
):
    came = await ask(TWO, answering(**{CLEANUP: raises(ValueError("cleanup boom"))}))

    assert came.text == "found it"
    assert "cleanup boom" in caplog.text


async def test_a_chat_gate_goes_before_the_generic_one_and_each_is_asked_once():
    heard: list[str] = []
    own = callback(
        **{
            CHAT_GATE: hearing(heard, lambda _: "chat gate", gate),
            GATE: hearing(heard, lambda _: "gate", gate),
            CHAT_BUILDER: hearing(heard, lambda _: "chat builder", builder),
            BUILDER: hearing(heard, lambda _: "builder", builder),
        }
    )

    await ask(TWO, own, surface=CHAT)
    on_chat, heard[:] = list(heard), []
    await ask(TWO, own, surface=MESSAGES)

    assert on_chat == ["chat gate", "chat builder", "chat gate", "gate"]
    assert heard == ["gate", "builder", "gate"]


@pytest.mark.parametrize(
    ("methods", "surface", "rounds"),
    [
        ({GATE: gate, BUILDER: builder}, CHAT, 2),
        ({GATE: gate, CHAT_BUILDER: builder}, CHAT, 2),
        ({CHAT_GATE: gate, CHAT_BUILDER: builder}, CHAT, 2),
        ({CHAT_GATE: gate, BUILDER: builder}, CHAT, 2),
        ({GATE: gate, CHAT_BUILDER: builder}, MESSAGES, 1),
        ({CHAT_GATE: gate, CHAT_BUILDER: builder}, MESSAGES, 1),
        ({GATE: gate}, MESSAGES, 1),
        ({BUILDER: builder}, MESSAGES, 1),
    ],
)
async def test_which_gate_leads_to_which_builder(methods: Raw, surface: Surface, rounds: int):
    came = await ask(TWO, callback(**methods), surface=surface)

    assert len(came.sent) == rounds
    assert came.text == ("found it" if rounds == 2 else ASKS.text)


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_legacy_method_gives_the_answer_itself_or_passes(surface: Surface):
    given = callback(**{GATE: gate, LEGACY: gives({"content": "mine"})})
    passes = callback(**{GATE: gate, LEGACY: gives(None)})

    came = await ask(TWO, given, surface=surface)
    passed = await ask(TWO, passes, answering(), surface=surface)

    assert (came.text, len(came.sent)) == ("mine", 1)
    assert (passed.text, len(passed.sent)) == ("found it", 2)


async def test_a_method_that_stands_on_an_instance_alone_is_no_override():
    own = CustomLogger()
    own.async_should_run_agentic_loop = raises(AssertionError())  # type: ignore[method-assign]

    came = await ask(TWO, own)

    assert (came.reason, len(came.sent)) == ("tool_use", 1)


@pytest.mark.parametrize(("surface", "mode", "stream"), WATCHED)
async def test_every_method_is_told_whether_the_caller_streams(
    surface: Surface, mode: Mode, stream: bool
):
    heard: list[bool] = []
    own = callback(
        **{
            GATE: hearing(heard, lambda told: told["stream"], gate),
            BUILDER: hearing(heard, lambda told: told["stream"], builder),
        }
    )

    await ask(TWO, own, surface=surface, mode=mode, stream=stream)

    assert heard == [stream] * 3


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_reply_of_nothing_is_no_callbacks_business(surface: Surface):
    own = callback(**{GATE: raises(AssertionError("nobody asks it")), BUILDER: builder})

    came = await ask(says(ends_after=0), own, surface=surface, stream=True)

    assert (came.rows, came.failure.status) == ([], 502)


async def test_a_program_asks_with_the_callbacks_of_its_list():
    async with upstream(TWO) as up:
        told = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9}
        model = AnthropicModel("m", base_url=up.url, api_key=KEY)
        answer = await amessages(model=model, callbacks=[answering()], **told)
        alone = await amessages(model=model, **told)
        stream = await amessages(
            model=model, callbacks=[answering()], stream=True, streaming="merged", **told
        )
        events = [event.type async for event in stream]

    assert answer.content[0].text == answer["content"][0]["text"] == FOUND.text
    assert alone.stop_reason == "tool_use"
    assert (events[0], events[-1], events.count("message_start")) == (
        *("message_start", "message_stop"),
        1,
    )
