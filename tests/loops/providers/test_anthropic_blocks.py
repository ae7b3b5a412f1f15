"""The blocks of Anthropic's replies that are odd, new or wrong, case by case."""

from collections.abc import Mapping
from typing import Any

import pytest

import loops as ai
from loops.errors import Unavailable
from loops.fold import UNPARSED, fold
from loops.providers.anthropic import AnthropicModel
from loops.providers.anthropic_wire import AnthropicReader
from loops.reply import BuiltinToolDelta, BuiltinToolEnd, ModelEvent, ToolEnd
from tests.loops.providers import anthropic_wires as wires
from tests.loops.providers.service import Answer, serving

Told = dict[str, Any]


def read(*parts: bytes) -> list[ModelEvent]:
    return list(AnthropicReader("anthropic/x").feed(wires.reply(*parts)))


def blocks(*parts: bytes) -> list[Told]:
    return [each.raw() for each in fold(read(*parts)).content]


class World:
    """An agent at the service, and what its tool was given."""

    def __init__(self) -> None:
        self.given: list[Any] = []

    async def run(self, *answers: bytes) -> tuple[ai.RunOutcome, list[Told]]:
        """Return what the run came to, and the messages of the last request."""

        @ai.tool
        async def note(x: int | None = None) -> str:
            """Note a number."""
            self.given.append(x)
            return "noted"

        async with serving(*(Answer([each]) for each in answers)) as service:
            model = AnthropicModel("m", base_url=service.url, api_key="k", caches=False)
            app = ai.App(agents={"agent": ai.Agent(model=model, tools=[note])})
            outcome = await app.run("agent", "go")
        return outcome, service.asked[-1].body["messages"]


SAYS = wires.reply(wires.said(0, "so"))


def asks(*pieces: str) -> bytes:
    return wires.reply(wires.called(0, "note", *pieces), stop_reason="tool_use")


# -- calls without arguments, and with wrong ones


@pytest.mark.parametrize("pieces", [(), ("",), ("", ""), ("{}",)], ids=repr)
async def test_a_call_without_arguments_is_carried_out(pieces: tuple[str, ...]) -> None:
    world = World()

    outcome, told = await world.run(asks(*pieces), SAYS)

    assert (world.given, outcome.output) == ([None], "so")
    assert told[1]["content"][0]["input"] == {}
    assert told[2]["content"][0]["content"] == "noted"


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded"])
async def test_a_call_that_was_cut_before_its_arguments_is_not_carried_out(reason: str) -> None:
    world = World()

    _, told = await world.run(wires.reply(wires.called(0, "note"), stop_reason=reason), SAYS)

    assert world.given == []
    assert told[2]["content"][0]["is_error"]


@pytest.mark.parametrize(
    "arguments",
    ["{x:1}", '{"x":1', "[1]", '"x"', "1", "nothing", '{"x":NaN}', "{'x':1}", '{"x":1}}'],
)
async def test_arguments_that_are_no_object_are_told_to_the_model_and_kept(arguments: str) -> None:
    world = World()

    outcome, told = await world.run(asks(arguments), SAYS)

    [result] = told[2]["content"]
    assert (world.given, outcome.output) == ([], "so")
    assert result["is_error"]
    assert "not valid" in result["content"]
    assert told[1]["content"][0]["input"] == {UNPARSED: arguments}
    assert [e.arguments for e in outcome.events if isinstance(e, ToolEnd)] == [arguments]


# -- blocks that grow by turns


def begun(index: int, block: Told) -> bytes:
    return wires.event("content_block_start", index=index, content_block=block)


def grown(index: int, **delta: Any) -> bytes:
    return wires.event("content_block_delta", index=index, delta=delta)


def closed(index: int) -> bytes:
    return wires.event("content_block_stop", index=index)


def call(call_id: str) -> Told:
    return {"type": "tool_use", "id": call_id, "name": "f", "input": {}}


def test_two_calls_that_grow_by_turns_are_put_together_each_for_itself() -> None:
    parts = [begun(4, call("a")), begun(9, call("b"))]
    for index, text in [(4, '{"x"'), (9, '{"y"'), (4, ":1}"), (9, ":2}")]:
        parts.append(grown(index, type="input_json_delta", partial_json=text))

    told = read(*parts, closed(9), closed(4))

    ends = [each for each in told if isinstance(each, ToolEnd)]
    assert {each.id: each.arguments for each in ends} == {"a": '{"x":1}', "b": '{"y":2}'}
    assert [block["input"] for block in blocks(*parts, closed(9), closed(4))] == [
        {"x": 1},
        {"y": 2},
    ]


# -- what we do not know


@pytest.mark.parametrize("news", [{"type": "of_next_year"}, {"type": "x", "index": 0}, {"no": 1}])
def test_an_event_that_is_not_known_is_passed_over(news: Told) -> None:
    event = b"data: %b\n\n" % str(news).replace("'", '"').encode()

    assert blocks(event, begun(0, {"type": "text", "text": ""}), event,
                  grown(0, type="text_delta", text="a"), event, closed(0), event) == [
        {"type": "text", "text": "a"}
    ]  # fmt: skip


NEW = {"type": "of_next_year", "text": "", "input": {}, "parts": [1], "at": {"a": 1}}

