import asyncio
import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import loops as ai
from loops.blocks import Raw
from loops.errors import InvalidRequest, SetupError
from loops.events import Custom
from loops.kit import LLM, MemorySessions, ToolContext, default_loop
from loops.kit.batch import TOO_MANY
from loops.kit.deciding import CUT_OFF, GO_ON, MAX_CONTINUATIONS, MAX_PAUSES
from loops.kit.turn import Turn
from loops.tool_runner import CALLS_PER_TURN
from loops.tools import Tool, tool
from tests.kit.loop_talks import (
    BEAT,
    CALL,
    OTHER,
    PING,
    PRICE,
    asking,
    callouts,
    kept,
    logged,
    of,
    others,
    results,
    roles,
    texts,
    told,
    told_until_it_fails,
)
from tests.kit.providers import ScriptedProvider
from tests.kit.weather import WEATHER


async def test_two_rounds_of_tools_leave_all_six_messages() -> None:
    context = asking()

    events = await told(context, ScriptedProvider([[CALL], [OTHER], "Fine."]))

    messages = await kept(context)
    assert roles(messages) == ["user", "assistant"] * 3
    assert [each["tool_use_id"] for each in results(messages)] == ["c1", "c2"]
    assert texts(events).endswith("Fine.")


async def test_what_came_before_a_failure_is_kept() -> None:
    context = asking()
    provider = ScriptedProvider([[CALL], InvalidRequest("no such field")])

    events, error = await told_until_it_fails(context, provider)

    assert isinstance(error, InvalidRequest)
    assert roles(await kept(context)) == ["user", "assistant", "user"]
    [word] = of(events, "callout")
    assert word["style"] == "error"
    assert word["error_id"] in word["callout"]
    assert "no such field" not in word["callout"]


async def test_the_call_is_kept_before_it_is_carried_out() -> None:
    context = asking()
    before: list[Raw] = []

    async def look(inp: dict[str, Any]) -> str:
        before.extend(await kept(context))
        return "seen"

    await told(context, ScriptedProvider([[CALL], "Fine."]), handlers={"weather": look})

    assert roles(before) == ["user", "assistant"]
    assert before[1]["content"][0]["id"] == "c1"


async def test_what_is_said_is_kept_before_any_model_is_asked() -> None:
    context = asking("Hello?")
    before: list[Raw] = []

    async def answer(asked: dict[str, Any]) -> str:
        before.extend(await kept(context))
        return "Yes."

    await told(context, ScriptedProvider([answer]))

    assert before == [{"role": "user", "content": "Hello?"}]


async def test_a_call_without_what_it_needs_is_told_to_the_model() -> None:
    context = asking()

    await told(context, ScriptedProvider([[{**CALL, "input": {}}], "Which city?"]))

    [result] = results(await kept(context))
    assert result["tool_use_id"] == "c1"
    assert result["is_error"]
    assert result["content"].startswith("Error:")
    assert "'city'" in result["content"]


async def test_a_call_that_takes_too_long_has_one_result_that_says_so() -> None:
    async def slow(inp: dict[str, Any]) -> str:
        await asyncio.Event().wait()
        return "never"

    context = asking()
    llm = LLM().model(ScriptedProvider([[CALL], "Later."])).tools([WEATHER])

    async for _ in llm.on("weather", slow, timeout=BEAT).run(context=context):
        pass

    [result] = results(await kept(context))
    assert result["is_error"]
    assert "ToolTimedOut" in result["content"]


async def test_calls_of_one_reply_are_carried_out_side_by_side_and_each_is_answered() -> None:
    both = asyncio.Barrier(2)

    async def meet(inp: dict[str, Any]) -> str:
        await both.wait()
        if inp["city"] == "Rome":
            raise ValueError("storm")
        return "calm"

    context = asking()
    provider = ScriptedProvider([[CALL, OTHER], "Fine."])

    await told(context, provider, handlers={"weather": meet})

    first, second = results(await kept(context))
    assert (first["tool_use_id"], first.get("is_error")) == ("c1", True)
    assert second == {"type": "tool_result", "tool_use_id": "c2", "content": "calm"}


