import asyncio
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import loops as ai
from loops.approval import approval_key
from loops.blocks import Raw
from loops.events import Custom, HookEvent
from loops.kit import LLM, ToolContext, dispatch, make_provider
from loops.kit.dispatch import Desk
from loops.kit.planned import Failure, Planned
from loops.kit.risk import risk
from loops.kit.shaping import Output, shaped
from loops.kit.toolbox import Entry, build_tools, capabilities
from loops.kit.turn import Turn
from loops.local import LocalRuntime
from loops.providers.scripted import call, call_with, in_turn, scripted
from loops.runtime import Scope, scoped
from tests.agents.runtimes import in_process, when_asked
from tests.kit.loop_talks import CALL, asking, kept, of, results
from tests.kit.providers import ScriptedProvider
from tests.kit.weather import WEATHER, weather


async def answered(
    block: Raw, handlers: Mapping[str, Any] | None = None, **more: Any
) -> tuple[Raw, Any]:
    """Return what the reader is shown of a call, and its answer."""
    step, answer = dispatch(block, None, 5.0, handlers, **more)
    return step, await answer


def called(name: str, given: Any = None) -> Raw:
    """Return a call as it may stand in a turn."""
    return {"type": "tool_use", "id": "c1", "name": name, "input": {} if given is None else given}


async def test_a_call_has_a_step_and_an_answer() -> None:
    step, answer = await answered(CALL, {"weather": weather})

    assert step == {"type": "step", "step": "Rome", "tool_name": "weather", "id": "c1"}
    assert answer == "sunny in Rome"


async def test_nothing_is_done_before_the_answer_is_awaited() -> None:
    done: list[Any] = []

    _, answer = dispatch(CALL, None, 5.0, {"weather": done.append})
    before = list(done)
    await answer

    assert (before, done) == ([], [{"city": "Rome"}])


async def test_a_tool_that_there_is_not_is_refused() -> None:
    step, answer = await answered(called("no_such_tool"), {"weather": weather})

    assert step["ok"] is False
    assert isinstance(answer, Failure)
    assert answer == "Error: there is no tool named 'no_such_tool' that you may call"


async def test_a_tool_that_was_not_offered_is_refused(tmp_path: Path) -> None:
    block = called("edit", {"path": "a.txt", "command": "create", "file_text": "x"})

    _, answer = dispatch(block, tmp_path, 5.0, offered={"weather"})

    assert (await answer).startswith("Error: there is no tool named 'edit'")
    assert not (tmp_path / "a.txt").exists()


async def test_a_built_in_tool_that_nobody_offered_is_refused() -> None:
    _, answer = await answered(called("bash", {"command": "true"}))

    assert answer.startswith("Error: there is no tool named 'bash'")


async def test_a_built_in_tool_that_was_offered_is_carried_out(tmp_path: Path) -> None:
    block = called("edit", {"path": "a.txt", "command": "create", "file_text": "x"})

    step, answer = dispatch(block, tmp_path, 5.0, offered={"edit"})
    await answer

    assert step["step"] == "Editing"
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "x"


async def test_a_block_of_a_reply_knows_what_its_model_was_offered(tmp_path: Path) -> None:
    provider = make_provider(
        scripted([call("edit", path="a.txt", command="create", file_text="x"), call("bash")])
    )
    asked = {"messages": [{"role": "user", "content": "Go."}], "system": "", "max_tokens": 9}

    events = [e async for e in provider.stream(tools=build_tools(["Editor"], []), **asked)]
    outcomes = [await dispatch(block, tmp_path, 5.0)[1] for block in events[-1].calls]

    assert "a.txt" in str(outcomes[0])
    assert not isinstance(outcomes[0], Failure)
    assert isinstance(outcomes[1], Failure)


def plain(inp: dict[str, Any]) -> str:
    return f"plain {inp['city']}"


def plain_with_context(inp: dict[str, Any], ctx: ToolContext) -> str:
    return f"{ctx.user} asks for {inp['city']}"


async def awaited(inp: dict[str, Any]) -> str:
    return f"awaited {inp['city']}"


