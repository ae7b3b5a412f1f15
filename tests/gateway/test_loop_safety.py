"""How often a model is asked again, who may say so, and how a turn ends that goes no further."""

from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from loops.callbacks import (
    AgenticLoopLimitError,
    AgenticLoopSafetyError,
    acompletion,
    amessages,
)
from loops.errors import SetupError
from loops.gateway.bodies import without_calls
from loops.gateway.rounds import Mode, Surface
from loops.gateway.translating import cleaned_body
from loops.gateway.web_search import WebSearch
from loops.model import ModelPort, named_models
from loops.providers.anthropic import AnthropicModel
from loops.providers.deployment import DeployedModel, Deployment
from loops.providers.openai import OpenAIModel
from tests.gateway.rounds_in_process import (
    CLIENTS,
    KEY,
    MESSAGES,
    MIXED,
    OURS,
    SURFACES,
    WATCHED,
    Raw,
    always,
    answering,
    ask,
    body_of,
    counting,
    gate,
    gives,
    hearing,
    patching,
    planning,
)
from tests.gateway.upstream import (
    Asked,
    Script,
    Told,
    Upstream,
    call,
    completion,
    in_turn,
    message,
    says,
    upstream,
)


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_model_is_asked_again_three_times_and_no_more(surface: Surface):
    came = await ask(counting(), answering(), surface=surface)

    assert len(came.sent) == 4
    assert (came.content, came.reason) == ([("text", "3. ")], "end_turn")


async def test_the_depth_is_told_from_the_first_round_on():
    heard: list[Raw] = []
    own = answering(async_should_run_agentic_loop=hearing(heard, lambda told: told["kwargs"], gate))

    await ask(counting(), own)

    assert [told["_agentic_loop_depth"] for told in heard] == [0, 1, 2, 3]
    assert [len(told["_agentic_loop_fingerprints"]) for told in heard] == [0, 1, 2, 3]
    assert {told["max_agentic_loops"] for told in heard} == {3}


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("limit", [1, 2, 5])
async def test_a_deployment_may_say_how_often(surface: Surface, limit: int):
    deployment = {"max_agentic_loops": limit}

    came = await ask(counting(), answering(), surface=surface, deployment=deployment)

    assert len(came.sent) == limit + 1


def limiting(limit: Any) -> Any:
    async def pre_call(self: Any, data: Raw, **_: Any) -> Raw:
        return {**data, "max_agentic_loops": limit}

    return answering(async_pre_call_hook=pre_call)


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_pre_call_hook_may_say_it_for_one_call(surface: Surface):
    deployment = {"max_agentic_loops": 5}

    came = await ask(counting(), limiting(1), surface=surface, deployment=deployment)

    assert len(came.sent) == 2
    assert "max_agentic_loops" not in came.sent[0]


async def test_a_patch_may_say_it_for_the_rest_of_the_call():
    came = await ask(counting(), patching(kwargs={"max_agentic_loops": 1}))

    assert len(came.sent) == 2


def port_at(up: Upstream, surface: Surface) -> ModelPort:
    if surface is MESSAGES:
        return AnthropicModel("m", base_url=up.url, api_key=KEY)
    return OpenAIModel("m", base_url=up.openai_url, api_key=KEY)


async def in_process(up: Upstream, surface: Surface, **more: Any) -> Any:
    told = {name: value for name, value in body_of(surface).items() if name != "model"}
    method = amessages if surface is MESSAGES else acompletion
    return await method(model=port_at(up, surface), callbacks=[answering()], **told, **more)


@pytest.mark.parametrize("surface", SURFACES)
async def test_in_one_process_a_keyword_says_it(surface: Surface):
    async with upstream(counting()) as up:
        answer = await in_process(up, surface, max_agentic_loops=1)

    assert len(up.requests) == 2
    assert not [each for each in answer.content or [] if getattr(each, "type", "") == "tool_use"]


WRONG = [0, -1, True, "three", 2.5, float("nan"), float("inf"), "0"]


@pytest.mark.parametrize("limit", WRONG)
async def test_a_limit_that_is_none_is_refused_before_anything_is_asked(limit: Any):
    async with upstream(counting()) as up:
        with pytest.raises(SetupError, match="max_agentic_loops of the call must be"):
            await in_process(up, MESSAGES, max_agentic_loops=limit)

    assert up.requests == []


