"""Faults and gaps of the original library that are not here; `cases.py` says where the others are.

Each name begins with the fault's number in the list that they were restated from.
"""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from loops.gateway.rounds import Mode, Surface
from loops.providers.deployment import Price
from tests.gateway.rounds_in_process import (
    ASKS,
    CHAT,
    FOUND,
    KEY,
    MESSAGES,
    MIXED,
    OURS,
    SURFACES,
    TWO,
    Raw,
    again,
    always,
    answering,
    ask,
    builder,
    callback,
    calls_of,
    counting,
    gives,
    hearing,
    patching,
    planning,
    raises,
)
from tests.gateway.upstream import in_turn, says

GATE, BUILDER = "async_should_run_agentic_loop", "async_build_agentic_loop_plan"
CHAT_BUILDER = "async_build_chat_completion_agentic_loop_plan"
CLEANUP = "async_agentic_loop_cleanup_hook"


async def by_attribute(self: Any, response: Any, **_: Any) -> tuple[bool, Raw]:
    content = getattr(response, "content", None) or []
    calls = [each for each in content if isinstance(each, dict) and each.get("name") == "ours"]
    return bool(calls), {"tool_calls": calls}


async def by_item(self: Any, response: Any, **_: Any) -> tuple[bool, Raw]:
    assert isinstance(response, dict)
    calls = [each for each in response["content"] if each.get("name") == "ours"]
    return bool(calls), {"tool_calls": calls}


async def by_message(self: Any, response: Any, **_: Any) -> tuple[bool, Raw]:
    calls = response.choices[0].message.tool_calls or []
    assert calls == (response["choices"][0]["message"].get("tool_calls") or [])
    return bool(calls), {"tool_calls": calls_of(response, "ours")}


@pytest.mark.parametrize("looks", [by_attribute, by_item, by_message])
@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("stream", [False, True])
async def test_d1_a_gate_may_look_at_a_reply_in_any_way(looks: Any, surface: Surface, stream: bool):
    own = answering(**{GATE: looks})

    came = await ask(TWO, own, surface=surface, mode=Mode.HOLD, stream=stream)

    assert (came.text, len(came.sent)) == (FOUND.text, 2)


async def test_d2_a_generic_gate_and_a_chats_builder_run_on_chat():
    own = callback(**{GATE: by_attribute, CHAT_BUILDER: builder})

    came = await ask(TWO, own, surface=CHAT)

    assert (came.text, len(came.sent)) == (FOUND.text, 2)


@pytest.mark.parametrize("surface", SURFACES)
async def test_d3_b9_an_end_has_no_call_on_either_endpoint(surface: Surface):
    came = await ask(ASKS, planning(terminate=True), surface=surface)

    assert (came.content, came.reason) == ([("text", ASKS.text)], "end_turn")


@pytest.mark.parametrize("stream", [False, True])
async def test_d4_the_same_calls_end_a_turn_whole(stream: bool):
    came = await ask(always(OURS), answering(), stream=stream)

    assert (came.error, came.reason) == (None, "end_turn")
    assert len(came.sent) == 2


async def test_d5_the_server_side_says_how_often_for_one_call():
    async def pre_call(self: Any, data: Raw, **_: Any) -> Raw:
        return {**data, "max_agentic_loops": 2}

    came = await ask(counting(), answering(async_pre_call_hook=pre_call))

    assert len(came.sent) == 3


async def test_d6_the_depth_is_0_in_the_first_round():
    heard: list[Any] = []
    own = answering(**{GATE: hearing(heard, lambda told: told["kwargs"], by_attribute)})

    await ask(TWO, own)

    assert [told["_agentic_loop_depth"] for told in heard] == [0, 1]


@pytest.mark.parametrize("surface", SURFACES)
async def test_d7_b1_the_limit_of_a_reply_is_the_plans_or_else_the_clients(surface: Surface):
    said = await ask(TWO, patching(max_tokens=7), surface=surface)
    silent = await ask(TWO, answering(), surface=surface)

    assert [sent["max_tokens"] for sent in said.sent] == [99, 7]
    assert [sent["max_tokens"] for sent in silent.sent] == [99, 99]


@pytest.mark.parametrize("mode", [Mode.MERGED, Mode.HOLD])
async def test_d8_b5_a_stream_is_one_message_where_it_is_to_be_one(mode: Mode):
    came = await ask(TWO, answering(), mode=mode, stream=True)

    names = [name for name, _ in came.rows]
    assert (names.count("message_start"), names.count("message_stop")) == (1, 1)


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("protocol", SURFACES)
@pytest.mark.parametrize("stream", [False, True])
async def test_d9_b12_whatever_the_provider_speaks_a_reply_is_the_callers(
    surface: Surface, protocol: Surface, stream: bool
):
    heard: list[Raw] = []
    own = answering(**{GATE: hearing(heard, lambda told: told, by_attribute)})

    came = await ask(TWO, own, surface=surface, protocol=protocol, mode=Mode.HOLD, stream=stream)

    own_word = "content" if surface is MESSAGES else "choices"
    assert [own_word in dict(told["response"]) for told in heard] == [True, True]
    kinds = {told["kwargs"]["_agentic_loop_api_surface"] for told in heard}
    assert kinds == {"anthropic_messages" if surface is MESSAGES else "chat_completions"}
    assert came.text == FOUND.text


