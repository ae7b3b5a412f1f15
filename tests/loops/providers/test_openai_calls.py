"""Calls of Chat Completions replies, whatever marks them and however they are written."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

import loops as ai
from loops.fold import UNPARSED
from loops.providers.openai import OpenAIModel
from loops.providers.openai_wire import OpenAIReader
from loops.reply import ToolEnd
from tests.loops.providers import openai_wires as wires
from tests.loops.providers.openai_wires import call
from tests.loops.providers.service import Answer, serving

Told = dict[str, Any]


def called(*parts: bytes, reason: str | None = "tool_calls") -> list[tuple[str, str, str]]:
    events = OpenAIReader("openai/x").feed(wires.reply(*parts, reason=reason))
    return [(each.id, each.name, each.arguments) for each in events if isinstance(each, ToolEnd)]


# -- which delta is of which call

X, Y = '{"x":1}', '{"y":2}'
RIGHT = [call(0, "a", "f", X), call(1, "b", "g", Y)]


def growing(*marks: tuple[Any, Any]) -> list[Told]:
    """Return two calls that grow by turns, each delta with these: an index, an id."""
    said = [("f", '{"x'), ("g", '{"y'), (None, '":1}'), (None, '":2}')]
    return [call(*mark, *each) for mark, each in zip(marks, said, strict=True)]


DELTAS: Mapping[str, list[Told]] = {
    "as it should be": RIGHT,
    "as it should be, by turns": growing((0, "a"), (1, "b"), (0, None), (1, None)),
    "no index": [call(None, "a", "f", X), call(None, "b", "g", Y)],
    "no index, one after the other": [
        call(None, "a", "f", '{"x'), call(None, None, None, '":1}'),
        call(None, "b", "g", '{"y'), call(None, None, None, '":2}')],
    "no index, by turns": growing((None, "a"), (None, "b"), (None, "a"), (None, "b")),
    "an index of null": [{**each, "index": None} for each in RIGHT],
    "an index of null, later": [call(0, "a", "f", '{"x'), {**call(None, None, None, '":1}'),
                                                          "index": None}, RIGHT[1]],
    "an index in words": [call("0", "a", "f", X), call("1", "b", "g", Y)],
    "an index in words, by turns": growing(("0", "a"), ("1", "b"), ("0", None), ("1", None)),
    "an index that is no number": [call("one", "a", "f", X), call(True, "b", "g", Y)],
    "all zero": [call(0, "a", "f", X), call(0, "b", "g", Y)],
    "all zero, one after the other": [
        call(0, "a", "f", '{"x'), call(0, None, None, '":1}'),
        call(0, "b", "g", '{"y'), call(0, None, None, '":2}')],
    "all zero, by turns": growing((0, "a"), (0, "b"), (0, "a"), (0, "b")),
    "a gap": [call(0, "a", "f", X), call(2, "b", "g", Y)],
    "a gap, by turns": growing((0, "a"), (2, "b"), (0, None), (2, None)),
    "from one on": growing((1, "a"), (2, "b"), (1, None), (2, None)),
    "descending": [call(1, "a", "f", X), call(0, "b", "g", Y)],
    "descending, by turns": growing((1, "a"), (0, "b"), (1, None), (0, None)),
    "an id in each delta": growing((0, "a"), (1, "b"), (0, "a"), (1, "b")),
    "an empty id later": growing((0, "a"), (1, "b"), (0, ""), (1, "")),
    "an id that comes late": [call(0, None, "f", X), call(0, "a"), RIGHT[1]],
    "an id alone, then the rest": [call(0, "a"), call(0, None, "f", X), RIGHT[1]],
    "a name in pieces": [call(0, "a", "loo"), call(0, None, "k"), call(0, None, None, X), RIGHT[1]],
    "a name in pieces, an id in each": [
        call(0, "a", "loo"), call(0, "a", "k"), call(0, "a", None, X), RIGHT[1]],
    "a name again": [call(0, "a", "f"), call(0, None, "f", X), RIGHT[1]],
    "a name again in each delta": [
        call(0, "a", "f", '{"x'), call(0, "a", "f", '":1}'), call(1, "b", "g", '{"y'),
        call(1, "b", "g", '":2}')],
    "arguments before a name": [call(0, "a", None, X), call(0, None, "f"), RIGHT[1]],
}  # fmt: skip


@pytest.mark.parametrize("name", DELTAS)
def test_two_calls_are_two_whatever_marks_them(name: str) -> None:
    first = "look" if "pieces" in name else "f"

    assert called(wires.calls(*DELTAS[name])) == [("a", first, X), ("b", "g", Y)]


@pytest.mark.parametrize("name", ["f", "g"])
def test_calls_without_any_mark_are_told_apart(name: str) -> None:
    one, two = call(None, None, "f", X), call(None, None, name, X)

    assert called(wires.calls(one, two)) == [("", "f", X), ("", name, X)]


F, G = ("f", '{"a":1}'), ("g", '{"b":2}')


@pytest.mark.parametrize(
    ("deltas", "told"),
    [
        ([call(0, "x", *F), call(1, "x", *G)], [("x", *F), ("x", *G)]),
        ([call(0, "", *F), call(0, "", *G)], [("", *F), ("", *G)]),
        ([call(0, None, *F), call(0, "b", *G)], [("", *F), ("b", *G)]),
        ([call(0, None, *F), call(1, None, *G), call(0, "a"), call(1, "b")],
         [("a", *F), ("b", *G)]),
        ([call(None, None, *F), call(None, None, "f", "")], [("", *F)]),
        ([call(0, "x", None, F[1]), call(0, None, "f")], [("x", *F)]),
        ([call("9" * 5000, "x", *F)], [("x", *F)]),
    ],
    ids=["one id for two", "empty ids", "a new id after none", "late ids by turns",
         "a name again at the end", "a late name", "an endless index"],
)  # fmt: skip
def test_calls_that_are_marked_badly_are_told_apart(deltas: list[Any], told: list[Any]) -> None:
    assert called(wires.calls(*deltas)) == told


def test_a_call_that_was_cut_before_its_arguments_is_not_one_without_any() -> None:
    assert called(wires.calls(call(0, "a", "f")), reason="length") == [("a", "f", "{")]


def test_arguments_that_nobody_could_read_are_no_call_without_any() -> None:
    deep: Any = {}
    for _ in range(300):
        deep = {"a": deep}
    told = json.dumps({"choices": [{"delta": {"tool_calls": [call(0, "a", "f", deep)]}}]})

    assert called(wires.data(told.encode())) == [("a", "f", "{")]


# -- how arguments are written


@pytest.mark.parametrize(
    ("pieces", "arguments"),
    [
        ([{"x": 1}], X),
        (["", {"x": 1}], X),
        ([None, X], X),
        ([None], "{}"),
        ([""], "{}"),
        (["null"], "{}"),
        ([" "], "{}"),
        (['"{\\"x\\":1}"'], X),
        (['"{\\"x', '\\":1}"'], X),
        (['"{}"'], "{}"),
        ([f" {X} "], X),
        (["{x:1}"], "{x:1}"),
        (['"text"'], '"text"'),
        ([["x"]], '["x"]'),
    ],
    ids=["an object", "an object, after nothing", "null, then text", "null", "nothing",
         "null in words", "spaces", "written twice", "written twice, in pieces", "nothing, twice",
         "with spaces", "no JSON", "text", "a list"],
)  # fmt: skip
def test_arguments_are_one_object_in_whatever_disguise(pieces: list[Any], arguments: str) -> None:
    deltas = [call(0, "a", "f"), *({"index": 0, "function": {"arguments": p}} for p in pieces)]

    assert called(wires.calls(*deltas)) == [("a", "f", arguments)]


def test_a_call_of_the_first_protocol_is_a_call() -> None:
    deltas = [{"name": "f", "arguments": '{"x"'}, {"arguments": ":1}"}]
    parts = [wires.chunk({"function_call": delta}) for delta in deltas]

    assert called(*parts, reason="function_call") == [("", "f", X)]


# -- calls and why the reply ended


class World:
    """An agent at the service, and what its tool was given."""

    def __init__(self) -> None:
        self.given: list[int] = []

    async def run(self, *parts: bytes, reason: str | None) -> list[str]:
        """Return what the model is told of its calls; none when it is not asked again."""

        @ai.tool
        async def f(x: int) -> str:
            """Note a number."""
            self.given.append(x)
            return "noted"

        says = wires.reply(wires.said("so"))
        async with serving(Answer([wires.reply(*parts, reason=reason)]), Answer([says])) as service:
            model = OpenAIModel("m", base_url=service.url)
            app = ai.App(agents={"agent": ai.Agent(model=model, tools=[f])})
            outcome = await app.run("agent", "go")
        self.asked, told = len(service.asked), service.asked[-1].body["messages"]
        self.input = [call.input for each in outcome.messages for call in each.tool_calls]
        return [message["content"] for message in told if message["role"] == "tool"]


ONE, HALF = wires.calls(call(0, "a", "f", X)), wires.calls(call(1, "b", "f", '{"x'))


@pytest.mark.parametrize("reason", ["stop", "tool_calls", "length", "function_call", None, "new"])
async def test_whole_calls_are_carried_out_whatever_the_reason(reason: str | None) -> None:
    world = World()

    assert await world.run(ONE, wires.calls(call(1, "b", "f", Y.replace("y", "x"))),
                           reason=reason) == ["noted", "noted"]  # fmt: skip
    assert sorted(world.given) == [1, 2]


@pytest.mark.parametrize("reason", ["stop", "tool_calls", "length", None])
async def test_a_call_that_was_cut_is_told_as_an_error(reason: str | None) -> None:
    world = World()

    told = await world.run(ONE, HALF, reason=reason)

    assert world.given == [1]
    assert told[0] == "noted"
    assert told[1].startswith("[error] ")
    assert world.input == [{"x": 1}, {UNPARSED: '{"x'}]


async def test_a_call_that_was_cut_before_its_arguments_is_told_as_an_error() -> None:
    world = World()

    told = await world.run(ONE, wires.calls(call(1, "b", "f")), reason="length")

    assert (world.given, told[0]) == ([1], "noted")
    assert told[1].startswith("[error] ")


@pytest.mark.parametrize("reason", ["stop", "tool_calls", "length", "function_call", None, "new"])
async def test_without_a_call_the_turn_ends_whatever_the_reason(reason: str | None) -> None:
    world = World()

    assert await world.run(wires.said("so"), reason=reason) == []
    assert world.asked == 1
