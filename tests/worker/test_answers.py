"""Answers from elsewhere reach the loop in the order in which they reached it before."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from loops.messages import ToolResult
from loops.tasks import Owner
from tests.waiting import wait_until
from worker import answers as module
from worker.answers import Answers


@pytest.fixture
async def owner() -> AsyncIterator[Owner]:
    owner = Owner()
    yield owner
    await owner.close()


class Loop:
    """Waits for answers as a pass does, and notes the order in which it has them."""

    def __init__(self, owner: Owner, answers: Answers) -> None:
        self.owner = owner
        self.answers = answers
        self.seen: list[tuple[str, bytes]] = []
        self.new: list[str] = []

    def ask(self, *keys: str) -> None:
        for key in keys:
            self.owner.start(self._wait(key), name=key)

    async def _wait(self, key: str) -> None:
        value = await self.answers.wait(key)
        self.seen.append((key, value))
        if self.answers.hand_over(key):
            self.new.append(key)

    async def has(self, count: int) -> list[str]:
        await wait_until(lambda: len(self.seen) == count, for_=f"{count} answers")
        return [key for key, _ in self.seen]


async def test_an_answer_is_given_when_it_arrives(owner: Owner):
    loop = Loop(owner, Answers([]))
    loop.ask("a")
    await wait_until(lambda: loop.answers.waiting == ["a"])

    loop.answers.arrive("a", b"1")

    assert await loop.has(1) == ["a"]
    assert loop.seen == [("a", b"1")]
    assert loop.answers.waiting == []


async def test_an_answer_that_came_before_it_was_asked_for_is_given_at_once(owner: Owner):
    loop = Loop(owner, Answers([]))
    loop.answers.arrive("a", b"1")

    loop.ask("a")

    assert await loop.has(1) == ["a"]


async def test_the_first_answer_counts(owner: Owner):
    loop = Loop(owner, Answers([]))
    loop.answers.arrive("a", b"1")
    loop.answers.arrive("a", b"2")

    loop.ask("a")

    await loop.has(1)
    assert loop.seen == [("a", b"1")]


async def test_new_answers_are_given_as_they_arrive_and_noted(owner: Owner):
    loop = Loop(owner, Answers([]))
    loop.ask("a", "b", "c")
    await wait_until(lambda: len(loop.answers.waiting) == 3)

    for count, key in enumerate("bca", 1):
        loop.answers.arrive(key, b"")
        await loop.has(count)

    assert await loop.has(3) == ["b", "c", "a"]
    assert loop.new == ["b", "c", "a"]


async def test_answers_of_an_earlier_pass_are_given_in_its_order(owner: Owner):
    loop = Loop(owner, Answers(["b", "c", "a"]))
    for key in "abc":
        loop.answers.arrive(key, b"")

    loop.ask("a", "b", "c")

    assert await loop.has(3) == ["b", "c", "a"]
    assert loop.new == []


async def test_a_new_answer_waits_for_those_of_an_earlier_pass(owner: Owner):
    loop = Loop(owner, Answers(["a"]))
    loop.answers.arrive("a", b"")
    loop.answers.arrive("new", b"")

    loop.ask("new", "a")

    assert await loop.has(2) == ["a", "new"]
    assert loop.new == ["new"]


async def test_an_answer_that_nobody_comes_to_ask_for_does_not_hold_the_others_up_for_long(
    owner: Owner,
):
    loop = Loop(owner, Answers(["gone", "a", "b"]))
    for key in ("gone", "a", "b"):
        loop.answers.arrive(key, b"")
    began = time.monotonic()

    loop.ask("b", "a")

    assert await loop.has(2) == ["a", "b"]
    assert time.monotonic() - began < 2 * module.PATIENCE + 0.5


async def test_a_wait_that_was_given_up_harms_nobody(owner: Owner):
    answers = Answers([])
    waits = owner.start(answers.wait("a"), name="given up")
    await wait_until(lambda: answers.waiting == ["a"])

    waits.cancel()
    await asyncio.wait([waits])
    answers.arrive("a", b"1")

    assert await answers.wait("a") == b"1"


async def test_two_who_wait_for_one_answer_both_have_it(owner: Owner):
    answers = Answers([])
    waits = [owner.start(answers.wait("a"), name="waits") for _ in range(3)]
    await wait_until(lambda: answers.waiting == ["a"])
    waits[0].cancel()
    await asyncio.wait([waits[0]])

    answers.arrive("a", b"1")

    assert [await wait for wait in waits[1:]] == [b"1", b"1"]


async def test_the_result_of_a_call_can_be_looked_up_without_waiting():
    answers = Answers([])
    result = ToolResult("a", "call_0", "mail", {"sent": True})
    assert answers.result_of("a") is None

    answers.arrive("a", result.encode())

    assert answers.result_of("a") == result
