"""What the load test takes for a whole answer, and what it does not."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator

import pytest

from bench.callers import Caller, Request
from bench.drivers.gateway_upstream import LOOKING, completion_chunks, message_frames, text
from bench.gateway_requests import CALLED, CHAT, MESSAGES, PLAIN, request
from tests.fleet import ROOT
from tests.gateway.verdicts import (
    WHOLE,
    WrongAnswerError,
    judged,
    of_chat,
    of_messages,
    refusal,
    unchunked,
)

TAG = "tag-00000000"
ANSWER = text(TAG)


def messages(*, calls: bool = False) -> list[str]:
    return [
        f"event: {name}\ndata: {json.dumps({'type': name, **told})}\n\n"
        for name, told in message_frames(calls=calls)
    ]


def chat() -> list[str]:
    chunks = [f"data: {json.dumps(chunk)}\n\n" for chunk in completion_chunks(calls=False)]
    return [*chunks, "data: [DONE]\n\n"]


def joined(*frames: str) -> bytes:
    return "".join(frames).encode()


ERROR = 'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"gone"}}\n\n'


def test_two_messages_one_after_the_other_are_whole() -> None:
    stream = joined(*messages(calls=True), ": a comment\n\n", *messages())

    assert of_messages(stream, [LOOKING, ANSWER]) == WHOLE


def test_an_error_at_the_end_is_called_by_its_name() -> None:
    chat_error = 'data: {"error": {"type": "server_error", "message": "gone"}}\n\n'

    assert of_messages(joined(*messages()[:4], ERROR), [ANSWER]) == "error: api_error (gone)"
    assert of_chat(joined(*chat()[:4], chat_error), ANSWER) == "error: server_error (gone)"


@pytest.mark.parametrize(
    "frames",
    [
        pytest.param(messages()[:-1], id="no end"),
        pytest.param(messages(calls=True), id="a call is the last thing"),
        pytest.param([*messages()[:5], *messages()], id="a message within a message"),
        pytest.param([*messages()[:5], *messages()[4:]], id="a word twice"),
        pytest.param(messages()[:5] + messages()[6:], id="a word too few"),
        pytest.param([*messages(), messages()[4]], id="a word after the end"),
        pytest.param([], id="nothing"),
    ],
)
def test_messages_that_are_not_whole_do_not_pass(frames: list[str]) -> None:
    with pytest.raises(WrongAnswerError):
        of_messages(joined(*frames), [ANSWER])


@pytest.mark.parametrize(
    "frames",
    [
        pytest.param(chat()[:-1], id="no end"),
        pytest.param([*chat()[:5], *chat()[4:]], id="a word twice"),
        pytest.param([*chat()[:-2], chat()[-1]], id="no reason"),
        pytest.param([*chat(), chat()[3]], id="a word after the end"),
    ],
)
def test_chunks_that_are_not_whole_do_not_pass(frames: list[str]) -> None:
    with pytest.raises(WrongAnswerError):
        of_chat(joined(*frames), ANSWER)


def test_a_refusal_has_to_say_what_it_is() -> None:
    said = b'{"type": "error", "error": {"type": "overloaded_error", "message": "later"}}'

    assert refusal(503, said) == "status 503: overloaded_error (later)"
    with pytest.raises(WrongAnswerError):
        refusal(502, b"<html>")


def test_the_sizes_of_chunks_are_no_part_of_a_body() -> None:
    assert unchunked(b"3\r\nab\n\r\n2\r\n\r\n\r\n0\r\n\r\n") == b"ab\n\r\n"


@pytest.fixture(scope="module", params=["0", "0.001"])
def upstream(request: pytest.FixtureRequest) -> Iterator[int]:
    """The scripted upstream as a process, at once and frame by frame."""
    command = [sys.executable, "-m", "bench.drivers.gateway_upstream", "--pause", request.param]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline().split()[-1])
        process.terminate()


@pytest.fixture
async def caller(upstream: int) -> AsyncIterator[Caller]:
    caller = await Caller.connect(upstream)
    yield caller
    caller.close()
    # The transport tells of its end in the loop's next turn.
    await asyncio.sleep(0)


@pytest.mark.parametrize("asked", PLAIN, ids=lambda asked: asked.name)
async def test_the_upstream_answers_each_request_with_its_own_tag(
    caller: Caller, asked: Request
) -> None:
    first = await caller.ask(asked.encoded("tag-00000001"))
    second = await caller.ask(asked.encoded("tag-00000002"))

    asked.check(first, "tag-00000001")
    asked.check(second, "tag-00000002")


@pytest.mark.parametrize("asked", CALLED, ids=lambda asked: asked.name)
async def test_the_upstream_calls_the_tool_before_it_has_a_result(
    caller: Caller, asked: Request
) -> None:
    result = {"type": "tool_result", "tool_use_id": "x", "content": "y"}
    answered = {**asked.body, "messages": [{"role": "user", "content": [result], "about": "TAG"}]}

    called = await caller.ask(asked.encoded(TAG))
    said = await caller.ask(Request("", asked.path, answered, asked.answer).encoded(TAG))

    assert text(TAG).encode() not in called.body
    assert b"lookup" in called.body
    asked.check(said, TAG)


@pytest.mark.parametrize("path", [MESSAGES, CHAT])
async def test_a_stream_of_the_upstream_is_judged_as_whole(caller: Caller, path: str) -> None:
    asked = request(path, streams=True, calls=False)

    answer = await caller.ask(asked.encoded(TAG))

    assert judged(asked, answer, TAG) == WHOLE
    assert judged(asked, answer, "tag-99999999").startswith("wrong: ")
