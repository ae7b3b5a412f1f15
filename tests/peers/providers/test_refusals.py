"""What other people's servers refuse, and how they break off, in both protocols."""

from collections.abc import Mapping
from datetime import timedelta

import pytest

from loops.errors import (
    ContextTooLong,
    InvalidRequest,
    Overloaded,
    ProviderError,
    RateLimited,
    Unauthorized,
    Unavailable,
)
from loops.reply import StreamEnd, TextDelta, ToolEnd
from tests.peers.providers.routes import (
    DIRECT,
    ROUTES,
    STREAMED,
    TOLD_TO_WAIT,
    Peer,
    on,
)

pytestmark = [pytest.mark.peers, pytest.mark.timeout(180)]

REFUSALS: Mapping[str, tuple[set[type[ProviderError]], bool]] = {
    "busy": ({RateLimited}, True),
    "forbidden": ({Unauthorized}, False),
    "not-understood": ({InvalidRequest}, False),
    "unheard-of": ({InvalidRequest}, False),
    "fault": ({Unavailable}, True),
    "down": ({Unavailable, Overloaded}, True),
    # LiteLLM makes a plain fault of an overload that it is told in Messages.
    "overloaded": ({Overloaded, Unavailable}, True),
    "hung-up": ({Unavailable}, True),
}
"""What each refusal may be for us, and whether to ask again."""


@on(*ROUTES)
@pytest.mark.parametrize("model", REFUSALS)
async def test_a_refusal_says_whether_to_ask_again(peer: Peer, model: str) -> None:
    reply = await peer.ask(model)

    kinds, is_retryable = REFUSALS[model]
    assert reply.error is not None
    assert type(reply.error) in kinds
    assert reply.error.retryable is is_retryable
    assert reply.events == []


@on(*ROUTES)
@pytest.mark.parametrize("model", ["too-long", "too-long-elsewhere"])
async def test_a_request_that_is_too_long_says_by_how_much(peer: Peer, model: str) -> None:
    error = (await peer.ask(model)).error

    assert isinstance(error, ContextTooLong)
    assert (error.limit, error.sent, error.retryable) == (200_000, 210_000, False)


@on(*TOLD_TO_WAIT)
async def test_how_long_to_wait_is_heard_also_through_a_proxy(peer: Peer) -> None:
    error = (await peer.ask("busy")).error

    assert isinstance(error, RateLimited)
    assert error.retry_after == timedelta(seconds=7)


@on(*DIRECT)
async def test_a_wrong_key_is_refused_and_not_shown(peer: Peer) -> None:
    error = (await peer.ask("text", key="sk-nobodys")).error

    assert isinstance(error, Unauthorized)
    assert "nobodys" not in str(error)


@on(*STREAMED)
async def test_a_text_that_breaks_off_has_no_end(peer: Peer) -> None:
    reply = await peer.ask("cut-text")

    said = "".join(event.text for event in reply.events if isinstance(event, TextDelta))
    assert reply.error is not None
    assert reply.error.retryable
    assert "What is said here is never said to its end.".startswith(said)
    assert not any(isinstance(event, StreamEnd) for event in reply.events)
    assert (await peer.asked())[-1].was_cut


@on(*STREAMED)
async def test_a_call_that_breaks_off_is_never_whole(peer: Peer) -> None:
    reply = await peer.ask("cut-call")

    assert reply.error is not None
    assert reply.error.retryable
    assert not any(isinstance(event, (ToolEnd, StreamEnd)) for event in reply.events)
    assert (await peer.asked())[-1].was_cut
