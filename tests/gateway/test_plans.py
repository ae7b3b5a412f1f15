"""What a plan brings about: each of its fields, and each of its patch's."""

from dataclasses import replace
from typing import Any

import pytest

from loops.callbacks import AgenticLoopPlan, AgenticLoopRequestPatch
from loops.gateway.answer import Answer
from loops.gateway.rounds import Mode, Surface
from tests.gateway.rounds_in_process import (
    ASKS,
    CHAT,
    CLIENTS,
    FOUND,
    MESSAGES,
    MIXED,
    OURS,
    SURFACES,
    TWO,
    WATCHED,
    WAYS,
    Came,
    Raw,
    again,
    answered,
    answering,
    ask,
    body_of,
    gate,
    gives,
    hearing,
    patching,
    planning,
    tool,
)
from tests.gateway.upstream import Asked, Told, completion, in_turn, message, says

MINE = [{"role": "user", "content": "mine"}]
RERUN: Raw = {
    "run_agentic_loop": True,
    "request_patch": AgenticLoopRequestPatch(messages=MINE),
}
GIVEN = says("mine", usage=(3, 4))

BLOCKS = [{"type": "text", "text": "mine"}]


@pytest.mark.parametrize(
    "given",
    [
        "mine",
        message(GIVEN),
        completion(GIVEN),
        Answer(message(GIVEN), MESSAGES),
        Answer(completion(GIVEN), CHAT),
        {"content": "mine"},
        {"content": BLOCKS},
    ],
    ids=["text", "message", "completion", "answer", "chat answer", "content", "blocks"],
)
@pytest.mark.parametrize(("surface", "mode", "stream"), WATCHED)
async def test_an_override_is_the_answer_whatever_its_shape(
    surface: Surface, given: Any, mode: Mode, stream: bool
):
    own = planning(response_override=given)
    came = await ask(ASKS, own, surface=surface, mode=mode, stream=stream)

    # What a merged stream has shown of the reply cannot be taken back.
    between = "\n\n" if surface is CHAT else ""
    before = f"{ASKS.text}{between}" if mode is Mode.MERGED else ""
    assert (came.text, came.reason) == (f"{before}mine", "end_turn")
    assert not [name for kind, name in came.content if kind == "tool_use"]
    assert before or came.body["model"] == "main"
    assert len(came.sent) == 1


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize(
    ("plan", "text", "rounds"),
    [
        ({"response_override": "over", "terminate": True, **RERUN}, "over", 1),
        ({"terminate": True, **RERUN}, ASKS.text, 1),
        (RERUN, FOUND.text, 2),
    ],
)
async def test_an_answer_goes_before_an_end_and_an_end_before_another_round(
    surface: Surface, plan: Raw, text: str, rounds: int
):
    def script(asked: Asked) -> Told:
        return FOUND if asked.body["messages"] == MINE else ASKS

    came = await ask(script, planning(**plan), surface=surface)

    assert (came.text, len(came.sent)) == (text, rounds)


@pytest.mark.parametrize(("surface", "mode", "stream"), WATCHED)
async def test_an_end_takes_the_calls_that_were_taken_up_out_of_the_answer(
    surface: Surface, mode: Mode, stream: bool
):
    own = planning(terminate=True, stop_reason="enough")
    came = await ask(ASKS, own, surface=surface, mode=mode, stream=stream)

    assert came.reason == "end_turn"
    assert not [name for kind, name in came.content if kind == "tool_use"]
    if mode is not Mode.COMPATIBLE or not stream:
        assert came.text == ASKS.text


@pytest.mark.parametrize("surface", SURFACES)
async def test_an_end_leaves_the_clients_own_calls(surface: Surface):
    came = await ask(MIXED, planning(terminate=True), surface=surface)

    assert came.content == [("text", MIXED.text), ("tool_use", "clients")]
    assert came.reason == "tool_use"


async def test_why_a_loop_ends_is_no_part_of_the_answer():
    came = await ask(ASKS, planning(terminate=True, stop_reason="enough"))

    assert "enough" not in str(came.body)


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_plan_that_does_nothing_leaves_the_reply(surface: Surface):
    came = await ask(ASKS, planning(), surface=surface)

    alone = await ask(ASKS, surface=surface)
    assert came.body == alone.body
    assert came.reason == "tool_use"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("surface", SURFACES)
