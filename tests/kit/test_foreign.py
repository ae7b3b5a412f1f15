from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import loops as ai
from loops.blocks import Raw
from loops.closing import close
from loops.errors import BadYield, Incomplete, LoopFailed, RateLimited, SetupError
from loops.kit import Session, build_tools, compact
from loops.kit.asking import MCP_BETA, PortProvider
from loops.kit.foreign import ForeignPort, as_provider, is_provider
from loops.kit.priced import cost_of
from loops.kit.toolbox import NATIVE
from loops.kit.turn import Turn
from loops.messages import Messages
from loops.model import ModelRequest
from loops.providers.deployment import Price
from loops.providers.scripted import scripted
from loops.reply import StreamEnd, StreamStart, TextDelta
from tests.kit.histories import says, user
from tests.kit.loop_talks import CALL, asking, kept, texts, told
from tests.kit.providers import ScriptedProvider
from tests.kit.weather import WEATHER

ASKED: dict[str, Any] = {"messages": [user("Go.")], "system": "", "max_tokens": 9}


class Saying:
    """A provider that shows what it is told to, and takes what the protocol has and no more."""

    model = "saying"

    def __init__(self, *shown: Any) -> None:
        self.asked: list[dict[str, Any]] = []
        self.is_closed = False
        self._shown = shown

    async def stream(
        self,
        *,
        messages: Sequence[Raw],
        system: str,
        tools: Sequence[Raw],
        max_tokens: int,
        thinking: Any = None,
    ) -> AsyncIterator[Any]:
        """Show it; an error is raised."""
        told_of = {"messages": messages, "system": system, "tools": tools}
        self.asked.append({**told_of, "max_tokens": max_tokens})
        try:
            for each in self._shown:
                if isinstance(each, Exception):
                    raise each
                yield each
        finally:
            self.is_closed = True


async def read(provider: Any, **more: Any) -> list[Any]:
    """Return what a provider's reply is to a loop."""
    return [each async for each in as_provider(provider).stream(**{**ASKED, **more})]


HI: list[Raw] = [{"type": "text", "text": "Hi there."}]


async def test_text_comes_as_it_is_shown_and_the_turn_last() -> None:
    provider = Saying("Hi ", {"type": "text", "text": "there."}, Turn(HI, "end_turn", 1, 2, 3, 4))

    *shown, turn = await read(provider)

    assert shown == ["Hi ", "there."]
    assert turn == Turn(HI, "end_turn", 1, 2, 3, 4)
    assert provider.is_closed


async def test_a_turn_that_was_not_shown_is_shown() -> None:
    *shown, turn = await read(Saying(Turn([*HI, CALL], "tool_use")))

    assert texts(shown) == "Hi there."
    assert [each["type"] for each in shown if isinstance(each, dict)] == ["step", "step_arg"]
    assert [block["type"] for block in turn.content] == ["text", "tool_use"]


async def test_what_a_model_thought_keeps_its_signature() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "signed"}
    shown = ({"type": "thinking", "thinking": "h"}, {"type": "thinking", "thinking": "m"})

    *_, turn = await read(Saying(*shown, "Hi there.", Turn([thought, *HI], "end_turn")))

    assert turn.content == [thought, *HI]


async def test_other_events_are_shown_and_a_call_is_announced_once() -> None:
    status = {"type": "status", "status": "searching"}
    step = {"type": "step", "step": "", "tool_name": "Weather of a city", "id": "c1"}
    written = {"type": "step_arg", "id": "c1", "delta": "{}"}

    *shown, _ = await read(
        Saying(status, step, {"type": "ping"}, written, Turn([CALL], "tool_use"))
    )

    assert shown == [
        status,
        {**step, "tool_name": "weather"},
        {"type": "step_arg", "id": "c1", "delta": '{"city":"Rome"}'},
    ]


