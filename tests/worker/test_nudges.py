"""A worker hears of its jobs at once, and hears again after its connection was lost."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from loops.tasks import Owner
from tests.waiting import wait_until
from worker.link import Link
from worker.nudges import Nudges

CHANNEL = "t:@owner:w"
Heard = list[tuple[str, str, bytes]]


@pytest.fixture
async def nudges(link: Link) -> AsyncIterator[Nudges]:
    owner, nudges = Owner(), Nudges(link.client, CHANNEL)
    owner.start(nudges.listen(), name="nudges")
    await nudges.is_listening.wait()
    yield nudges
    await owner.close()


async def say(link: Link, message: bytes | str, channel: str = CHANNEL) -> None:
    await link.command("PUBLISH", channel, message)


async def test_a_message_reaches_the_listener_of_its_job(link: Link, nudges: Nudges):
    heard: Heard = []

    with nudges.listener("t/x/1", lambda *message: heard.append(message)):
        await say(link, "t/x/1\ncall\nturn:1.0\nvalue")
        await wait_until(lambda: bool(heard))

    assert heard == [("call", "turn:1.0", b"value")]


async def test_a_value_may_hold_whatever_it_likes(link: Link, nudges: Nudges):
    heard: Heard = []

    with nudges.listener("t/x/1", lambda *message: heard.append(message)):
        await say(link, b"t/x/1\ncall\nk\na\nb\n\xff\x00")
        await wait_until(lambda: bool(heard))

    assert heard == [("call", "k", b"a\nb\n\xff\x00")]


async def test_messages_for_others_are_passed_over(link: Link, nudges: Nudges):
    heard: Heard = []

    with nudges.listener("t/x/1", lambda *message: heard.append(message)):
        await say(link, "t/x/2\ncall\nk\nv")
        await say(link, "t/x/1\ncancel\n\n")
        await wait_until(lambda: bool(heard))

    assert heard == [("cancel", "", b"")]


async def test_a_listener_that_has_gone_hears_nothing(link: Link, nudges: Nudges):
    gone: Heard = []
    heard: Heard = []
    with nudges.listener("t/x/1", lambda *message: gone.append(message)):
        pass

    with nudges.listener("t/x/2", lambda *message: heard.append(message)):
        await say(link, "t/x/1\ncall\nk\nv")
        await say(link, "t/x/2\ncall\nk\nv")
        await wait_until(lambda: bool(heard))

    assert gone == []


async def test_a_message_without_its_four_lines_harms_nobody(link: Link, nudges: Nudges):
    heard: Heard = []

    with nudges.listener("t/x/1", lambda *message: heard.append(message)):
        await say(link, "nonsense")
        await say(link, b"\xff\xfe")
        await say(link, "t/x/1\ncall\nk\nv")
        await wait_until(lambda: bool(heard), for_="the message after the nonsense")

    assert nudges.is_listening.is_set()


async def test_a_message_that_its_listener_cannot_read_is_logged_and_harms_nobody(
    link: Link, nudges: Nudges, caplog: pytest.LogCaptureFixture
):
    heard: list[int] = []

    with nudges.listener("t/x/1", lambda _kind, _key, value: heard.append(int(value))):
        await say(link, b"t/x/1\n\xff\n\n1")
        await say(link, "t/x/1\ncall\nk\nno number")
        await say(link, "t/x/1\ncall\nk\n3")
        await wait_until(lambda: bool(heard), for_="the message after the nonsense")

    assert heard == [3]
    assert len([each for each in caplog.messages if "cannot be understood" in each]) == 2


async def test_a_lost_connection_is_made_again(link: Link, nudges: Nudges):
    heard: Heard = []

    with nudges.listener("t/x/1", lambda *message: heard.append(message)):
        await link.command("CLIENT", "KILL", "TYPE", "pubsub")
        await wait_until(lambda: not nudges.is_listening.is_set(), for_="the loss to be seen")
        async with asyncio.timeout(5):
            await nudges.is_listening.wait()
        await say(link, "t/x/1\ncall\nk\nv")
        await wait_until(lambda: bool(heard))

    assert heard == [("call", "k", b"v")]