async def test_what_a_plan_does_not_name_stays_as_it_was_asked(surface: Surface, stream: bool):
    asked = {"temperature": 0.3, "top_p": 0.9, "stop": ["x"], "metadata": {"a": "b"}}
    asked |= {"system": "be brief"} if surface is MESSAGES else {"seed": 4}

    came = await ask(
        TWO, answering(), surface=surface, mode=Mode.MERGED, stream=stream, novel={"n": 1}, **asked
    )

    first, second = came.sent
    assert {**second, "messages": None} == {**first, "messages": None}
    assert (second["max_tokens"], second["novel"]) == (99, {"n": 1})
    assert bool(second.get("stream")) is stream


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize(
    ("patch", "name", "value"),
    [
        ({"max_tokens": 7}, "max_tokens", 7),
        ({"optional_params": {"max_tokens": 8}}, "max_tokens", 8),
        ({"kwargs": {"max_tokens": 9}}, "max_tokens", 9),
        (
            {
                "max_tokens": 7,
                "optional_params": {"max_tokens": 8},
                "kwargs": {"max_tokens": 9},
            },
            "max_tokens",
            7,
        ),
        (
            {"optional_params": {"max_tokens": 8}, "kwargs": {"max_tokens": 9}},
            "max_tokens",
            8,
        ),
        ({"optional_params": {"temperature": 0.1}}, "temperature", 0.1),
        ({"kwargs": {"temperature": 0.2}}, "temperature", 0.2),
        (
            {"optional_params": {"temperature": 0.1}, "kwargs": {"temperature": 0.2}},
            "temperature",
            0.1,
        ),
        ({"optional_params": {"novel": 1}, "kwargs": {"novel": 2}}, "novel", 1),
    ],
)
async def test_what_a_patch_names_goes_before_its_params_and_these_before_its_kwargs(
    surface: Surface, patch: Raw, name: str, value: Any
):
    came = await ask(TWO, patching(**patch), surface=surface, temperature=0.9)

    assert came.text == FOUND.text
    assert came.sent[1][name] == value


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_patchs_tools_go_before_those_of_its_params(surface: Surface):
    mine, others = [tool(surface, "mine")], [tool(surface, "others")]

    came = await ask(TWO, patching(tools=mine, optional_params={"tools": others}), surface=surface)
    other = await ask(TWO, patching(optional_params={"tools": others}), surface=surface)

    assert came.sent[1]["tools"] == mine
    assert other.sent[1]["tools"] == others


async def test_the_newer_name_of_the_limit_stays_the_one_that_is_sent():
    limit = {"max_completion_tokens": 50, "max_tokens": None}

    came = await ask(TWO, patching(max_tokens=7), surface=CHAT, **limit)

    assert came.sent[1]["max_completion_tokens"] == 7
    assert came.sent[1].get("max_tokens") is None


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_patchs_messages_take_the_place_of_all(surface: Surface):
    def script(asked: Asked) -> Told:
        return FOUND if asked.body["messages"] == MINE else ASKS

    came = await ask(script, planning(**RERUN), surface=surface)

    assert came.sent[1]["messages"] == MINE


@pytest.mark.parametrize("surface", SURFACES)
async def test_another_model_is_found_by_its_name_in_the_configuration(surface: Surface):
    came = await ask(TWO, patching(model="other"), surface=surface)

    assert [sent["model"] for sent in came.sent] == ["m-main", "m-other"]


@pytest.mark.parametrize("named", ["m-main", "anthropic/m-main", "main", None])
async def test_a_model_by_the_name_that_the_callback_was_told_is_the_same(named: str | None):
    came = await ask(TWO, patching(model=named))

    assert [sent["model"] for sent in came.sent] == ["m-main", "m-main"]


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("named", ["nobodys", "openai/gpt", "http://127.0.0.1/x"])
async def test_a_model_that_nobody_configured_is_refused_with_a_text(surface: Surface, named: str):
    came = await ask(TWO, patching(model=named), surface=surface)

    # His caller has named another one.
    assert (came.failure.status, len(came.sent)) == (500, 1)
    assert repr(named) in came.failure.message
    assert came.failure.body(surface)["error"]["message"]


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("forced", [True, False])
async def test_a_tool_that_was_answered_is_not_forced_again(surface: Surface, forced: bool):
    choices: dict[Surface, Any] = {
        MESSAGES: {"type": "tool", "name": "ours"} if forced else {"type": "any"},
        CHAT: {"type": "function", "function": {"name": "ours"}} if forced else "required",
    }

    came = await ask(TWO, answering(), surface=surface, tool_choice=choices[surface])

    assert came.sent[0]["tool_choice"] == choices[surface]
    assert came.sent[1]["tool_choice"] == ({"type": "auto"} if surface is MESSAGES else "auto")


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_plan_may_force_a_tool_itself(surface: Surface):
    forced: dict[Surface, Any] = {MESSAGES: {"type": "any"}, CHAT: "required"}
    patch = {"optional_params": {"tool_choice": forced[surface]}}

    came = await ask(TWO, patching(**patch), surface=surface)

    assert came.sent[1]["tool_choice"] == forced[surface]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("turned", [False, True])
