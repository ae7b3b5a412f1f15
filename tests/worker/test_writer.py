"""The scripts of one pass: done in order, each once, whatever becomes of their replies."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from enum import Enum, auto
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from loops.errors import ReplayDiverged, RunLeft
from loops.tasks import Owner
from tests.waiting import wait_until
from worker.writer import DIVERGED, DONE, GAP, LEFT, REPEATED, Writer


class Luck(Enum):
    """What becomes of one sending of a script."""

    GOOD = auto()
    NEVER_SENT = auto()
    REPLY_LOST = auto()


class NumberingServer:
    """A link to a server that numbers a pass' scripts as `flush.lua` does, on a bad day."""

    def __init__(self, *luck: Luck) -> None:
        self.luck = list(luck)
        self.done: list[str] = []
        self.sent: list[int] = []
        self.special: dict[str, list[Any] | Exception] = {}
        self.held: asyncio.Event | None = None

    def send_script(
        self, name: str, keys: Sequence[str], arguments: Sequence[Any]
    ) -> asyncio.Future[Any]:
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        luck = self.luck.pop(0) if self.luck else Luck.GOOD
        self.sent.append(arguments[1])
        answer = None if luck is Luck.NEVER_SENT else self._answer(name, arguments[1])
        if luck is not Luck.GOOD:
            reply.set_exception(RedisConnectionError("lost"))
        elif isinstance(answer, Exception):
            reply.set_exception(answer)
        else:
            asyncio.get_running_loop().call_soon(_settle, reply, answer)
        return reply

    def _answer(self, name: str, number: int) -> Any:
        if number <= len(self.done):
            return [REPEATED, 0]
        if number > len(self.done) + 1:
            return [GAP, 0]
        answer = self.special.get(name, [DONE, number])
        if not isinstance(answer, Exception) and answer[0] != LEFT:
            self.done.append(name)
        return answer


def _settle(reply: asyncio.Future[Any], answer: Any) -> None:
    if not reply.done():
        reply.set_result(answer)


@pytest.fixture
async def owner() -> AsyncIterator[Owner]:
    owner = Owner()
    yield owner
    await owner.close()


def writer_over(server: NumberingServer, owner: Owner) -> Writer:
    return Writer(cast("Any", server), "t:x:run:run_1", 7, owner)


async def test_scripts_are_numbered_from_one_and_done_in_order(owner: Owner):
    server = NumberingServer()
    writer = writer_over(server, owner)

    replies = [writer.submit(name, []) for name in ("a", "b", "c")]

    assert [await reply for reply in replies] == [[DONE, 1], [DONE, 2], [DONE, 3]]
    assert (server.done, server.sent) == (["a", "b", "c"], [1, 2, 3])


async def test_a_script_whose_reply_was_lost_is_sent_again_and_not_done_twice(owner: Owner):
    server = NumberingServer(Luck.REPLY_LOST)
    writer = writer_over(server, owner)

    reply = writer.submit("a", [])

    assert (await reply)[0] == REPEATED
    assert (server.done, server.sent) == (["a"], [1, 1])


async def test_a_script_that_was_never_sent_is_sent_again_before_those_after_it(owner: Owner):
    server = NumberingServer(Luck.NEVER_SENT)
    writer = writer_over(server, owner)

    replies = [writer.submit(name, []) for name in ("a", "b")]

    assert [(await reply)[0] for reply in replies] == [DONE, DONE]
    assert (server.done, server.sent) == (["a", "b"], [1, 2, 1, 2])


async def test_what_is_submitted_while_the_server_is_away_keeps_its_place(owner: Owner):
    server = NumberingServer(Luck.NEVER_SENT, Luck.NEVER_SENT)
    writer = writer_over(server, owner)
    first = writer.submit("a", [])
    await wait_until(lambda: len(server.sent) == 1)

    second = writer.submit("b", [])
    await asyncio.wait([first, second])

    assert server.done == ["a", "b"]


LUCK = st.lists(st.sampled_from(Luck), max_size=5).filter(
    lambda luck: sum(one is not Luck.GOOD for one in luck) <= 2
)


@settings(max_examples=25)
@given(LUCK, st.integers(1, 4))
def test_whatever_is_lost_all_is_done_once_and_in_order(luck: list[Luck], count: int):
    names = [f"script {number}" for number in range(count)]

    async def write() -> tuple[list[str], list[int]]:
        owner, server = Owner(), NumberingServer(*luck)
        writer = writer_over(server, owner)
        replies = [writer.submit(name, []) for name in names]
        codes = [(await reply)[0] for reply in replies]
        await owner.close()
        return server.done, codes

    done, codes = asyncio.run(write())

    assert done == names
    assert set(codes) <= {DONE, REPEATED}


async def test_a_refused_pass_is_left_with_all_that_it_still_wanted_to_write(owner: Owner):
    server = NumberingServer()
    server.special["b"] = [LEFT, 0]
    writer = writer_over(server, owner)

    replies = [writer.submit(name, []) for name in ("a", "b", "c")]

    assert await replies[0] == [DONE, 1]
    for refused in replies[1:]:
        with pytest.raises(RunLeft):
            await refused
    assert writer.is_left
    with pytest.raises(RunLeft):
        await writer.submit("d", [])
    assert server.done == ["a"]


async def test_a_message_that_differs_is_a_divergence_and_the_pass_goes_on(owner: Owner):
    server = NumberingServer()
    server.special["a"] = [DIVERGED, 3]
    writer = writer_over(server, owner)

    with pytest.raises(ReplayDiverged, match="message 3 of the run"):
        await writer.submit("a", [])

    assert not writer.is_left
    assert await writer.submit("b", []) == [DONE, 2]


async def test_a_script_that_the_server_does_not_understand_ends_the_pass(owner: Owner):
    server = NumberingServer()
    server.special["a"] = ResponseError("ERR Error compiling script")
    writer = writer_over(server, owner)
    after = writer.submit("a", []), writer.submit("b", [])

    with pytest.raises(ResponseError):
        await after[0]
    with pytest.raises(RunLeft):
        await after[1]
    assert writer.is_left


@pytest.mark.parametrize(
    "error",
    [
        ResponseError("OOM command not allowed when used memory > 'maxmemory'."),
        ResponseError("BUSY Redis is busy running a script."),
    ],
    ids=["out of memory", "busy"],
)
async def test_a_server_that_may_take_it_later_is_asked_again(owner: Owner, error: Exception):
    server = NumberingServer()
    server.special["a"] = error
    writer = writer_over(server, owner)
    reply = writer.submit("a", [])
    await wait_until(lambda: len(server.sent) > 1)

    del server.special["a"]

    assert await reply == [DONE, 1]


async def test_leaving_refuses_what_waits_and_sends_nothing_more(owner: Owner):
    server = NumberingServer(*[Luck.NEVER_SENT] * 100)
    writer = writer_over(server, owner)
    reply = writer.submit("a", [])
    await wait_until(lambda: len(server.sent) == 1)

    writer.leave()

    with pytest.raises(RunLeft):
        await reply
    await owner.join()
    assert server.done == []


async def test_a_refusal_that_nobody_waits_for_is_no_lost_error(owner: Owner):
    server = NumberingServer()
    server.special["a"] = [LEFT, 0]
    writer = writer_over(server, owner)

    writer.submit("a", [])

    await owner.join()
    assert writer.is_left


async def test_a_wait_that_was_given_up_does_not_stop_the_script(owner: Owner):
    server = NumberingServer()
    writer = writer_over(server, owner)

    writer.submit("a", []).cancel()

    await owner.join()
    assert server.done == ["a"]