async def test_b4_a_forced_tool_is_not_forced_again():
    came = await ask(TWO, answering(), tool_choice={"type": "tool", "name": "ours"})

    assert came.sent[1]["tool_choice"] == {"type": "auto"}


async def test_b5_an_end_in_a_live_stream_repeats_no_text():
    came = await ask(ASKS, planning(terminate=True), stream=True)

    texts = [data for _, data in came.rows if "text_delta" in data]
    assert len(texts) == len(ASKS.text) // ASKS.piece + 1
    assert came.reason == "end_turn"


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("broken", [{"cut_after": 6}, {"ends_after": 6}, {"error_after": 6}])
async def test_b6_a_reply_that_was_cut_is_no_callbacks_business(surface: Surface, broken: Raw):
    own = answering(**{GATE: raises(AssertionError("nobody asks it"))})

    came = await ask(replace(ASKS, **broken), own, surface=surface, mode=Mode.MERGED, stream=True)

    assert '"error"' in came.rows[-1][1]
    assert came.error is not None


@pytest.mark.parametrize("surface", SURFACES)
async def test_b7_all_rounds_are_one_answer_that_says_what_all_have_cost(surface: Surface):
    heard: list[Raw] = []
    log = hearing(heard, lambda told: told["response_obj"].usage, gives(None))
    own = answering(async_log_success_event=log)

    came = await ask(
        counting(), own, surface=surface, deployment={"price": Price(input=1.0, output=2.0)}
    )

    name = "input_tokens" if surface is MESSAGES else "prompt_tokens"
    assert came.body["usage"][name] == 40
    assert [usage[name] for usage in heard] == [40]


@pytest.mark.parametrize("surface", SURFACES)
async def test_b8_the_cleanup_is_called_on_both_endpoints(surface: Surface):
    heard: list[str] = []
    own = answering(**{CLEANUP: hearing(heard, lambda _: "cleanup", gives(None))})

    await ask(TWO, own, surface=surface)

    assert heard == ["cleanup"]


@pytest.mark.parametrize("surface", SURFACES)
async def test_b10_a_clients_own_call_beside_ours_reaches_it(surface: Surface):
    came = await ask(in_turn(MIXED, FOUND), answering(), surface=surface)

    assert came.content == [("text", FOUND.text), ("tool_use", "clients")]
    assert came.reason == "tool_use"


async def test_b11_fresh_ids_do_not_hide_that_a_call_is_the_same():
    ids = ["toolu_a", "toolu_b", "toolu_c"]
    script = in_turn(*(says("so. ", calls=[replace(OURS, id=each)]) for each in ids))

    came = await ask(script, answering())

    assert len(came.sent) == 2


@pytest.mark.parametrize("named", ["other", "nobodys"])
async def test_b13_a_plans_model_is_one_of_the_configuration(named: str):
    came = await ask(TWO, patching(model=named))

    assert [sent["model"] for sent in came.sent[1:]] == (["m-other"] if named == "other" else [])
    assert (came.failure is None) == (named == "other")


async def test_b14_no_callback_is_told_the_key_of_a_provider():
    heard: list[str] = []
    own = answering(**{GATE: hearing(heard, repr, by_attribute)})

    await ask(TWO, own)

    assert heard
    assert not [told for told in heard if KEY in told]


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_call_that_nobody_answers_yet_is_no_callers_either(surface: Surface):
    """Two callbacks' calls in one reply: no caller sees that of the one that is not asked."""
    both = says("both. ", calls=[OURS, replace(OURS, name="theirs")])

    async def theirs(self: Any, response: Any, **_: Any) -> tuple[bool, Raw]:
        calls = calls_of(response, "theirs")
        return bool(calls), {"tool_calls": calls}

    came = await ask(
        in_turn(both, FOUND), answering(), answering(**{GATE: theirs}), surface=surface
    )

    assert (came.content, came.reason) == ([("text", FOUND.text)], "end_turn")


async def test_calls_of_several_callers_know_nothing_of_each_other():
    own = answering()

    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(ask(counting(), own)) for _ in range(4)]

    assert [len(task.result().sent) for task in asked] == [4, 4, 4, 4]


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_plan_that_repeats_what_was_asked_says_it_once(surface: Surface):
    async def build(self: Any, tools: Raw, messages: list[Raw], **told: Any) -> Any:
        params = told.get("optional_params") or told["anthropic_messages_optional_request_params"]
        kwargs = {**told["kwargs"], **params, "model": "stale", "messages": []}
        return again(tools, messages, optional_params={**params, "temperature": 0.1}, kwargs=kwargs)

    own = answering(**{BUILDER: build, CHAT_BUILDER: build})
    came = await ask(TWO, own, surface=surface, temperature=0.9)

    assert (came.text, came.sent[1]["temperature"]) == (FOUND.text, 0.1)
    assert set(came.sent[1]) == set(came.sent[0])
    assert came.sent[1]["model"] == "m-main"