async def test_a_session_without_a_name_is_kept_nowhere() -> None:
    class Untouchable(MemorySessions):
        async def append(self, *_: Any) -> None:
            raise AssertionError("something is written")

    context = asking(chat_id=None, sessions=Untouchable())

    events = await told(context, ScriptedProvider([[CALL], "Fine."]))

    assert texts(events).endswith("Fine.")
    assert roles(context.messages.raw) == ["user", "assistant", "user", "assistant"]


async def test_a_run_without_a_session_is_told_all_that_it_was_given() -> None:
    before = [ai.user_message("I am Ann."), ai.assistant_message("Hello, Ann.")]
    provider = ScriptedProvider(["Ann."])

    await told(asking(*before, "Who am I?", chat_id=None), provider)

    told_to_the_model = [each["content"] for each in provider.asked[0]["messages"]]
    assert told_to_the_model == [
        "I am Ann.",
        [{"type": "text", "text": "Hello, Ann."}],
        "Who am I?",
    ]


async def test_a_reply_that_is_cut_off_is_gone_on_with() -> None:
    context = asking()
    cut = Turn([{"type": "text", "text": "One, "}], "max_tokens", output=9)

    events = await told(context, ScriptedProvider([cut, "two."]))

    assert texts(events) == "One, two."
    assert callouts(events) == []
    messages = await kept(context)
    assert roles(messages) == ["user", "assistant", "user", "assistant"]
    assert messages[2]["content"] == GO_ON


async def test_a_reply_that_is_cut_off_again_and_again_is_left_at_that() -> None:
    cut = Turn([{"type": "text", "text": "One, "}], "max_tokens", output=9)

    events = await told(asking(), ScriptedProvider([cut] * 5))

    going_on = [each for each in of(events, "step") if each["step"].startswith("Continuing")]
    assert len(going_on) == MAX_CONTINUATIONS == 4
    assert callouts(events) == ["Stopped: max_tokens"]


async def test_calls_of_a_reply_that_was_cut_off_are_not_carried_out() -> None:
    context = asking()
    cut = Turn([CALL], "max_tokens", output=9)

    def never(inp: dict[str, Any]) -> str:
        raise AssertionError("it is carried out")

    await told(context, ScriptedProvider([cut, "Fine."]), handlers={"weather": never})

    [result] = results(await kept(context))
    assert (result["content"], result["is_error"]) == (CUT_OFF, True)


async def test_a_reply_that_is_paused_is_asked_for_again() -> None:
    paused = Turn([{"type": "text", "text": "Hm. "}], "pause_turn", output=2)
    provider = ScriptedProvider([paused] * 9)

    events = await told(asking(), provider)

    assert len(provider.asked) == MAX_PAUSES + 1 == 9
    assert roles(provider.asked[1]["messages"]) == ["user", "assistant"]
    assert callouts(events) == ["Stopped: pause_turn"]


async def test_a_reply_that_says_it_calls_and_does_not_is_the_last() -> None:
    context = asking()
    nothing_called = Turn([{"type": "text", "text": "So."}], "tool_use", output=2)

    events = await told(context, ScriptedProvider([nothing_called]))

    assert texts(events) == "So."
    assert roles(await kept(context)) == ["user", "assistant"]


async def test_a_call_is_carried_out_whatever_the_reply_says_of_its_end() -> None:
    context = asking()

    await told(context, ScriptedProvider([Turn([CALL], "end_turn", output=2), "Fine."]))

    assert results(await kept(context))[0]["content"] == "sunny in Rome"


async def test_a_reply_without_text_at_the_limit_of_a_new_session_is_not_gone_on_with() -> None:
    provider = ScriptedProvider([Turn([], "max_tokens", input=100, output=0)])

    events = await told(asking(), provider)

    assert len(provider.asked) == 1
    assert callouts(events) == ["Stopped: max_tokens"]


def ending(function: Any, **options: Any) -> LLM:
    """Return an agent whose tool is the last that a run calls."""
    return LLM().tools([WEATHER]).on("weather", function, is_last=True, **options)


async def test_a_tool_may_be_the_last_of_a_run() -> None:
    context = asking()
    provider = ScriptedProvider([[CALL]])
    llm = ending(lambda inp: "asked").model(provider)

    _ = [each async for each in llm.run(context=context)]

    assert len(provider.asked) == 1
    messages = await kept(context)
    assert roles(messages) == ["user", "assistant", "user"]
    assert [each["tool_use_id"] for each in results(messages)] == ["c1"]


