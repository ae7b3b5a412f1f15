"""What becomes of the pieces of a streaming tool: its result, and what the model is told of it."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Annotated, Any, Generic, TypeVar, cast

import pytest

import loops as ai
from loops.events import PartialToolCallResult, Retry, RunBlocked, ToolCallResult
from loops.testing import call, collect, in_turn, scripted, text
from tests.agents.runtimes import Outcome, Through

T = TypeVar("T")


class Box(ai.Aggregator[T, list[T], str], Generic[T]):
    """All pieces in a list; the model is told how many there are."""

    def __init__(self) -> None:
        self.pieces: list[T] = []

    def feed(self, item: T) -> None:
        self.pieces.append(item)

    def snapshot(self) -> list[T]:
        return list(self.pieces)

    @classmethod
    def to_model_input(cls, result: list[T]) -> str:
        return f"{len(result)} pieces"


async def once(through: Through, tool: ai.Tool) -> Outcome:
    """See a run through that calls the tool once, and says what its model was told."""

    def reply(history: list[dict[str, Any]]) -> Any:
        if len(history) == 1:
            return [call(tool.name)]
        return text(f"told {history[-1]['content'][0]['content']}")

    return await through(ai.Agent(model=scripted(reply), tools=[tool]))


def result(ended: Outcome) -> Any:
    (finished,) = ended.of(ToolCallResult)
    return finished.content


def short(value: dict[str, Any]) -> str:
    return f"{len(value)} fields"


@ai.tool(to_model_input=short)
async def look() -> dict[str, int]:
    """Look."""
    return {"a": 1, "b": 2}


async def test_34_the_result_is_kept_whole_and_the_model_is_told_something_else(
    through: Through,
) -> None:
    ended = await once(through, look)

    assert result(ended) == {"a": 1, "b": 2}
    assert ended.output == "told 2 fields"
    (block,) = ended.history[2]["content"]
    assert (block["content"], block["result"]) == ("2 fields", {"a": 1, "b": 2})


async def test_35_without_it_the_model_is_told_the_result(through: Through) -> None:
    ended = await once(through, ai.tool(look.function))

    assert ended.output == 'told {"a":1,"b":2}'
    assert "result" not in ended.history[2]["content"][0]


async def test_36_a_failure_is_told_as_it_is(through: Through) -> None:
    @ai.tool(to_model_input=short)
    async def fail() -> dict[str, int]:
        """Fail."""
        raise ValueError("no")

    ended = await once(through, fail)

    assert ended.results == [("ValueError: no", True)]
    assert ended.output == "told ValueError: no"


async def test_37_what_cannot_be_told_is_a_failure(through: Through) -> None:
    @ai.tool(to_model_input=lambda _: 1 // 0)
    async def see() -> str:
        """See."""
        return "all"

    ended = await once(through, see)

    ((content, is_error),) = ended.results
    assert is_error
    assert content.startswith("ZeroDivisionError")


async def words() -> AsyncGenerator[str]:
    """Say two words."""
    yield "a"
    yield "b"


async def marked() -> ai.StreamingTextTool:
    """Say two words."""
    yield "a"
    yield "b"


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (words, {"aggregator": ai.ConcatAggregator, "to_model_input": str}),
        (marked, {"to_model_input": str}),
        (marked, {"aggregator": ai.LastAggregator}),
    ],
)
def test_38_39_who_says_twice_what_the_model_is_told_is_refused(
    function: Any, options: Any
) -> None:
    with pytest.raises(TypeError, match="the tool '"):
        ai.tool(**options)(function)


async def with_delimiter() -> Annotated[
    AsyncGenerator[str], ai.Aggregate(ai.ConcatAggregator, delim="|")
]:
    """Say two words."""
    yield "a"
    yield "b"


async def boxed() -> Annotated[AsyncGenerator[int], ai.Aggregate(Box)]:
    """Count."""
    yield 1
    yield 2


async def status() -> ai.StreamingStatusTool[str]:
    """Tell how far it is."""
    yield "half"
    yield "done"


def plain_words() -> Any:
    """Say two words, in a thread."""
    yield "a"
    yield "b"


GATHERED: list[tuple[Callable[..., Any], dict[str, Any], Any, str]] = [
    (marked, {}, "ab", "told ab"),
    (with_delimiter, {}, "a|b", "told a|b"),
    (words, {"aggregator": ai.ConcatAggregator}, "ab", "told ab"),
    (plain_words, {"aggregator": ai.ConcatAggregator}, "ab", "told ab"),
    (status, {}, "done", "told done"),
    (boxed, {}, [1, 2], "told 2 pieces"),
    (words, {}, "b", "told b"),
]


@pytest.mark.parametrize(
    ("function", "options", "made", "told"),
    GATHERED,
    ids=[f"{each[0].__name__}{len(each[1])}" for each in GATHERED],
)
async def test_47_to_52_pieces_are_gathered_as_the_tool_says(
    function: Any, options: Any, made: Any, told: str, through: Through
) -> None:
    ended = await once(through, ai.tool(**options)(function))

    assert result(ended) == made
    assert ended.output == told
    assert len(ended.of(PartialToolCallResult)) == 2


async def test_nothing_given_is_gathered_as_well(through: Through) -> None:
    @ai.tool
    async def silent() -> ai.StreamingTextTool:
        """Say nothing."""
        for word in ():
            yield word

    assert result(await once(through, silent)) == ""


def test_53_54_two_marks_are_one_too_many() -> None:
    async def twice() -> Annotated[
        AsyncGenerator[str], ai.Aggregate(ai.ConcatAggregator), ai.Aggregate(ai.LastAggregator)
    ]:
        yield "a"

    with pytest.raises(TypeError, match="says twice how to gather its pieces"):
        ai.tool(twice)


async def agent_inside() -> ai.SubAgentTool:
    """Ask an agent inside."""
    model = scripted(in_turn([text("let me see"), call("look")], "a poem"))
    async for event in ai.Agent(model=model, tools=[look]).run(messages="inside"):
        yield event


def test_55_to_60_a_tool_knows_the_type_of_its_result() -> None:
    assert ai.tool(status).return_type == str | None
    assert ai.tool(marked).return_type is str
    assert ai.tool(agent_inside).return_type is ai.MessageBundle
    assert ai.tool(boxed).return_type == list[int]
    assert ai.tool(return_type=bytes)(boxed).return_type is bytes
    assert look.return_type == dict[str, int]


async def test_46_an_agent_inside_of_a_tool_gives_its_messages(through: Through) -> None:
    ended = await once(through, ai.tool(agent_inside))

    assert ended.output == "told a poem"
    bundle = result(ended)
    assert bundle["type"] == "messages"
    assert [message["role"] for message in bundle["messages"]] == ["assistant", "user", "assistant"]


async def replies(*answers: Any) -> list[ai.AgentEvent]:
    """Return the events of a run whose model gives these answers."""
    async with ai.Agent(model=scripted(in_turn(*answers)), tools=[look]).run(
        messages="go"
    ) as stream:
        return await collect(stream)


async def test_61_to_63_what_is_written_side_by_side_keeps_its_place() -> None:
    events = await replies([text("one"), call("look")], [text("two"), call("look")], "end")
    turns = {number: [each for each in events if each.turn == number] for number in (1, 2)}
    gathered = ai.MessageAggregator()
    for pair in zip(turns[2], turns[1], strict=True):
        for event in pair:
            gathered.feed(event)

    said = [message.text for message in gathered.snapshot().messages]
    assert said == ["two", "", "one", ""]


async def test_64_a_reply_that_is_asked_again_is_forgotten_with_its_results() -> None:
    events = await replies([text("one"), call("look")], [text("two"), call("look")], "end")
    gathered = ai.MessageAggregator()
    gathered.feed(Retry())
    for event in events:
        if event.turn in {1, 2}:
            gathered.feed(event)
    gathered.feed(Retry())

    bundle = gathered.snapshot()
    assert [message.text for message in bundle.messages] == ["one", ""]
    assert bundle.text == "one"


async def test_65_what_is_no_part_of_a_reply_changes_nothing() -> None:
    gathered = ai.MessageAggregator()
    gathered.feed(RunBlocked(["ship"]))

    assert gathered.snapshot().messages == []
    assert gathered.get_model_input() == ""


async def test_pieces_of_several_sources_may_be_given_by_one_tool(through: Through) -> None:
    async def letters(*given: str) -> AsyncIterator[str]:
        for letter in given:
            yield letter

    @ai.tool
    async def both() -> str:
        """Give two streams."""
        first = await ai.yield_from(letters("a", "b"), aggregator=ai.ConcatAggregator())
        return first + await ai.yield_from(letters("c"), aggregator=ai.ConcatAggregator())

    ended = await once(through, both)

    assert result(ended) == "abc"
    assert [each.value for each in ended.of(PartialToolCallResult)] == ["a", "b", "c"]


async def test_outside_of_a_tool_nobody_takes_pieces() -> None:
    source = cast("AsyncIterator[str]", words())
    with pytest.raises(LookupError, match="nobody takes pieces here"):
        await ai.yield_from(source, aggregator=ai.ConcatAggregator())


async def test_what_a_model_is_told_may_be_made_of_the_last_piece(through: Through) -> None:
    ended = await once(through, ai.tool(to_model_input=str.upper)(words))

    assert (result(ended), ended.output) == ("b", "told B")


async def test_two_agents_in_one_tool_are_told_apart() -> None:
    first = await replies([text("one"), call("look")], "end")
    gathered = ai.MessageAggregator()
    for event in [*first, *await replies("two")]:
        gathered.feed(event)

    said = [message.text for message in gathered.snapshot().messages]
    assert said == ["one", "", "end", "two"]