class Object:
    async def __call__(self, inp: dict[str, Any]) -> str:
        return f"object {inp['city']}"


@pytest.mark.parametrize(
    ("handler", "answer"),
    [
        (plain, "plain Rome"),
        (plain_with_context, "Ann asks for Rome"),
        (awaited, "awaited Rome"),
        (Object(), "object Rome"),
    ],
)
async def test_a_handler_is_any_function_of_the_arguments(handler: Any, answer: str) -> None:
    _, given = await answered(CALL, {"weather": handler}, ctx=ToolContext(user="Ann"))

    assert given == answer


def raising(error: BaseException) -> Any:
    def handler(inp: dict[str, Any]) -> str:
        raise error

    return handler


def raising_awaited(error: BaseException) -> Any:
    async def handler(inp: dict[str, Any]) -> str:
        raise error

    return handler


@pytest.mark.parametrize("make", [raising, raising_awaited])
@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (ValueError("storm"), "Error: ValueError: storm"),
        (ExceptionGroup("two", [ValueError("storm")]), "Error: ValueError: storm"),
        (SystemExit(1), "Error: SystemExit: 1"),
        (asyncio.CancelledError(), "Error: CancelledError"),
    ],
    ids=str,
)
async def test_whatever_a_handler_raises_is_its_answer(
    make: Any, error: BaseException, answer: str
) -> None:
    _, given = await answered(CALL, {"weather": make(error)})

    assert isinstance(given, Failure)
    assert given.startswith(answer)


@pytest.mark.parametrize("given", [None, "text", 7, ["a"], {"city": {1, 2}}, {"city": object()}])
async def test_whatever_the_arguments_there_is_an_answer(given: Any) -> None:
    block = {"type": "tool_use", "id": "c1", "name": "weather", "input": given}

    step, answer = await answered(block, {"weather": lambda inp: f"got {sorted(inp)}"})

    assert step["type"] == "step"
    assert isinstance(answer, str)


@pytest.mark.parametrize(
    "block",
    [{}, {"name": None}, {"name": "weather"}, {"id": 7, "name": ["x"], "input": {}}],
)
async def test_whatever_the_block_there_is_an_answer(block: Raw) -> None:
    step, answer = await answered(block, {"weather": lambda inp: "fine"})

    assert step["type"] == "step"
    assert isinstance(answer, str)


async def test_arguments_that_are_no_object_are_told_to_the_model() -> None:
    provider = make_provider(scripted([call_with("weather", '{"city": Rome}')]))
    asked = {"messages": [{"role": "user", "content": "Go."}], "system": "", "max_tokens": 9}
    events = [each async for each in provider.stream(tools=[WEATHER], **asked)]
    [block] = events[-1].calls

    _, answer = await answered(block, {"weather": weather})

    assert answer.startswith("Error: InvalidArguments")


async def test_a_tool_that_is_called_once_is_refused_the_second_time() -> None:
    llm = LLM().tools([WEATHER]).on("weather", weather, once=True)
    model = scripted(in_turn([call("weather", city="Rome"), call("weather", city="Oslo")], "Fine."))

    outcome = await in_process(llm.model(model), "Go.")

    first, second = outcome.history[2]["content"]
    assert "is_error" not in first
    assert second["content"] == "Error: 'weather' may be called once in a turn"


@pytest.mark.parametrize(
    ("label", "arguments", "shown"),
    [
        (None, {"n": 1, "city": " Rome "}, "Rome"),
        (None, {"n": 1}, ""),
        (None, {"text": "x" * 200}, "x" * 119 + "…"),
        ("Looking", {"city": "Rome"}, "Looking"),
        (lambda inp: f"To {inp['city']}", {"city": "Rome"}, "To Rome"),
        (lambda inp: inp["nothing"], {"city": "Rome"}, "weather"),
    ],
    ids=["text", "no text", "long", "own", "of the arguments", "broken"],
)
async def test_a_step_is_shown_by_its_label(label: Any, arguments: Raw, shown: str) -> None:
    llm = LLM().on("weather", weather, label=label)
    llm = llm.model(ScriptedProvider([[{**CALL, "input": arguments}], "Fine."]))

    events = [each async for each in llm.tools([WEATHER]).run(context=asking())]

    last = of(events, "step")[1]["step"]
    assert last[:119] == shown[:119]
    assert len(last) <= 121