@pytest.mark.parametrize("limit", WRONG)
@pytest.mark.parametrize("says_it", [limiting, lambda n: patching(kwargs={"max_agentic_loops": n})])
async def test_a_callbacks_limit_that_is_none_is_told(limit: Any, says_it: Any):
    came = await ask(counting(), says_it(limit))

    assert came.failure.status == 500
    assert "max_agentic_loops of" in came.failure.message


@pytest.mark.parametrize("limit", [1, "1", " 1 ", 1.0])
async def test_a_whole_number_is_one_however_it_is_written(limit: Any):
    came = await ask(counting(), limiting(limit))

    assert len(came.sent) == 2


@pytest.mark.parametrize("surface", SURFACES)
async def test_the_same_calls_with_fresh_ids_end_the_turn(surface: Surface):
    came = await ask(always(OURS), answering(), surface=surface)

    assert len(came.sent) == 2
    assert came.reason == "end_turn"
    assert not [name for kind, name in came.content if kind == "tool_use"]


async def test_calls_that_were_made_two_rounds_ago_end_the_turn_too():
    first, second = call("ours", n=1), call("ours", n=2)
    script = in_turn(*(says("so. ", calls=[each]) for each in (first, second, first)))

    came = await ask(script, answering())

    assert len(came.sent) == 3
    assert came.content == [("text", "so. ")]


async def test_the_order_of_members_makes_no_other_call():
    first, second = call("ours", a=1, b=2), call("ours", b=2, a=1)
    script = in_turn(*(says("so. ", calls=[each]) for each in (first, second)))

    came = await ask(script, answering())

    assert len(came.sent) == 2


async def test_a_clients_call_beside_it_makes_no_other_fingerprint():
    first, second = [OURS], [OURS, CLIENTS]
    script = in_turn(*(says("so. ", calls=calls) for calls in (first, second)))

    came = await ask(script, answering())

    assert len(came.sent) == 2
    assert (came.content, came.reason) == ([("text", "so. "), ("tool_use", "clients")], "tool_use")


@pytest.mark.parametrize("protocol", SURFACES)
@pytest.mark.parametrize(("surface", "mode", "stream"), WATCHED)
@pytest.mark.parametrize("script", [counting(), always(OURS)], ids=["too often", "the same"])
async def test_a_refusal_leaves_no_call_as_the_last_thing(
    surface: Surface, protocol: Surface, mode: Mode, stream: bool, script: Script
):
    came = await ask(
        script, answering(), surface=surface, protocol=protocol, mode=mode, stream=stream
    )

    assert (came.error, came.failure) == (None, None)
    assert came.reason == "end_turn"
    assert not [name for kind, name in came.content if kind == "tool_use"]
    if stream:
        assert came.rows[-1][0] in {"message_stop", ""}


@pytest.mark.parametrize(("surface", "mode", "stream"), WATCHED)
async def test_a_refusal_leaves_the_clients_calls(surface: Surface, mode: Mode, stream: bool):
    came = await ask(always(OURS, CLIENTS), answering(), surface=surface, mode=mode, stream=stream)

    calls = [name for kind, name in came.content if kind == "tool_use"]
    sees_ours = mode is Mode.COMPATIBLE and stream
    assert calls == (["ours", "clients"] if sees_ours else ["clients"])
    assert came.reason == "tool_use"


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_refusal_takes_out_what_other_callbacks_take_up_too(surface: Surface):
    theirs = replace(OURS, name="theirs")

    async def other(self: Any, response: Any, **_: Any) -> tuple[bool, Raw]:
        calls = [each for each in response.content if each.get("name") == "theirs"]
        return bool(calls), {"tool_calls": calls}

    second = answering(async_should_run_agentic_loop=other)
    came = await ask(always(OURS, theirs), answering(), second, surface=surface)

    assert (came.content, came.reason) == ([("text", "and again. ")], "end_turn")


async def test_a_refused_turn_is_never_built_and_its_earlier_plans_are_finished():
    heard: list[str] = []
    post = hearing(heard, lambda _: "post", gives(None))
    cleanup = hearing(heard, lambda _: "cleanup", gives(None))
    own = answering(
        async_post_agentic_loop_response_hook=post, async_agentic_loop_cleanup_hook=cleanup
    )

    came = await ask(always(OURS), own)

    assert len(came.sent) == 2
    assert heard == ["post", "cleanup"]


