"""Tools of limited concurrency, and tools that hide what they are given."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

import loops as ai
from loops.errors import SetupError
from loops.providers.scripted import call, in_turn, scripted
from loops.question import Answer
from loops.redact import HIDDEN
from loops.tasks import Owner
from loops.testing import collect
from tests.waiting import wait_until
from tests.worker.driving import TENANT, Mill, milling
from worker.calls import RunPlace
from worker.link import Link


class Counter:
    """A tool that counts how many of its calls are under way."""

    def __init__(self, **options: Any) -> None:
        self.now = self.most = self.done = 0
        self.open = asyncio.Event()

        @ai.tool(concurrency=2, **options)
        async def work(number: int) -> int:
            """Work."""
            self.now += 1
            self.most = max(self.most, self.now)
            await self.open.wait()
            self.now -= 1
            self.done += 1
            return number

        self.tool = work


def working(counter: Counter, calls: int) -> ai.Agent:
    turn = [call("work", number=number) for number in range(calls)]
    return ai.Agent(model=scripted(in_turn(turn, "done")), tools=[counter.tool])


async def test_no_more_calls_of_a_tool_run_than_may(link: Link):
    counter = Counter()
    async with milling(link, {"agent": working(counter, 8)}) as mill:
        await mill.worker("tools")
        places = [await mill.submit() for _ in range(2)]
        await wait_until(lambda: counter.now == 2, for_="two calls to be under way")
        counter.open.set()
        ended = [await mill.ended(place) for place in places]

    assert counter.most == 2
    assert counter.done == 16
    assert [each.run.output for each in ended] == ["done", "done"]


async def test_a_call_whose_worker_died_does_not_stop_the_others(link: Link):
    counter = Counter(idempotent=True)
    async with milling(link, {"agent": working(counter, 3)}) as mill:
        place = await mill.submit()
        await wait_until(lambda: counter.now == 2, for_="two calls to be under way")
        first = next(
            each.key
            for each in await mill.resources.runs.calls(TENANT, place.run_id)
            if each.state == "started"
        )
        await mill.lapse("tools", place.keys.call_job(TENANT, place.run_id, first))
        await mill.until(place, "tool.started", count=3)
        counter.open.set()
        ended = await mill.ended(place)

    assert ended.run.output == "done"
    assert sorted(map(int, ended.results)) == [0, 1, 2]


async def test_a_call_that_waits_for_its_turn_can_be_cancelled(link: Link):
    counter = Counter()
    async with milling(link, {"agent": working(counter, 4)}) as mill:
        place = await mill.submit()
        await wait_until(lambda: counter.now == 2, for_="two calls to be under way")
        await mill.resources.runs.cancel(TENANT, place.run_id)
        await mill.ended(place)
        counter.open.set()
        second = await mill.ended(await mill.submit())

    assert second.run.output == "done"
    assert counter.done == 4


async def test_a_call_in_line_is_not_withdrawn_while_workers_look_at_it(link: Link):
    counter = Counter()
    short = {"queue_wait": timedelta(seconds=2)}
    async with milling(link, {"agent": working(counter, 3)}, **short) as mill:
        place = await mill.submit()
        await wait_until(lambda: counter.now == 2, for_="two calls to be under way")
        await held_for(mill, place, 3)
        counter.open.set()
        ended = await mill.ended(place)

    assert sorted(map(int, ended.results)) == [0, 1, 2]


async def held_for(mill: Mill, place: RunPlace, times: int) -> None:
    """Wait until a call was looked at, and held, so often."""
    seen: set[bytes] = set()

    async def is_so() -> bool:
        fields = await mill.link.command("HGETALL", place.calls)
        named = dict(zip(fields[::2], fields[1::2], strict=True))
        seen.update(value for name, value in named.items() if name.endswith(b"|held"))
        return len(seen) >= times

    await wait_until(is_so, for_=f"a call to be held {times} times")


async def test_in_one_process_the_limit_holds_too():
    counter = Counter()
    async with working(counter, 6).run(messages="go") as stream:
        reading = Owner().start(collect(stream), name="reading")
        await wait_until(lambda: counter.now == 2, for_="two calls to be under way")
        counter.open.set()
        await reading

    assert counter.most == 2
    assert counter.done == 6


@ai.tool(redact=["password"], require_approval=lambda given: given["user"] == "ann")
async def login(user: str, password: str) -> str:
    """Log in."""
    return f"{user}:{password}"


@ai.tool(redact=True)
async def secret(key: str) -> str:
    """Look a secret up."""
    return f"value of {key}"


def hiding() -> ai.Agent:
    turn = [
        call("login", user="bob", password="pa55"),
        call("login", user="ann", password="pa55"),
        call("secret", key="k3y"),
    ]
    return ai.Agent(model=scripted(in_turn(turn, "done")), tools=[login, secret])


async def test_what_a_tool_hides_stands_in_no_event_and_in_no_list(link: Link):
    async with milling(link, {"agent": hiding()}) as mill:
        place = await mill.submit()
        await mill.until(place, "hook.opened")
        (hook,) = (await mill.resources.hooks.page(TENANT)).hooks
        await mill.resources.hooks.close(TENANT, hook, Answer("resolved", {"granted": True}))
        ended = await mill.ended(place)
        ledger = await mill.resources.runs.calls(TENANT, place.run_id)
        stored = await mill.link.command("XRANGE", place.names.log, "-", "+")

    assert hook.metadata == {"tool": "login", "kwargs": {"user": "ann", "password": HIDDEN}}
    for word in (b"k3y", b"value of"):
        assert word not in repr(stored).encode()
    assert "pa55" not in repr([each for each in ended.events if each.type != "tool.finished"])
    assert "pa55" not in repr(ledger)
    shown = {each["name"]: each["arguments"] for each in ended.of("call.finished")}
    assert shown["secret"] == f'{{"key":"{HIDDEN}"}}'
    assert sorted(ended.results) == ["ann:pa55", "bob:pa55", "value of k3y"]


@ai.tool(redact=True)
async def whispered(what: str) -> AsyncIterator[str]:
    """Give a secret in pieces."""
    yield f"{what} one"
    yield f"{what} two"


async def test_the_pieces_of_a_secret_are_secret(link: Link):
    model = scripted(in_turn([call("whispered", what="k3y")], "done"))
    async with milling(link, {"agent": ai.Agent(model=model, tools=[whispered])}) as mill:
        ended = await mill.through()

    assert "k3y" not in repr(ended.events)
    assert [each["value"] for each in ended.of("tool.progress")] == [HIDDEN, HIDDEN]
    assert ended.results == ["k3y two"]


async def test_an_edit_of_hidden_arguments_leaves_what_was_hidden(link: Link):
    model = scripted(in_turn([call("login", user="ann", password="pa55")], "done"))
    async with milling(link, {"agent": ai.Agent(model=model, tools=[login])}) as mill:
        place = await mill.submit()
        await mill.until(place, "hook.opened")
        (hook,) = (await mill.resources.hooks.page(TENANT)).hooks
        edited = {"user": "eve", "password": HIDDEN}
        answer = Answer("resolved", {"granted": True, "arguments": edited})
        await mill.resources.hooks.close(TENANT, hook, answer)
        ended = await mill.ended(place)

    assert ended.results == ["eve:pa55"]


def test_only_arguments_can_be_hidden():
    with pytest.raises(SetupError, match="is to hide 'pasword', which is none of its arguments"):
        ai.tool(redact=["pasword"])(login.function)