async def test_a_call_is_announced_when_its_provider_says_so() -> None:
    step = {"type": "step", "step": "", "tool_name": "weather", "id": "c1"}
    content = [CALL, *HI]
    provider = Saying(step, "Hi there.", Turn(content, "tool_use"))

    *shown, turn = await read(provider, tools=build_tools([], [WEATHER]))

    assert [each if isinstance(each, str) else each["type"] for each in shown] == [
        *("step", "Hi there.", "step_arg")
    ]
    assert [block["type"] for block in turn.content] == ["tool_use", "text"]


async def test_what_nobody_can_show_is_passed_over() -> None:
    *shown, turn = await read(Saying(None, "", "Hi there.", Turn(HI, "end_turn")))

    assert texts(shown) == "Hi there."
    assert turn.content == HI


async def test_a_reply_without_a_turn_is_its_providers_fault() -> None:
    with pytest.raises(BadYield, match="gave no Turn; yield one, last"):
        await read(Saying("Hi"))


async def test_what_is_no_event_is_its_providers_fault_too() -> None:
    with pytest.raises(BadYield, match="it yielded 7"):
        await read(Saying(7))


async def test_what_comes_after_the_turn_is_not_read() -> None:
    *_, turn = await read(Saying(Turn(HI, "end_turn"), RuntimeError("too late")))

    assert turn.content == HI


async def test_the_errors_of_a_service_are_told_as_such() -> None:
    with pytest.raises(RateLimited) as caught:
        await read(Saying(RuntimeError("Rate limit exceeded")))

    assert isinstance(caught.value.__cause__, RuntimeError)


async def test_any_other_error_is_the_programs_own() -> None:
    with pytest.raises(LoopFailed, match="the model port 'saying' raised ZeroDivisionError"):
        await read(Saying("Hi", ZeroDivisionError()))


async def test_whoever_leaves_a_reply_closes_its_provider() -> None:
    provider = Saying("Hi ", "there.", Turn(HI, "end_turn"))
    events = as_provider(provider).stream(**ASKED)

    await anext(events)
    await close(events)

    assert provider.is_closed


async def test_a_provider_is_asked_by_the_names_of_its_protocol() -> None:
    provider = Saying(Turn(HI, "end_turn"))
    tools = build_tools([], [WEATHER])

    await read(provider, system="Be kind.", tools=tools, session="chat")

    assert provider.asked == [
        {"messages": [user("Go.")], "system": "Be kind.", "tools": tools, "max_tokens": 9}
    ]


async def test_what_else_is_said_is_passed_on() -> None:
    provider = ScriptedProvider(["Hi."])
    servers = [{"type": "url", "url": "https://example.org", "name": "maps"}]

    await read(provider, thinking="low", extra_body={"a": 1}, mcp_servers=servers, tools=[NATIVE])

    [asked] = provider.asked
    assert asked["thinking"] == "low"
    assert asked["extra_body"] == {"a": 1}
    assert asked["mcp_servers"] == servers
    assert asked["tools"] == [NATIVE]


class Recording:
    """A port that remembers what it is asked."""

    name = "recording"

    def __init__(self) -> None:
        self.asked: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        """Say nothing."""
        self.asked.append(request)
        yield StreamStart()
        yield StreamEnd()


async def test_a_port_is_told_what_only_its_own_service_understands() -> None:
    port = Recording()

    await read(port, tools=[NATIVE, *build_tools([], [WEATHER])], mcp_servers=[{"name": "m"}])

    [request] = port.asked
    assert [each.name for each in request.tools] == ["weather"]
    assert request.params == {
        "mcp_servers": [{"name": "m"}],
        "betas": [MCP_BETA],
        "tools": [NATIVE],
    }


async def test_what_is_kept_beside_a_message_is_told_to_no_model() -> None:
    port = Recording()

    await read(port, messages=[user("Go.", internal=True, attachments=["a"])])

    assert Messages(port.asked[0].messages).raw == [user("Go.")]


async def test_a_reply_that_breaks_off_is_no_turn() -> None:
    class Broken(Recording):
        async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
            yield StreamStart()
            yield TextDelta(0, "Hi")

    with pytest.raises(Incomplete):
        await read(Broken())