async def test_labels_are_each_agents_own() -> None:
    shown: list[str] = []

    for label in ("Here", "There"):
        llm = LLM().tools([WEATHER]).on("weather", weather, label=label)
        llm = llm.model(ScriptedProvider([[CALL], "Fine."]))
        events = [each async for each in llm.run(context=asking())]
        shown.append(of(events, "step")[1]["step"])

    assert shown == ["Here", "There"]


async def test_a_command_has_no_more_time_than_it_may_have() -> None:
    limits: list[Any] = []

    def command(inp: dict[str, Any]) -> str:
        limits.append(inp.get("timeout"))
        return ""

    for asked in (None, 2_000, 60_000_000, -1, "long"):
        given = {"command": "true"} | ({} if asked is None else {"timeout": asked})
        await answered(called("bash", given), {"bash": command})

    assert limits == [5_000, 2_000, 5_000, 5_000, 5_000]


BASH = {"name": "bash", "description": "Run it.", "input_schema": {"type": "object"}}
CLEAN = {"command": "git clean -fdx", "description": "tidy up"}


def cleaner(done: list[Any], **fields: Any) -> LLM:
    """Return an agent that wants to run something that destroys."""
    model = scripted(in_turn([call("bash", **CLEAN)], "Fine."))
    return LLM().model(model).tools([BASH]).on("bash", done.append)


async def test_a_person_is_asked_before_something_is_destroyed() -> None:
    done: list[Any] = []

    outcome = await in_process(cleaner(done), "Go.", when_asked({"granted": True}))

    cards = [e.value for e in outcome.of(Custom) if e.value.get("action") == "confirm"]
    [card] = cards
    assert (card["tool"], card["risk"], card["args"]) == ("bash", "destructive", CLEAN)
    [opened] = [each for each in outcome.of(HookEvent) if each.status == "opened"]
    assert card["label"] == opened.label
    assert card["key"] == approval_key("bash", CLEAN)
    assert [each["command"] for each in done] == [CLEAN["command"]]


async def test_what_a_person_does_not_grant_is_not_done() -> None:
    done: list[Any] = []

    outcome = await in_process(
        cleaner(done), "Go.", when_asked({"granted": False, "reason": "not now"})
    )

    assert done == []
    [result] = outcome.history[2]["content"]
    assert result["is_error"]
    assert "not now" in result["content"]


@pytest.mark.parametrize("fields", ["approvals", "declined"])
async def test_what_a_person_has_said_before_is_not_asked_again(fields: str) -> None:
    done: list[Any] = []
    context = asking(**{fields: [approval_key("bash", CLEAN)]})
    llm = cleaner(done).model(ScriptedProvider([[CLEANING], "Fine."]))

    events = [each async for each in llm.run(context=context)]

    assert of(events, "ui") == []
    [result] = results(await kept(context))
    assert bool(done) is (fields == "approvals")
    assert result.get("is_error", False) is (fields == "declined")


async def test_a_tool_of_ones_own_may_ask_a_person() -> None:
    llm = LLM().tools([WEATHER]).on("weather", weather, require_approval=True)
    model = scripted(in_turn([call("weather", city="Rome")], "Fine."))

    outcome = await in_process(llm.model(model), "Go.", when_asked({"granted": True}))

    assert [each.status for each in outcome.of(HookEvent)] == ["opened", "resolved"]
    assert outcome.history[2]["content"][0]["content"] == "sunny in Rome"


