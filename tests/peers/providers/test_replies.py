"""What other people's servers say is heard as they mean it, in both protocols."""

import pytest

from loops.blocks import ThinkingBlock
from loops.reply import StreamStart, TextDelta, ToolDelta
from tests.peers.providers.routes import MESSAGES, ROUTES, STREAMED, Peer, on

pytestmark = [pytest.mark.peers, pytest.mark.timeout(180)]

LIMA = ("call_1", "population", {"city": "Lima"})
OSLO = ("call_2", "population", {"city": "Oslo"})


@on(*ROUTES)
async def test_a_text_is_whole(peer: Peer) -> None:
    reply = await peer.ask("text")

    assert isinstance(reply.events[0], StreamStart)
    assert reply.message.text == "It is a löng text 😀, in parts."
    assert reply.end.stop_reason == "end_turn"


@on(*ROUTES)
async def test_what_a_text_cost_is_told(peer: Peer) -> None:
    reply = await peer.ask("text")

    assert reply.end.usage is not None
    assert (reply.end.usage.input_tokens, reply.end.usage.output_tokens) == (11, 7)


@on(*STREAMED)
async def test_a_text_comes_as_it_grows(peer: Peer) -> None:
    reply = await peer.ask("text")

    said = [event.text for event in reply.events if isinstance(event, TextDelta)]
    assert said == ["It is", " a lö", "ng te", "xt 😀", ", in ", "parts", "."]


@on(*ROUTES)
async def test_what_a_model_thinks_is_no_text(peer: Peer) -> None:
    reply = await peer.ask("thoughtful")

    thought = [block for block in reply.message.content if isinstance(block, ThinkingBlock)]
    assert [block.thinking for block in thought] == ["I ponder it."]
    assert reply.message.text == "It is so."


@on(*MESSAGES)
async def test_a_thought_keeps_its_signature(peer: Peer) -> None:
    reply = await peer.ask("thoughtful")

    [thought] = [block for block in reply.message.content if isinstance(block, ThinkingBlock)]
    assert thought.signature == "c2lnbmVk"


@on(*ROUTES)
async def test_a_text_that_was_cut_by_its_length_says_so(peer: Peer) -> None:
    reply = await peer.ask("cut-by-length")

    assert reply.message.text == "It is"
    assert reply.end.stop_reason == "max_tokens"


@on(*ROUTES)
async def test_a_call_has_its_id_its_name_and_its_arguments(peer: Peer) -> None:
    reply = await peer.ask("one-call")

    assert reply.calls == [LIMA]
    assert reply.end.stop_reason == "tool_use"


@on(*STREAMED)
async def test_arguments_come_as_they_grow(peer: Peer) -> None:
    reply = await peer.ask("one-call")

    said = [event.text for event in reply.events if isinstance(event, ToolDelta)]
    assert "".join(said) == '{"city":"Lima"}'
    assert len(said) > 1


@on(*ROUTES)
async def test_a_call_may_have_no_arguments(peer: Peer) -> None:
    reply = await peer.ask("no-arguments")

    assert reply.calls == [("call_1", "now", {})]


@on(*ROUTES)
async def test_calls_side_by_side_stay_apart(peer: Peer) -> None:
    reply = await peer.ask("two-calls")

    assert reply.message.text == "I look."
    assert reply.calls == [LIMA, OSLO]


@on(*ROUTES)
async def test_a_text_may_stand_between_two_calls(peer: Peer) -> None:
    reply = await peer.ask("text-between-calls")

    assert reply.message.text == "And now Oslo."
    assert reply.calls == [LIMA, OSLO]