async def test_whether_it_streams_is_the_callers_to_say(stream: bool, turned: bool):
    own = patching(optional_params={"stream": turned}, kwargs={"stream": turned})

    came = await ask(TWO, own, stream=stream)

    assert [bool(sent.get("stream")) for sent in came.sent] == [stream, stream]
    assert came.text == FOUND.text


@pytest.mark.parametrize("surface", SURFACES)
async def test_what_is_ours_never_leaves_and_cannot_be_forged(surface: Surface):
    heard: list[Raw] = []
    forged = {
        "_agentic_loop_depth": 7,
        "_agentic_loop_fingerprints": ["x"],
        "_agentic_loop_api_surface": "none",
        "_own_note": "kept",
        "litellm_note": "kept",
        "max_agentic_loops": 2,
        "api_key": "sk-mine",
        "api_base": "http://127.0.0.1:1",
    }
    own = patching(kwargs=forged, optional_params={"api_base": "http://127.0.0.1:1", "_x": 1})
    listening = type("Listening", (type(own),), {"async_should_run_agentic_loop": None})
    listening.async_should_run_agentic_loop = hearing(heard, lambda told: told["kwargs"], gate)

    came = await ask(TWO, listening(), surface=surface)

    second = heard[1]
    assert (second["_own_note"], second["litellm_note"]) == ("kept", "kept")
    assert (second["_agentic_loop_depth"], second["max_agentic_loops"]) == (1, 2)
    assert len(second["_agentic_loop_fingerprints"]) == 1
    assert second["_agentic_loop_api_surface"] != "none"
    assert not {*forged, "_x"} & set(came.sent[1])


async def test_what_the_model_thought_stands_before_its_call_again():
    thinks = replace(ASKS, thinking="hmm")

    came = await ask(in_turn(thinks, FOUND), answering())

    said = came.sent[1]["messages"][1]["content"]
    assert [each["type"] for each in said] == ["thinking", "tool_use"]
    assert said[0]["signature"] == "signed"


async def test_what_a_chats_model_thought_is_told_again_with_its_calls():
    thinks = replace(ASKS, thinking="hmm")

    came = await ask(in_turn(thinks, FOUND), answering(), surface=CHAT)

    [said] = [each for each in came.sent[1]["messages"] if each["role"] == "assistant"]
    assert said["reasoning_content"] == "hmm"
    assert [each["function"]["name"] for each in said["tool_calls"]] == ["ours"]


def chat_answers(tools: Raw, messages: list[Raw]) -> list[Raw]:
    calls = [
        {
            "id": each["id"],
            "type": "function",
            "function": {"name": each["name"], "arguments": "{}"},
        }
        for each in tools["tool_calls"]
    ]
    results = [{"role": "tool", "tool_call_id": each["id"], "content": "42"} for each in calls]
    return [*messages, {"role": "assistant", "content": None, "tool_calls": calls}, *results]