GROWTHS: Mapping[str, tuple[Told, list[Told], Told]] = {
    "by nothing": (NEW, [], {}),
    "by deltas of its own": (NEW, [{"type": "new_delta", "content": "a"},
                                   {"type": "new_delta", "content": "b", "n": 1}],
                             {"content": "ab", "n": 1}),
    "by text": (NEW, [{"type": "text_delta", "text": "a"}, {"type": "text_delta", "text": "b"}],
                {"text": "ab"}),
    "by thinking": (NEW, [{"type": "thinking_delta", "thinking": "hm"}], {"thinking": "hm"}),
    "by arguments": (NEW, [{"type": "input_json_delta", "partial_json": '{"x"'},
                           {"type": "input_json_delta", "partial_json": ":1}"}],
                     {"input": {"x": 1}}),
    "by a signature": (NEW, [{"type": "signature_delta", "signature": "s"}], {"signature": "s"}),
    "by citations": (NEW, [{"type": "citations_delta", "citation": {"a": 1}},
                           {"type": "citations_delta", "citation": {"b": 2}}],
                     {"citations": [{"a": 1}, {"b": 2}]}),
    "by lists and objects": (NEW, [{"type": "new_delta", "parts": [2], "at": {"b": 2}}],
                             {"parts": [1, 2], "at": {"a": 1, "b": 2}}),
    "by null": (NEW, [{"type": "new_delta", "at": None, "more": None}],
                {"at": {"a": 1}, "more": None}),
}  # fmt: skip


@pytest.mark.parametrize("name", GROWTHS)
def test_a_block_that_is_not_known_grows_by_whatever_comes(name: str) -> None:
    begins, deltas, more = GROWTHS[name]

    assert blocks(wires.block(0, begins, *deltas)) == [{**begins, **more}]


@pytest.mark.parametrize("name", GROWTHS)
async def test_a_block_that_is_not_known_goes_back_word_for_word(name: str) -> None:
    begins, deltas, more = GROWTHS[name]
    new = wires.block(0, begins, *deltas)
    asked = wires.reply(new, wires.called(1, "note"), stop_reason="tool_use")

    _, told = await World().run(asked, SAYS)

    assert told[1]["content"][0] == {**begins, **more}


@pytest.mark.parametrize("kind", ["server_tool_use", "mcp_tool_use", "next_tool_use"])
def test_a_call_of_the_services_own_grows_whatever_its_family(kind: str) -> None:
    begins = {"type": kind, "id": "s", "name": "n", "input": {}, "server": "x"}
    deltas = [{"type": "input_json_delta", "partial_json": text} for text in ('{"q"', ":1}")]

    events = read(wires.block(0, begins, *deltas))

    assert [each.text for each in events if isinstance(each, BuiltinToolDelta)] == ['{"q"', ":1}"]
    assert isinstance(events[-1], BuiltinToolEnd)
    assert [block.raw() for block in fold(events).content] == [{**begins, "input": {"q": 1}}]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "tool_use", "id": "a", "name": "f", "input": {}, "caller": {"type": "direct"}},
        {"type": "text", "text": "a", "mood": "good"},
        {"type": "thinking", "thinking": "a", "signature": "s", "depth": 2},
        {"type": "redacted_thinking", "data": "x", "depth": 2},
    ],
    ids=lambda block: block["type"],
)
async def test_fields_that_are_not_known_go_back_with_their_block(block: Told) -> None:
    asked = wires.reply(wires.block(0, block), wires.called(1, "note"), stop_reason="tool_use")

    _, told = await World().run(asked, SAYS)

    assert told[1]["content"][0] == block


def test_a_known_block_grows_by_what_it_began_with_and_by_nothing_else() -> None:
    begins = {"type": "text", "text": "", "mood": "go"}
    deltas = [{"type": "new_delta", "mood": "od", "text": "no", "anything": 1},
              {"type": "text_delta", "text": "a"}]  # fmt: skip

    assert blocks(wires.block(0, begins, *deltas)) == [
        {"type": "text", "text": "a", "mood": "good"}
    ]


# -- what fits no reply

TEXT = begun(0, {"type": "text", "text": ""})
THOUGHT = begun(0, {"type": "thinking", "thinking": ""})


@pytest.mark.parametrize(
    "broken",
    [
        grown(7, type="text_delta", text="a"),
        wires.event("content_block_delta", index=None, delta={"type": "text_delta", "text": "a"}),
        wires.event("content_block_delta", index="0", delta={"type": "text_delta", "text": "a"}),
        TEXT + closed(0) + grown(0, type="text_delta", text="a"),
        TEXT + grown(0, type="input_json_delta", partial_json="{}"),
        TEXT + grown(0, type="thinking_delta", thinking="a"),
        THOUGHT + grown(0, type="text_delta", text="a"),
        begun(0, call("a")) + grown(0, type="text_delta", text="a"),
        begun(0, call("a")) + grown(0, type="signature_delta", signature="a"),
        TEXT + TEXT,
        closed(7),
        TEXT + closed(0) + closed(0),
    ],
    ids=["a delta of no block", "a delta without a place", "a place that is no number",
         "a delta of a closed block", "arguments in text", "thinking in text", "text in thinking",
         "text in a call", "a signature in a call", "a block begun twice", "an end of no block",
         "a block ended twice"],
)  # fmt: skip
def test_what_fits_no_reply_is_a_fault_that_says_so(broken: bytes) -> None:
    with pytest.raises(Unavailable, match="which fits no reply"):
        read(broken)