async def test_a_last_tool_that_fails_is_answered_by_the_model() -> None:
    def fail(inp: dict[str, Any]) -> str:
        raise ValueError("no question")

    provider = ScriptedProvider([[CALL], "Sorry."])

    events = [e async for e in ending(fail).model(provider).run(context=asking())]

    assert len(provider.asked) == 2
    assert texts(events) == "Sorry."


async def test_of_two_calls_of_a_tool_that_is_called_once_the_second_is_refused() -> None:
    context = asking()
    provider = ScriptedProvider([[CALL, OTHER]])
    llm = ending(lambda inp: "asked", once=True).model(provider)

    events = [each async for each in llm.run(context=context)]

    first, second = results(await kept(context))
    assert first["content"] == "asked"
    assert second["content"].startswith("Error: 'weather' may be called once")
    assert [each for each in events if each == "asked"] == ["asked"]


async def test_each_call_of_a_run_has_a_key_of_its_own() -> None:
    keys: list[str] = []

    def note(inp: dict[str, Any], ctx: ToolContext) -> str:
        keys.append(ctx.idempotency_key)
        return "noted"

    provider = ScriptedProvider([[CALL, OTHER], [{**CALL, "id": "c3"}], "Fine."])
    await told(asking(), provider, handlers={"weather": note})

    assert len(set(keys)) == len(keys) == 3


async def test_of_very_many_calls_only_so_many_are_carried_out() -> None:
    context = asking()
    calls = [{**CALL, "id": f"c{number}"} for number in range(CALLS_PER_TURN + 2)]

    await told(context, ScriptedProvider([calls, "Fine."]), handlers={"weather": lambda inp: "x"})

    answers = [each["content"] for each in results(await kept(context))]
    assert answers == ["x"] * CALLS_PER_TURN + [TOO_MANY] * 2


async def test_edits_of_one_file_keep_their_order(tmp_path: Path) -> None:
    context = asking(workspace=tmp_path)

    def edit(number: int, **arguments: Any) -> Raw:
        given = {"path": "a.txt", **arguments}
        return {"type": "tool_use", "id": f"e{number}", "name": "edit", "input": given}

    calls = [edit(0, command="create", file_text="0\n")]
    calls += [
        edit(number, command="str_replace", old_str=f"{number - 1}\n", new_str=f"{number}\n")
        for number in range(1, 9)
    ]

    await told(context, ScriptedProvider([calls, "Done."]), allowed_tools=["Editor"])

    assert [each.get("is_error") for each in results(await kept(context))] == [None] * 9
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "8\n"


async def test_signs_of_life_come_while_a_tool_takes_long() -> None:
    context = asking()

    async def slow(inp: dict[str, Any]) -> str:
        await asyncio.sleep(BEAT.total_seconds() * 4)
        return "at last"

    provider = ScriptedProvider([[CALL], "Fine."])

    events = await told(context, provider, handlers={"weather": slow}, heartbeat=BEAT)

    place = events.index("at last")
    assert PING in events[:place]
    assert PING not in events[place:]
    assert all("ping" not in str(each) for each in await kept(context))


async def test_signs_of_life_come_while_the_model_thinks_about_its_first_word() -> None:
    async def thought(asked: dict[str, Any]) -> str:
        await asyncio.sleep(BEAT.total_seconds() * 4)
        return "Yes."

    events = await told(asking(), ScriptedProvider([thought]), heartbeat=BEAT)

    assert events[0] == PING
    assert [each for each in events if each != PING] == ["Ye", "s."]


async def test_each_call_of_a_tool_is_a_row_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "loopmill.kit")

    await told(asking(), ScriptedProvider([[CALL, {**OTHER, "input": {}}], "Fine."]))

    rows = logged(caplog, "tool_call")
    assert [(row["tool_use_id"], row["tool"], row["ok"]) for row in rows] == [
        ("c1", "weather", True),
        ("c2", "weather", False),
    ]
    assert rows[0]["output_bytes"] == len("sunny in Rome")
    assert "sunny" not in str(rows)


async def test_each_reply_is_a_row_of_the_log_and_says_what_it_cost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "loopmill.kit")
    context = asking()
    provider = ScriptedProvider([[CALL], "Fine."])

    await told(context, provider, price=PRICE)

    rows = logged(caplog, "usage")
    assert [row["cost"] for row in rows] == ["0.000060", "0.000060"]
    assert [row["stop"] for row in rows] == ["tool_use", "end_turn"]
    assert [row["chat_id"] for row in rows] == ["chat", "chat"]