@pytest.mark.parametrize("writes", [answered, chat_answers])
@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("protocol", SURFACES)
async def test_a_follow_up_in_the_shape_of_either_protocol_is_understood(
    writes: Any, surface: Surface, protocol: Surface
):
    async def build(self: Any, tools: Raw, messages: list[Raw], **_: Any) -> AgenticLoopPlan:
        return AgenticLoopPlan(
            run_agentic_loop=True,
            request_patch=AgenticLoopRequestPatch(messages=writes(tools, messages)),
        )

    own = answering(async_build_agentic_loop_plan=build)
    came = await ask(TWO, own, surface=surface, protocol=protocol)

    assert came.text == FOUND.text
    roles = [each["role"] for each in came.sent[1]["messages"]]
    assert roles == ["user", "assistant", "tool" if protocol is CHAT else "user"]


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("protocol", SURFACES)
@pytest.mark.parametrize(("mode", "stream"), WAYS)
async def test_a_reply_with_calls_of_both_kinds_loses_none(
    surface: Surface, protocol: Surface, mode: Mode, stream: bool
):
    came = await ask(
        in_turn(MIXED, FOUND),
        answering(),
        surface=surface,
        protocol=protocol,
        mode=mode,
        stream=stream,
    )

    is_unwatched = surface is CHAT and stream and mode is Mode.COMPATIBLE
    assert shown_calls(came).count("clients") == 1
    assert shown_calls(came).count("ours") == (1 if stream and mode is Mode.COMPATIBLE else 0)
    assert len(came.sent) == (1 if is_unwatched else 2)
    if not is_unwatched:
        assert came.text.endswith(FOUND.text)
        follows = str(came.sent[1]["messages"])
        assert ("ours" in follows, "clients" in follows) == (True, False)
    if mode is not Mode.COMPATIBLE or not stream:
        assert came.content[-1] == ("tool_use", "clients")
        assert came.reason == "tool_use"


def shown_calls(came: Came) -> list[str]:
    """Return the names of all calls that the caller has seen."""
    if not came.rows:
        return [name for kind, name in came.content if kind == "tool_use"]
    return [name for _, data in came.rows for name in ("ours", "clients") if f'"{name}"' in data]


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("mode", list(Mode))
async def test_a_clients_call_that_the_last_reply_makes_again_is_told_once(
    surface: Surface, mode: Mode
):
    last = says("found. ", calls=[CLIENTS])

    came = await ask(in_turn(MIXED, last), answering(), surface=surface, mode=mode)

    assert shown_calls(came) == ["clients"]
    assert came.reason == "tool_use"


@pytest.mark.parametrize("surface", SURFACES)
async def test_of_two_callbacks_calls_both_are_answered_in_turn(surface: Surface):
    both = says("both. ", calls=[OURS, replace(OURS, name="theirs")])
    rest = says("again. ", calls=[replace(OURS, name="theirs")])

    async def theirs(self: Any, response: Any, **_: Any) -> tuple[bool, Raw]:
        calls = [each for each in response.content if each.get("name") == "theirs"]
        return bool(calls), {"tool_calls": calls}

    second = answering(async_should_run_agentic_loop=theirs)
    came = await ask(in_turn(both, rest, FOUND), answering(), second, surface=surface)

    assert (len(came.sent), came.error) == (3, None)
    assert (came.content, came.reason) == ([("text", FOUND.text)], "end_turn")


async def test_metadata_is_the_callbacks_own():
    heard: list[Any] = []

    async def build(self: Any, tools: Raw, messages: list[Raw], **_: Any) -> AgenticLoopPlan:
        plan = again(tools, messages)
        return plan.model_copy(update={"metadata": {"note": [1, {"a": "b"}]}})

    own = answering(
        async_build_agentic_loop_plan=build,
        async_post_agentic_loop_response_hook=hearing(
            heard, lambda told: told["plan"].metadata, gives(None)
        ),
    )

    came = await ask(TWO, own)

    assert heard == [{"note": [1, {"a": "b"}]}]
    assert "note" not in str([came.body, *came.sent])


@pytest.mark.parametrize(
    ("surface", "mode", "stream"),
    # In a compatible stream each message tells its own.
    [way for way in WATCHED if way[1:] != (Mode.COMPATIBLE, True)],
)
async def test_what_all_rounds_have_taken_is_added_up(surface: Surface, mode: Mode, stream: bool):
    more = {"stream_options": {"include_usage": True}} if surface is CHAT and stream else {}

    came = await ask(TWO, answering(), surface=surface, mode=mode, stream=stream, **more)

    words = (
        ("prompt_tokens", "completion_tokens")
        if surface is CHAT
        else ("input_tokens", "output_tokens")
    )
    assert tuple(came.body["usage"][word] for word in words) == (20, 10)


def test_a_field_that_there_is_not_is_refused_where_it_is_written():
    with pytest.raises(ValueError, match="mesages"):
        AgenticLoopRequestPatch(mesages=body_of(MESSAGES)["messages"])  # type: ignore[call-arg]
