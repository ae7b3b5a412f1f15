"""What LiteLLM's proxy answers by itself, with no model behind it."""

from collections.abc import Mapping

import pytest

from loops.errors import (
    ContextTooLong,
    InvalidRequest,
    Overloaded,
    ProviderError,
    RateLimited,
    Timeout,
    Unauthorized,
    Unavailable,
)
from tests.peers.providers.routes import Peer, Route, on

pytestmark = [pytest.mark.peers, pytest.mark.timeout(180)]

CHAT = Route("openai", "litellm")
MESSAGES = Route("anthropic", "litellm")

REFUSALS: Mapping[str, tuple[type[ProviderError], bool]] = {
    "own-busy": (RateLimited, True),
    "own-too-long": (ContextTooLong, False),
    "own-fault": (Unavailable, True),
}
PLAYED_IN_CHAT: Mapping[str, tuple[type[ProviderError], bool]] = {
    **REFUSALS,
    "own-filter": (InvalidRequest, False),
    "own-stream-fault": (Overloaded, True),
    "own-timeout": (Timeout, True),
}


@on(CHAT)
async def test_a_text_of_its_own_is_whole(peer: Peer) -> None:
    reply = await peer.ask("own-text")

    assert reply.message.text == "It is a löng text 😀, in parts."
    assert reply.end.usage is not None
    assert (reply.end.usage.output_tokens or 0) > 0


@on(MESSAGES)
async def test_an_answer_that_is_no_stream_is_called_that(peer: Peer) -> None:
    reply = await peer.ask("own-text")

    assert isinstance(reply.error, Unavailable)
    assert str(reply.error).endswith("answered with application/json, and not with a stream")
    assert reply.events == []


@pytest.mark.parametrize("model", PLAYED_IN_CHAT)
@on(CHAT)
async def test_a_refusal_of_its_own_says_whether_to_ask_again(peer: Peer, model: str) -> None:
    error = (await peer.ask(model)).error

    assert error is not None
    assert (type(error), error.retryable) == PLAYED_IN_CHAT[model]


@pytest.mark.parametrize("model", REFUSALS)
@on(MESSAGES)
async def test_a_refusal_of_its_own_is_the_same_in_messages(peer: Peer, model: str) -> None:
    error = (await peer.ask(model)).error

    assert error is not None
    assert (type(error), error.retryable) == REFUSALS[model]


@on(CHAT, MESSAGES)
async def test_a_model_that_it_does_not_know_is_not_asked_for_again(peer: Peer) -> None:
    error = (await peer.ask("nobodys-model")).error

    assert isinstance(error, InvalidRequest)
    assert not error.retryable


@on(CHAT, MESSAGES)
async def test_a_key_that_it_does_not_know_is_not_tried_again(peer: Peer) -> None:
    error = (await peer.ask("own-text", key="sk-nobodys")).error

    # Without a database it cannot look a key up, and says so with 400.
    assert isinstance(error, (Unauthorized, InvalidRequest))
    assert not error.retryable
    assert "nobodys" not in str(error)
