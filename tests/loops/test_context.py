from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from loops.context import Context
from loops.errors import SetupError, TurnLimitExceeded
from loops.messages import Messages, ToolCall, as_message
from loops.model import register_provider
from loops.providers.scripted import scripted
from loops.tools import tool


@tool
async def look(where: str) -> str:
    """Look."""
    return where


@tool(name="look", description="Look better.")
async def look_better(where: str) -> str:
    return where


def test_a_context_takes_messages_of_any_kind() -> None:
    context = Context(messages=["hi", {"role": "assistant", "content": "ho"}])  # type: ignore[arg-type]  # made a history

    assert context.messages == Messages.of(["hi", {"role": "assistant", "content": "ho"}])
    assert context.last_message == "ho"
    assert Context().last_message == ""


def test_the_messages_of_the_caller_are_left_alone() -> None:
    given = Messages.of("hi")
    context = Context(messages=given)

    context.add("more")

    assert given == Messages.of("hi")


@pytest.mark.parametrize(
    ("history", "goes_on"),
    [
        ([], False),
        (["hi"], True),
        ([{"role": "system", "content": "be kind"}], True),
        (["hi", {"role": "assistant", "content": "ho"}], False),
        (["hi", {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}], True),
    ],
)
def test_a_loop_goes_on_while_there_is_something_to_answer(
    history: list[Any], goes_on: bool
) -> None:
    assert Context(messages=Messages.of(history)).keep_running() is goes_on


def test_a_turn_past_the_limit_does_not_begin() -> None:
    context = Context(messages=Messages.of("hi"), max_turns=3, turns=3)

    with pytest.raises(TurnLimitExceeded, match="taken 3 turns"):
        context.keep_running()


def test_a_loop_that_is_done_may_have_taken_all_its_turns() -> None:
    said = {"role": "assistant", "content": "ho"}

    assert not Context(messages=Messages.of([said]), max_turns=3, turns=3).keep_running()


def test_messages_are_added_one_or_many_or_none() -> None:
    context = Context()

    context.add(None)
    context.add("a")
    context.add(as_message("b"))
    context.add(["c", {"role": "user", "content": "d"}])

    assert [message.text for message in context.messages] == ["a", "b", "c", "d"]


def test_a_session_and_a_chat_are_the_same() -> None:
    assert Context(chat_id="c").session == "c"
    assert Context(session="s").chat_id == "s"


def test_calls_are_bound_to_tools_by_name_and_the_later_tool_counts() -> None:
    context = Context(tools=[look, look_better])
    call, unknown = ToolCall("a", "k", "look", "{}"), ToolCall("b", "k", "nope", "{}")

    assert context.resolve(call).tool is look_better
    assert [each.tool for each in context.resolve([call, unknown])] == [look_better, None]


def test_a_request_is_a_copy_of_what_the_run_knows() -> None:
    context = Context(
        messages=Messages.of("hi"),
        model=scripted("x", name="m"),
        system="be kind",
        tools=[look, look_better],
        params={"temperature": 0},
        max_tokens=9,
    )

    request = context.request()
    context.add("more")

    assert (request.model, request.system, request.max_tokens) == ("m", "be kind", 9)
    assert request.messages == (as_message("hi"),)
    assert [spec.description for spec in request.tools] == ["Look better."]
    assert request.params == {"temperature": 0}


def test_a_model_by_name_is_asked_by_that_name() -> None:
    register_provider("acme", lambda name: scripted("hi", name=name))

    assert Context(model="acme/x").request().model == "acme/x"


def test_a_run_without_a_model_says_so() -> None:
    with pytest.raises(SetupError, match="no model"):
        Context().port()


async def test_a_step_works_in_a_context_alone() -> None:
    async def count() -> int:
        return 3

    assert await Context().step("count", count) == 3


async def test_the_time_and_chance_are_to_be_had_in_a_context_alone() -> None:
    context = Context()

    now, chance = await context.now(), await context.random()

    assert abs(datetime.now(UTC) - now) < timedelta(seconds=10)
    assert 0 <= chance < 1
    assert not context.replaying


def test_a_tool_may_know_what_the_run_knows() -> None:
    context = Context(user="Ada", chat_id="c", run="run_1", approvals=["k"], auto=False)

    known = context.tool_context()

    assert (known.user, known.chat_id, known.run, known.auto) == ("Ada", "c", "run_1", False)
    assert known.approvals == {"k"}
    assert known.idempotency_key.startswith("run_1:")