def test_a_key_is_that_of_the_call_however_it_is_explained() -> None:
    key = approval_key("bash", {"command": "ls", "description": "look"})

    assert key == approval_key("bash", {"command": "ls", "description": "just look"})
    assert key != approval_key("bash", {"command": "ls", "reason": "why not"})
    assert approval_key("mail", {"description": "a"}) != approval_key("mail", {"description": "b"})
    assert len(key.partition(":")[2]) == 32
    assert key != approval_key("bash", {"command": "ls -a"})
    assert key != approval_key("edit", {"command": "ls"})


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("ls -la && cat a.txt | grep x", None),
        ("ls > out", "write"),
        ("echo $(touch x)", "write"),
        ("awk 'BEGIN{system(\"rm x\")}'", "write"),
        ("sort -o a.txt a.txt", "write"),
        ("git push --force origin main", "destructive"),
        ("find . -name x -delete", "destructive"),
        ("rm -rf /", "destructive"),
        ("dd if=/dev/zero of=/dev/sda", "destructive"),
        ("python -c 'import shutil; shutil.rmtree(\"x\")'", "destructive"),
    ],
)
def test_what_a_command_may_do_is_told_by_its_words(command: str, told: str | None) -> None:
    assert risk("bash", {"command": command}) == told


def test_what_other_tools_may_do_is_told_by_their_names() -> None:
    told = {name: risk(name, {"path": "x"}) for name in ("edit", "read", "web_fetch", "weather")}

    assert told == {"edit": "write", "read": None, "web_fetch": None, "weather": None}


async def test_without_trust_a_person_is_asked_before_anything_is_written(tmp_path: Path) -> None:
    block = called("edit", {"path": "a.txt", "command": "create", "file_text": "x"})

    for auto, exists in ((False, False), (True, True)):
        ctx = ToolContext(auto=auto)
        _, answer = dispatch(block, tmp_path, 5.0, offered={"edit"}, ctx=ctx)
        given = await answer
        assert (isinstance(given, dict) and given["action"] == "confirm") is not auto
        assert (tmp_path / "a.txt").exists() is exists


CLEANING: Raw = {"type": "tool_use", "id": "b1", "name": "bash", "input": CLEAN}


async def test_where_nobody_can_answer_the_card_ends_the_run_and_the_next_one_is_granted() -> None:
    done: list[Any] = []
    context = asking()
    calls = [CLEANING, {**CLEANING, "id": "b2", "input": {"command": "ls"}}]
    llm = cleaner(done).model(ScriptedProvider([calls]))

    first = [each async for each in llm.run(context=context)]
    [card] = of(first, "ui")
    again = asking("Do it.", sessions=context.sessions, approvals=[card["key"]])
    llm = cleaner(done).model(ScriptedProvider([[{**CLEANING, "id": "b3"}], "Done."]))
    second = [each async for each in llm.run(context=again)]

    assert (card["action"], card["id"]) == ("confirm", "b1")
    assert [each["command"] for each in done] == ["ls", CLEAN["command"]]
    assert of(second, "ui") == []
    assert [each["tool_use_id"] for each in results(await kept(context))] == ["b1", "b2", "b3"]


async def shaping(given: Any, **options: Any) -> Output:
    """Return what becomes of what a tool gives."""
    _, answer = dispatch(called("t"), None, 5.0, {"t": lambda inp: given})
    entry = Entry(capabilities()["WebFetch"][0].tool, **options)
    step = {"type": "step"}

    async def work() -> Any:
        return None

    return shaped(Planned(called("t"), step, work, entry), await answer)


async def test_a_tool_may_say_what_the_model_and_what_the_reader_is_told() -> None:
    sources = {"type": "sources", "sources": []}

    output = await shaping({"_model": {"found": 2}, "_ui": [sources, "see"]})

    assert output.content == '{"found":2}'
    assert output.shown == [{**sources, "id": "c1"}, "see"]
    assert not output.ends


async def test_what_the_reader_is_told_may_be_left_out() -> None:
    output = await shaping({"_model": "for the model"}, is_shown=True)

    assert (output.content, output.shown) == ("for the model", [])


@pytest.mark.parametrize(
    ("card", "told", "ends"),
    [
        ({"action": "confirm", "ack": "Wait."}, "Wait.", True),
        ({"action": "connect"}, "Opened the file for the user.", True),
        ({"action": "open", "name": "a.txt"}, "Opened a.txt for the user.", False),
    ],
)
async def test_a_card_is_shown_and_may_hand_over_to_the_person(
    card: Raw, told: str, ends: bool
) -> None:
    output = await shaping({"type": "ui", **card})

    assert (output.content, output.ends) == (told, ends)
    shown = {name: value for name, value in card.items() if name != "ack"}
    assert output.shown == [{"type": "ui", **shown, "id": "c1"}]