async def test_a_model_can_be_asked_for_its_text_alone() -> None:
    asked = {"messages": [user("Go.")], "system": "", "max_tokens": 9}

    assert await as_provider(scripted("Hi there.")).complete(**asked) == "Hi there."


def test_a_provider_is_known_by_what_it_has() -> None:
    port = scripted("x")

    assert is_provider(Saying())
    assert not is_provider(port)
    assert not is_provider("a/b")
    assert isinstance(as_provider(Saying()).port, ForeignPort)
    assert as_provider(port).port is port
    ready = PortProvider(port)
    assert as_provider(ready) is ready
    with pytest.raises(SetupError):
        as_provider(object())


async def test_any_provider_answers_an_agent_a_compaction_and_a_session() -> None:
    talk = [user("word " * 400), says("word " * 400), user("And?")]
    summary = "<summary>They talked.</summary>"
    context = asking("Hello?")

    await told(context, Saying("Hi there.", Turn(HI, "end_turn")))
    short = await compact(Saying(summary), talk, 5, 100)
    session = await Session.open(asking(chat_id=None))
    session.messages += talk
    written = await session.compact(Saying(summary), 5)

    assert (await kept(context))[-1] == says("Hi there.")
    assert "They talked." in short[0]["content"]
    assert written is not None
    assert written.text == "They talked."


async def test_a_provider_of_ones_own_is_the_model_of_any_agent() -> None:
    agent = ai.Agent(model=ForeignPort(Saying("Hi there.", Turn(HI, "end_turn"))))

    async with agent.run(messages="Hello?") as stream:
        _ = [event async for event in stream]

    assert stream.output == "Hi there."


TEXT = st.text(min_size=1, max_size=9).filter(lambda said: bool(said.strip()))
BLOCKS = st.one_of(
    TEXT.map(lambda said: {"type": "text", "text": said}),
    TEXT.map(lambda said: {"type": "thinking", "thinking": said, "signature": said[::-1]}),
    st.integers(0, 9).map(lambda number: {**CALL, "input": {"n": number}}),
)


@given(drawn=st.lists(BLOCKS, max_size=6), is_shown=st.booleans())
async def test_whatever_a_turn_holds_the_loop_gets_it(drawn: list[Raw], is_shown: bool) -> None:
    blocks = [{**each, "id": f"c{at}"} if "id" in each else each for at, each in enumerate(drawn)]
    # Two blocks of text that follow on each other are one to whoever reads pieces.
    pairs = zip(blocks, [{}, *blocks], strict=False)
    blocks = [each for each, before in pairs if before.get("type") != each["type"] or "id" in each]
    pieces = [_shown(each) for each in blocks] if is_shown else []

    offered = build_tools([], [WEATHER])
    *_, turn = await read(Saying(*pieces, Turn(blocks, "end_turn")), tools=offered)

    assert _without_keys(turn.content) == blocks


def _shown(block: Raw) -> Any:
    if block["type"] == "tool_use":
        return {"type": "step", "step": "", "tool_name": block["name"], "id": block["id"]}
    return block["text"] if block["type"] == "text" else {**block, "signature": ""}


def _without_keys(content: list[Raw]) -> list[Raw]:
    return [{name: block[name] for name in block if name != "call"} for block in content]


@pytest.mark.parametrize(
    ("price", "cost"),
    [
        (None, 0.0),
        (Price(input=1.0, output=10.0), 6 + 1_000 + 20 + 2),
        (Price(input=1.0, output=10.0, cache_read=0.1, cache_write=2.0), 6 + 1_000 + 2 + 4),
    ],
)
def test_what_a_reply_costs_where_the_cache_has_a_price_and_where_not(
    price: Price | None, cost: float
) -> None:
    turn = Turn([], "end_turn", input=6, output=100, cached=20, cache_create=2)

    assert cost_of(turn, price) == pytest.approx(cost / 1_000_000)