async def test_a_title_is_asked_for_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "loopmill.kit")
    provider = ScriptedProvider(["Sunny.", "Weather  in\nRome"])
    app = ai.App(agents={"chat": LLM().model(provider).price(**PRICE).titles()})

    async with app.start("chat", "How is the weather in Rome?") as stream:
        events = [event async for event in stream]

    [name] = [e.value for e in events if isinstance(e, Custom) and e.name == "ui"]
    assert name["title"] == "Weather in Rome"
    rows = logged(caplog, "usage")
    assert [row.get("title", False) for row in rows] == [False, True]
    assert stream.usage.cost == pytest.approx(sum(float(row["cost"]) for row in rows))


async def test_a_title_that_fails_fails_nothing() -> None:
    provider = ScriptedProvider(["Sunny.", InvalidRequest("no titles here")])

    events = await told(asking(), provider, titles=True)

    assert texts(events) == "Sunny."
    assert len(provider.asked) == 2
    assert of(events, "ui") == []


class Server:
    """A server that offers one tool."""

    def __init__(self, *, is_there: bool = True) -> None:
        self.name = "maps"
        self._is_there = is_there

    async def discover(self) -> list[Raw]:
        if not self._is_there:
            raise ConnectionError("nobody answers")
        return [{"name": "maps__route", "description": "Find a way.", "input_schema": {}}]

    def tool(self) -> Tool:
        @tool(name="mcp_maps")
        async def through(tool: str, arguments: dict[str, Any]) -> str:
            """Call a tool of the server."""
            return f"{tool} to {arguments['to']}: {'far ' * 1_000}"

        return through


ROUTE: Raw = {"type": "tool_use", "id": "r1", "name": "maps__route", "input": {"to": "Oslo"}}


async def test_the_tools_of_a_server_are_offered_and_called_and_shown_as_details() -> None:
    context = asking()
    provider = ScriptedProvider([[ROUTE], "Far."])
    llm = LLM().model(provider).mcp(Server())

    events = [each async for each in llm.run(context=context)]

    assert [each["name"] for each in provider.asked[0]["tools"]] == ["maps__route"]
    [result] = results(await kept(context))
    assert result["content"].startswith("route to Oslo: far far")
    ended = of(events, "step")[-1]
    assert (ended["id"], ended["ok"], len(ended["result"])) == ("r1", True, 3_002)
    assert texts(events) == "Far."


async def test_a_server_that_is_not_there_is_told_and_the_run_goes_on() -> None:
    events = await told(asking(), ScriptedProvider(["Fine."]), mcp=[Server(is_there=False)])

    assert callouts(events) == [
        "The tools of 'maps' are not there now; the run goes on without them."
    ]
    assert texts(events) == "Fine."


async def test_the_result_of_a_tool_with_details_is_shown_with_its_step_only() -> None:
    context = asking()
    provider = ScriptedProvider([[CALL], "Fine."])
    llm = LLM().model(provider).tools([WEATHER])

    llm = llm.on("weather", lambda inp: "x" * 4_000, has_details=True)
    events = [each async for each in llm.run(context=context)]

    assert texts(events) == "Fine."
    assert of(events, "step")[-1]["result"] == "x" * 3_000 + "\n…"
    assert results(await kept(context))[0]["content"] == "x" * 4_000


async def test_the_models_instructions_are_the_programs_and_nothing_else() -> None:
    provider = ScriptedProvider(["Ahoy."])

    await told(asking(), provider, system="You are a pirate.")

    assert provider.asked[0]["system"] == "You are a pirate."


async def test_what_is_not_known_to_the_loop_is_passed_over() -> None:
    events = await told(asking(), ScriptedProvider(["Fine."]), mentions=["x"], anything=1)

    assert texts(events) == "Fine."


async def test_without_a_model_the_loop_says_so() -> None:
    with pytest.raises(SetupError, match="the loop has no model"):
        _ = [each async for each in default_loop(context=asking())]


async def test_a_run_leaves_no_task_behind() -> None:
    await told(asking(), ScriptedProvider([[CALL], "Fine."]), heartbeat=timedelta(seconds=15))

    assert others() == set()