@pytest.mark.parametrize(
    ("given", "told", "shown"),
    [
        ("text", "text", ["text"]),
        (None, "null", []),
        ({"a": 1}, '{"a":1}', []),
        ({"type": "status", "status": "x"}, '{"type":"status","status":"x"}', ["itself"]),
        ([{"type": "text", "text": "x"}], [{"type": "text", "text": "x"}], []),
        ([], "[]", []),
    ],
    ids=str,
)
async def test_what_a_tool_gives_is_shown_where_it_can_be(
    given: Any, told: Any, shown: list[Any]
) -> None:
    output = await shaping(given, is_shown=True)

    assert output.content == told
    assert output.shown == ([given] if shown else [])


async def test_a_result_says_whether_it_is_a_failure() -> None:
    failed = await shaping(Failure("Error: no"))
    fine = await shaping("fine")

    assert failed.block("c1") == {
        "type": "tool_result",
        "tool_use_id": "c1",
        "content": "Error: no",
    }
    assert "is_error" not in fine.block("c1")


async def test_a_tool_that_takes_too_long_is_left() -> None:
    async def slow(inp: dict[str, Any]) -> str:
        await asyncio.Event().wait()
        return "never"

    llm = LLM().tools([WEATHER]).on("weather", slow, timeout=timedelta(milliseconds=5))
    model = scripted(in_turn([call("weather", city="Rome")], "Later."))

    outcome = await in_process(llm.model(model), "Go.")

    [result] = outcome.history[2]["content"]
    assert result["content"].startswith("Error: ToolTimedOut")


async def test_no_more_calls_of_a_tool_run_at_one_time_than_may() -> None:
    running: list[int] = [0, 0]

    async def counted(inp: dict[str, Any]) -> str:
        running[0] += 1
        running[1] = max(running)
        await asyncio.sleep(0.001)
        running[0] -= 1
        return "ok"

    llm = LLM().tools([WEATHER]).on("weather", counted, concurrency=2)
    calls = [call("weather", city=str(number)) for number in range(6)]

    outcome = await in_process(llm.model(scripted(in_turn(calls, "Fine."))), "Go.")

    assert running == [0, 2]
    assert len(outcome.history[2]["content"]) == 6


def test_a_turn_says_what_it_calls_and_what_it_says() -> None:
    turn = Turn([{"type": "text", "text": "a"}, CALL, {"type": "text", "text": "b"}], "tool_use")

    assert (turn.calls, turn.text) == ([CALL], "ab")


@pytest.mark.parametrize("piece", ["r", "rm -", "dd ", "find ", "git push ", "> ", "drop "])
def test_a_command_that_is_too_long_to_look_at_may_destroy(piece: str) -> None:
    assert risk("bash", {"command": piece * 20_000}) == "destructive"


@pytest.mark.parametrize(
    "command",
    [
        *("rm --recursive --force /workspace", "git push origin +main", "rm -rf", "sudo rm -r x"),
        *('sh -c "rm -rf x"', "find . -delete", "ls | xargs rm -f", "/bin/rm -R x"),
    ],
)
def test_what_destroys_is_known_however_it_is_written(command: str) -> None:
    assert risk("bash", {"command": command}) == "destructive"


async def test_a_handler_that_a_loop_wraps_keeps_what_was_said_of_it() -> None:
    llm = LLM().tools([WEATHER]).on("weather", weather, require_approval=True)
    wrapped = {"weather": lambda inp: weather(inp, ToolContext())}
    scope = Scope(LocalRuntime(), ai.Context(), llm)

    with scoped(scope):
        planned = Desk(None, 1, wrapped).plan(
            {"name": "weather", "id": "c", "input": {"city": "x"}}
        )

    assert planned.entry is not None
    assert planned.entry.tool.require_approval is True