async def test_a_turn_that_is_nothing_but_a_refused_call_ends_cleanly():
    came = await ask(lambda _: says(calls=[OURS]), answering())

    assert (came.content, came.reason) == ([], "end_turn")
    assert came.body["id"]
    assert came.body["usage"]["output_tokens"] == 10


@pytest.mark.parametrize("surface", SURFACES)
async def test_of_a_tools_calls_only_those_that_were_named_are_taken_out(surface: Surface):
    calls = [replace(OURS, id="toolu_a"), replace(OURS, id="toolu_b", input={"q": "y"})]

    async def first(self: Any, response: Any, **_: Any) -> tuple[bool, Raw]:
        return True, {
            "tool_calls": [each for each in response.content if each.get("id") == "toolu_a"]
        }

    own = planning(async_should_run_agentic_loop=first, terminate=True)
    came = await ask(says("so. ", calls=calls), own, surface=surface)

    assert "toolu_a" not in str(came.body)
    assert "toolu_b" in str(came.body)
    assert came.reason == "tool_use"


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_call_that_is_named_without_an_id_is_taken_out_by_its_name(surface: Surface):
    own = planning(
        async_should_run_agentic_loop=gives((True, {"tool_calls": [{"name": "ours"}]})),
        terminate=True,
    )

    came = await ask(MIXED, own, surface=surface)

    assert came.content == [("text", MIXED.text), ("tool_use", "clients")]


@pytest.mark.parametrize("surface", SURFACES)
def test_a_body_without_its_calls_is_another_one(surface: Surface):
    whole = message(MIXED) if surface is MESSAGES else completion(MIXED)
    before = deepcopy(whole)

    left = without_calls(surface, whole, {0, 1, 2})

    assert whole == before
    assert left != whole
    assert left["usage"] == whole["usage"]


def test_a_refusal_has_a_type_that_says_why():
    assert issubclass(AgenticLoopLimitError, AgenticLoopSafetyError)
    assert issubclass(AgenticLoopSafetyError, ValueError)


@pytest.mark.parametrize(
    ("script", "said"),
    [(counting(), "was asked again 3 times, the limit"), (always(OURS), "makes the same calls")],
)
async def test_a_refusal_stands_in_the_log(
    script: Script, said: str, caplog: pytest.LogCaptureFixture
):
    await ask(script, answering())

    assert said in caplog.text


@pytest.mark.parametrize(("deployed", "rounds"), [(1, 2), (None, 3)])
async def test_a_deployments_limit_goes_before_that_of_the_shipped_search(
    deployed: int | None, rounds: int
):
    search = WebSearch(gives_text, max_agentic_loops=2)
    tools = [{"type": "web_search_20250305", "name": "web_search"}]
    model = Deployment(
        "anthropic/m", base_url="http://127.0.0.1:9", api_key=KEY, max_agentic_loops=deployed
    )

    with named_models({"main": partial(DeployedModel, model)}):
        came = await ask(searching, search, tools=tools, deployment={"max_agentic_loops": deployed})

    assert len(came.sent) == rounds


async def gives_text(query: str) -> str:
    return query


def searching(asked: Asked) -> Told:
    said = [each for each in asked.body["messages"] if each["role"] == "assistant"]
    return says(calls=[call("litellm_web_search", query=f"{len(said)}")])


@pytest.mark.parametrize("surface", SURFACES)
def test_a_client_cannot_say_what_is_not_his_to_say(surface: Surface):
    theirs = {
        "max_agentic_loops": 9,
        "_agentic_loop_depth": 2,
        "_agentic_loop_fingerprints": ["x"],
        "_agentic_loop_api_surface": "responses",
        "_websearch_interception_converted_stream": True,
        "litellm_metadata": {},
        "litellm_call_id": "x",
    }

    assert cleaned_body({**body_of(surface), **theirs}) == body_of(surface)


@pytest.mark.parametrize("stream", [False, True])
async def test_nothing_of_the_loop_reaches_the_provider(stream: bool):
    came = await ask(counting(), answering(), stream=stream)

    names = {name for sent in came.sent for name in sent}
    assert not [name for name in names if name.startswith(("_", "litellm"))]
    assert "max_agentic_loops" not in names
    assert came.reason == "end_turn"
