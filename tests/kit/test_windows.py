"""What a run sees of a long session: from its newest marker on, and what stands for the rest."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import loops as ai
from loops.blocks import Raw
from loops.errors import ContextTooLong
from loops.kit import LLM, Session, make_provider
from loops.kit.summing import ASK
from loops.messages import Messages
from loops.providers.scripted import scripted
from tests.kit.histories import says, user
from tests.worker.driving import TENANT, Ended, Mill, milling
from worker.calls import RunPlace
from worker.link import Link
from worker.retrying import Changes
from worker.run_record import RunStatus
from worker.window import SessionWindow, read_messages

FRONT = [user("what came before", internal=True), says("I go on.", internal=True)]


class Talk:
    """Agents that say how often they were spoken to, and that sum up when they are asked to.

    What is said begins with what is to be done: `sum up`, and then perhaps `wait` or `fail`.
    """

    def __init__(self) -> None:
        self.seen: list[list[Raw]] = []
        """What the model was shown each time, but for the requests to sum up."""
        self.gate = asyncio.Event()
        self.is_bad = True
        self.summaries = 0
        model = scripted(self._reply)
        self.agents = {"kit": LLM().model(model).loop(self._loop), "agent": ai.Agent(model=model)}

    def _reply(self, history: list[Raw]) -> str:
        if ASK.splitlines()[0] in str(history[-1]["content"]):
            self.summaries += 1
            return f"<summary>Summary {self.summaries}.</summary>"
        self.seen.append(history)
        return f"reply to {history[-1]['content']}"

    async def _loop(self, *, context: ai.Context, model: Any, **kw: Any) -> AsyncIterator[Any]:
        provider, said = make_provider(model), context.last_message
        session = await Session.open(context)
        await session.add_user(said)
        if said.startswith("sum up"):
            await session.compact(provider, keep=1)
        if said.endswith("wait"):
            yield "waiting"
            await self.gate.wait()
        if said.endswith("fail") and self.is_bad:
            raise ValueError("storm")
        async for event in provider.stream(messages=session.context(), max_tokens=100):
            yield event
        await session.checkpoint()

    @property
    def shown(self) -> list[str]:
        """The texts that the model was shown last."""
        return [each.text for each in Messages.of(self.seen[-1])]


async def say(mill: Mill, said: str, before: Ended | None = None, agent: str = "kit") -> Ended:
    """Say something in a new session, or in that of the run before."""
    session_id = before.run.session_id if before else None
    return await mill.through(agent, said, session_id=session_id)


async def stands(mill: Mill, session_id: str) -> tuple[int, int, int]:
    """Return how many messages and markers a session has, and from where on it is needed."""
    names = mill.resources.keys.session(TENANT, session_id)
    messages, markers, kept = await mill.link.all(
        [("LLEN", names.messages), ("LLEN", names.markers), ("HGET", names.record, "kept")]
    )
    return messages, markers, int(kept or 0)


async def test_the_next_run_sees_the_summary_and_what_came_after_it(link: Link) -> None:
    talk = Talk()
    async with milling(link, talk.agents) as mill:
        first = await say(mill, "one")
        second = await say(mill, "sum up", first)
        third = await say(mill, "three", second)

        assert await stands(mill, first.run.session_id) == (6, 1, 2)

    summary, ack, *rest = talk.shown
    assert "Summary 1." in summary
    assert (ack, rest) == (
        "Understood. I go on from there.",
        ["sum up", "reply to sum up", "three"],
    )
    assert [each["content"] for each in third.history if each["role"] == "user"] == [
        "one",
        "sum up",
        "three",
    ]


async def test_a_later_summary_takes_the_place_of_the_one_before(link: Link) -> None:
    talk = Talk()
    async with milling(link, talk.agents) as mill:
        ended = await say(mill, "one")
        for said in ("sum up", "three", "sum up again", "five"):
            ended = await say(mill, said, ended)

        assert await stands(mill, ended.run.session_id) == (10, 2, 6)

    assert "Summary 2." in talk.shown[0]
    assert "Summary 1." not in str(talk.shown)
    assert talk.shown[2:] == ["sum up again", "reply to sum up again", "five"]


async def test_an_agent_of_another_kind_goes_on_with_what_the_kit_summed_up(link: Link) -> None:
    talk = Talk()
    async with milling(link, talk.agents) as mill:
        first = await say(mill, "one")
        second = await say(mill, "sum up", first)
        third = await say(mill, "three", second, agent="agent")
        await say(mill, "four", third)

        assert await stands(mill, first.run.session_id) == (8, 1, 2)

    assert [[each["role"] for each in seen] for seen in talk.seen[2:]] == [
        ["user", "assistant", "user", "assistant", "user"],
        ["user", "assistant", "user", "assistant", "user", "assistant", "user"],
    ]
    assert "Summary 1." in talk.shown[0]
    assert talk.shown[2:] == ["sum up", "reply to sum up", "three", "reply to three", "four"]


async def test_a_run_that_is_rolled_back_leaves_no_marker(link: Link) -> None:
    talk = Talk()
    async with milling(link, talk.agents) as mill:
        first = await say(mill, "one")
        session_id = first.run.session_id
        marking = await mill.submit("kit", "sum up and wait", session_id=session_id)
        await mill.until(marking, "text.delta")
        assert await stands(mill, session_id) == (3, 1, 2)

        next_ = await mill.through("kit", "two", session_id=session_id, on_conflict="rollback")

        assert (await mill.run_of(marking)).status == RunStatus.CANCELLED
        assert await stands(mill, session_id) == (4, 0, 0)
    assert talk.shown == ["one", "reply to one", "two"]
    assert [each["role"] for each in next_.history] == ["user", "assistant"] * 2


async def test_a_run_that_is_begun_again_marks_its_session_once(link: Link) -> None:
    talk = Talk()
    async with milling(link, talk.agents) as mill:
        first = await say(mill, "one")
        failed = await say(mill, "sum up and fail", first)
        assert failed.run.status == RunStatus.FAILED
        talk.is_bad = False

        made = await mill.resources.runs.retry(TENANT, failed.run.id, Changes())
        ended = await mill.ended(RunPlace(mill.resources.keys, TENANT, made.run_id))

        assert await stands(mill, first.run.session_id) == (4, 1, 2)
    assert (ended.run.status, talk.summaries) == (RunStatus.COMPLETED, 1)
    assert "Summary 1." in talk.shown[0]
    assert talk.shown[2:] == ["sum up and fail"]


async def test_a_run_that_is_resumed_marks_its_session_once(link: Link) -> None:
    talk = Talk()
    async with milling(link, talk.agents) as mill:
        first = await say(mill, "one")
        place = await mill.submit("kit", "sum up and wait", session_id=first.run.session_id)
        await mill.until(place, "text.delta")

        await mill.lapse_run(place)
        await mill.until(place, "run.retrying")
        talk.gate.set()
        ended = await mill.ended(place)

        assert await stands(mill, first.run.session_id) == (4, 1, 2)
    assert (ended.run.status, ended.run.attempt) == (RunStatus.COMPLETED, 2)
    assert talk.summaries == 1


async def test_a_session_is_deleted_with_its_markers(link: Link) -> None:
    talk = Talk()
    async with milling(link, talk.agents) as mill:
        ended = await say(mill, "sum up", await say(mill, "one"))
        names = mill.resources.keys.session(TENANT, ended.run.session_id)

        await mill.resources.sessions.delete(TENANT, ended.run.session_id)

        assert await link.command("KEYS", f"{names.record}*") == []


@pytest.mark.parametrize("agent", ["kit", "agent"])
@pytest.mark.parametrize("torn", [b"", b'{"role":"assis', b"\xff\xfe", b'{"role":"nobody"}'])
async def test_a_message_that_cannot_be_read_is_passed_over_and_keeps_its_place(
    link: Link, agent: str, torn: bytes
) -> None:
    talk = Talk()
    async with milling(link, talk.agents) as mill:
        first = await say(mill, "one")
        second = await say(mill, "two", first)
        names = mill.resources.keys.session(TENANT, first.run.session_id)
        whole = await link.command("LINDEX", names.messages, 1)
        await link.command("LSET", names.messages, 1, torn)

        third = await mill.submit(agent, "three", session_id=second.run.session_id)
        await mill.until(third, "run.completed")

        assert await stands(mill, first.run.session_id) == (6, 0, 0)
        await link.command("LSET", names.messages, 1, whole)
    assert talk.shown[-3:] == ["two", "reply to two", "three"]
    assert [each["role"] for each in talk.seen[-1]][-3:] == ["user", "assistant", "user"]
    assert "one" in str(talk.shown[:-3])


async def test_a_window_that_a_run_has_learnt_holds_for_the_next(link: Link) -> None:
    asked: list[int] = []

    def reply(history: list[Raw]) -> Any:
        size = len(str(history))
        asked.append(size)
        if ASK.splitlines()[0] in str(history):
            return "<summary>Short.</summary>"
        return ContextTooLong("too long", limit=1_000) if size > 4_000 else "Well."

    llm = LLM().model(scripted(reply)).max_tokens(100)
    async with milling(link, {"agent": llm}) as mill:
        first = await mill.through(said="w " * 1_000)
        second = await mill.through(said="w " * 1_000, session_id=first.run.session_id)
        refusals = sum(size > 4_000 for size in asked)
        third = await mill.through(said="three", session_id=second.run.session_id)

    assert {each.run.status for each in (first, second, third)} == {RunStatus.COMPLETED}
    assert refusals == 1


def window(first: int, marks: int = 1, **marker: Any) -> SessionWindow:
    messages = Messages.of([user("a"), says("b")])
    return SessionWindow(first, marks, {"front": FRONT, **marker}, messages)


def test_what_stands_for_the_older_part_comes_first() -> None:
    opened = window(7, first_kept=7, cleared=9)

    assert [each.text for each in opened.history] == ["what came before", "I go on.", "a", "b"]
    assert opened.shown_marker() == {"front": FRONT, "first_kept": 2, "cleared": 4}


def test_no_acknowledgement_stands_before_what_the_model_says_itself() -> None:
    opened = SessionWindow(7, 1, {"front": FRONT, "first_kept": 7}, Messages.of([says("b")]))

    assert [each.role for each in opened.history] == ["user", "assistant"]
    assert opened.shown_marker() == {"front": FRONT, "first_kept": 1}


def test_a_session_without_a_marker_is_whole() -> None:
    opened = SessionWindow(messages=Messages.of([user("a")]))

    assert [each.text for each in opened.history] == ["a"]
    assert opened.shown_marker() is None
    assert opened.marked({"first_kept": 1, "cleared": 1}, 0)[0] == (1, 0)


@given(first=st.integers(2, 50), kept=st.integers(0, 20), cleared=st.integers(0, 20))
def test_a_marker_comes_back_as_it_was_told(first: int, kept: int, cleared: int) -> None:
    opened = window(first, marks=3, first_kept=first, cleared=first)
    told = {"first_kept": 2 + kept, "cleared": 2 + cleared}

    (place, ordinal), stored = opened.marked(told, 4)

    assert (place, ordinal) == (first + kept, 7)
    again = SessionWindow(first, 8, {"front": FRONT, **stored}, opened.messages)
    shown = again.shown_marker() or {}
    assert {name: shown[name] for name in told} == told


@pytest.mark.parametrize(
    "torn", [b"", b"{", b"\xff", b'"text"', b"7", b"null", b"[1]", b'{"role":"x"}']
)
def test_a_message_that_cannot_be_read_is_empty(torn: bytes) -> None:
    read = read_messages([b'{"role":"user","content":"a"}', torn])

    assert [(each.role, each.text) for each in read] == [("user", "a"), ("system", "")]
