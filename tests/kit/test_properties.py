"""Whatever happens to a conversation: each request is fit to be sent, and nothing said is lost."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loops.blocks import Raw
from loops.closing import closing
from loops.context import Context
from loops.errors import AlreadySettled, ProviderError, Unauthorized
from loops.kit import LLM, FileSessions, MemorySessions, Session, Turn
from loops.kit.file_store import Disk
from loops.kit.plain import said, to_message, to_raw
from loops.kit.stores import SessionStore
from loops.local import LocalRuntime
from loops.messages import Messages, as_message
from loops.tasks import Owner
from tests.kit.histories import answers, call
from tests.kit.providers import ScriptedProvider
from tests.kit.talks import (
    FILLING,
    SCRIPTS,
    SUMMARIES,
    Model,
    Watched,
    check_request,
    counted,
    texts_of,
    tokens_in,
)
from tests.worker.driving import TENANT, Mill, milling
from worker.event_log import TERMINAL_EVENTS, LogEvent
from worker.link import Link

LOOK = {"name": "look", "input_schema": {"type": "object"}}


@dataclass(frozen=True)
class Visit:
    """One run: what its model does, and how its reader leaves."""

    script: list[str]
    summaries: list[str]
    window: int
    steered: int | None
    """After how many events somebody says something to the run."""
    closed: int | None
    """After how many events its reader goes away."""
    cancelled: int | None
    """After how many turns of the event loop its task is cancelled."""

    @property
    def name(self) -> str:
        """The name of its agent."""
        return f"agent_{self.window}"


VISITS = st.builds(
    Visit,
    SCRIPTS,
    SUMMARIES,
    st.sampled_from([1_500, 2_500, 100_000]),
    st.none() | st.integers(0, 12),
    st.none() | st.integers(0, 25),
    st.none() | st.integers(0, 300),
)


@dataclass
class Talk:
    """A conversation of many runs, over one store."""

    store: Watched
    model: Model = field(init=False)
    asked: list[str] = field(default_factory=list[str])
    """The tokens of what users said to a run that began to ask."""
    shown: list[str] = field(default_factory=list[str])
    """The tokens of what readers were shown."""
    count: int = 1_000

    def __post_init__(self) -> None:
        self.model = Model(self.look)

    def look(self, messages: Sequence[Raw]) -> None:
        """Pass if a request shows the newest part of what is kept, word for word."""
        kept = [self.store.acknowledged[place] for place in sorted(self.store.acknowledged)]
        shown = texts_of(messages, "user", "assistant")
        assert shown == texts_of(kept, "user", "assistant")[-len(shown) :]

    def says(self) -> str:
        """Return the next thing that a user says."""
        self.count += 1
        return f"<{self.count}>{FILLING}"

    async def visit(self, visit: Visit) -> None:
        """See one run through, however it ends."""
        self.model.script, self.model.summaries = iter(visit.script), iter(visit.summaries)
        word, before = self.says(), len(self.model.asked)
        context = Context(messages=Messages.of(word), chat_id="s", sessions=self.store)
        context.runtime = runtime = LocalRuntime(context.tool_context())
        reading = self._read(self.agent(visit), context, runtime, visit)
        owner = Owner()
        task = owner.start(reading, name="reader")
        await _turns(task, visit.cancelled)
        await owner.close()
        if not task.cancelled():
            task.result()
        requests = self.model.asked[before:]
        assert all(tokens_in(word)[0] in tokens_in(each) for each in requests[:1])
        self.asked += tokens_in(word) if requests else []

    def agent(self, visit: Visit) -> LLM:
        """Return the agent of a visit."""
        llm = LLM().model(self.model).tools([LOOK]).on("look", _look)
        return llm.context(visit.window).max_tokens(60)

    async def _read(self, llm: LLM, context: Context, runtime: LocalRuntime, visit: Visit) -> None:
        events: AsyncIterator[Any] = llm.run(context=context)
        with suppress(ProviderError):
            async with closing(events):
                number = 0
                async for event in events:
                    self.shown += tokens_in(event) if isinstance(event, str) else []
                    number += 1
                    if number == visit.steered:
                        runtime.steer(as_message(self.says()))
                    if number == visit.closed:
                        return

    async def check(self) -> None:
        """Pass if the store has all that was said, once and in order."""
        whole = await self.store.whole('[null,"s"]')
        noted = self.store.acknowledged
        assert {place: whole[place] for place in noted} == noted
        users, replies = texts_of(whole, "user"), counted(whole, "assistant")
        assert sorted(users) == users
        assert set(self.asked) <= set(users)
        assert set(replies.values()) <= {1}
        assert set(self.shown) - set(self.model.voided) <= replies.keys()
        kept = texts_of(whole, "assistant")
        assert kept == sorted(kept, key=lambda token: int(token[1:-1]))


async def _look(inp: dict[str, Any]) -> str:
    await asyncio.sleep(0)
    return f"seen {inp['at']}{FILLING}"


async def _turns(task: asyncio.Task[None], count: int | None) -> None:
    """Wait for the task, or for so many turns of the event loop."""
    if count is None:
        await asyncio.wait({task})
        return
    for _ in range(count):
        if task.done():
            return
        await asyncio.sleep(0)


async def talk(open_store: Callable[[], Any], visits: list[Visit]) -> None:
    """Make all visits, each with a store that was opened anew."""
    watched = Watched(open_store())
    conversation = Talk(watched)
    for visit in visits:
        watched.store = open_store()
        await conversation.visit(visit)
    await conversation.check()


RICH = ["calls", "cut call", "cut", "breaks", "full", "pauses", "calls"]
AFTER = Visit([], [], 2_500, None, None, None)


@pytest.mark.parametrize("how", ["closed", "cancelled"])
def test_a_run_may_be_left_at_any_moment(how: str) -> None:
    for moment in range(1, 60 if how == "closed" else 400, 2 if how == "closed" else 5):
        store = MemorySessions()
        left = replace(AFTER, script=RICH, **{how: moment})

        asyncio.run(talk(lambda store=store: store, [left, AFTER]))


@settings(max_examples=60, report_multiple_bugs=False)
@given(st.lists(VISITS, min_size=1, max_size=4))
def test_whatever_happens_to_runs_in_memory(visits: list[Visit]) -> None:
    store = MemorySessions()

    asyncio.run(talk(lambda: store, visits))


@settings(max_examples=10, report_multiple_bugs=False)
@given(st.lists(VISITS, min_size=2, max_size=3))
def test_whatever_happens_to_runs_over_files(visits: list[Visit]) -> None:
    quick = Disk(fsync=lambda file: None)

    with TemporaryDirectory() as folder:
        asyncio.run(talk(partial(FileSessions, folder, disk=quick), visits))


STEPS = st.tuples(
    st.sampled_from(
        [
            *("says", "replies", "calls", "calls", "answers", "answers", "breaks", "keeps"),
            *("drops", "sums up", "fails to sum up", "clears", "goes", "learns"),
        ]
    ),
    st.integers(0, 3),
)
"""What a loop of one's own does with its session, and a number for it."""


class Hand:
    """A loop of one's own, step by step, beside a plain list of all that is kept."""

    def __init__(self, open_store: Callable[[], SessionStore]) -> None:
        self.open_store = open_store
        self.kept: list[Raw] = []
        self.count = 0

    async def open(self) -> None:
        """Open the session in a new run; all that was not kept is gone."""
        context = Context(chat_id="s", sessions=self.open_store())
        context.runtime = LocalRuntime()
        self.session = await Session.open(context)
        self.before = len(self.kept) - len(self.session.messages)
        assert plain(self.session.messages) == plain(self.kept[self.before :])

    def note(self) -> None:
        """Note that all of the session is kept."""
        self.kept = [*self.kept[: self.before], *deepcopy(self.session.messages)]

    def says(self) -> str:
        """Return the next text."""
        self.count += 1
        return f"<{self.count}>{FILLING}"

    async def take(self, kind: str, number: int) -> None:
        """Take one step."""
        match kind:
            case "says":
                await self.session.add_user(self.says(), internal=number == 0)
            case "replies" | "calls":
                self.session.add_turn(self._turn(number if kind == "calls" else 0))
            case "answers":
                self.session.messages += self._answers(number)
            case "breaks":
                self.session.add_partial(self.says())
            case "drops":
                self.session.rollback()
            case "goes":
                await self.open()
            case _:
                await self._keep(kind, number)
        if kind in {"says", "keeps", "learns"}:
            self.note()

    async def _keep(self, kind: str, number: int) -> None:
        session, keep = self.session, number * 150
        if kind == "keeps":
            await session.checkpoint()
        elif kind == "learns":
            await session.learn(1_000, "m")
        elif kind == "clears":
            if await session.clear(keep, enough=100):
                self.note()
        else:
            said: Any = "They talked." if kind == "sums up" else Unauthorized("no")
            if await session.compact(ScriptedProvider([said]), keep, 100) is not None:
                self.note()

    def _turn(self, calls: int) -> Turn:
        content: list[Raw] = [{"type": "text", "text": self.says()}]
        content += [call(f"c{self.count}.{each}", "look") for each in range(calls)]
        return Turn(content, "tool_use" if calls else "end_turn")

    def _answers(self, number: int) -> list[Raw]:
        """Return results for some calls of the last reply that have none."""
        messages = said(self.session.messages)
        replies = [each for each in messages if each.role == "assistant"]
        done = {block.tool_use_id for each in messages for block in each.tool_results}
        calls = [each.id for each in replies[-1].tool_calls] if replies else []
        missing = [each for each in calls if each not in done][: number + 1]
        return [answers(*missing, content=f"seen{FILLING}")] if missing else []

    def look(self) -> None:
        """Pass if the model would be shown a fit history whose newest part is word for word."""
        session, shown = self.session, self.session.context()
        if shown:
            check_request(shown)
        kept = session.messages[session.first_kept :]
        both = ("user", "assistant")
        visible = [each for each in shown if "Files touched" not in str(each)]
        assert texts_of(visible, *both) == texts_of(kept, *both)
        whole = said(session.messages[max(session.first_kept, session.cleared) :])
        results = {block.tool_use_id for each in whole for block in each.tool_results}
        told = [block for each in said(shown) for block in each.tool_results]
        assert all(FILLING in str(each.content) for each in told if each.tool_use_id in results)
        assert results <= {each.tool_use_id for each in told}


def plain(messages: Sequence[Raw]) -> list[Raw]:
    """Return the messages in one of the two forms that a text has."""
    return [to_raw(to_message(each)) for each in messages]


async def by_hand(open_store: Callable[[], SessionStore], steps: list[tuple[str, int]]) -> None:
    """Take the steps, and look at the session after each."""
    hand = Hand(open_store)
    await hand.open()
    await hand.take("says", 1)
    for kind, number in steps:
        await hand.take(kind, number)
        hand.look()
    stored = Messages.of(await Watched(open_store()).whole('[null,"s"]'))
    assert [to_raw(each) for each in stored] == plain(hand.kept)


@settings(max_examples=80, report_multiple_bugs=False)
@given(st.lists(STEPS, max_size=25))
def test_whatever_a_loop_of_ones_own_does_in_memory(steps: list[tuple[str, int]]) -> None:
    store = MemorySessions()

    asyncio.run(by_hand(lambda: store, steps))


@settings(max_examples=20, report_multiple_bugs=False)
@given(st.lists(STEPS, max_size=15))
def test_whatever_a_loop_of_ones_own_does_over_files(steps: list[tuple[str, int]]) -> None:
    quick = Disk(fsync=lambda file: None)

    with TemporaryDirectory() as folder:
        asyncio.run(by_hand(partial(FileSessions, folder, disk=quick), steps))


class Workers(Talk):
    """A conversation whose runs are driven by workers."""

    def __init__(self, mill: Mill, session: str) -> None:
        super().__init__(Watched(MemorySessions()))
        self.model.look = check_request
        self.mill = mill
        self.session = session
        self.history: list[Raw] = []

    async def visit(self, visit: Visit) -> None:
        """See one run through: somebody may say something to it, or cancel it."""
        # There a run that waits before it asks again waits for the worker's next look around.
        self.model.script = iter([each for each in visit.script if each != "busy"])
        self.model.summaries = iter(visit.summaries)
        word = self.says()
        place = await self.mill.submit(visit.name, word, session_id=self.session)
        runs = self.mill.resources.runs
        with suppress(AlreadySettled):
            if visit.steered is not None:
                await self.mill.until(place, _has(visit.steered))
                told = {"role": "user", "content": self.says()}
                await runs.steer(TENANT, place.run_id, [told])
            if visit.cancelled is not None:
                await self.mill.until(place, _has(visit.cancelled // 10))
                await runs.cancel(TENANT, place.run_id)
        ended = await self.mill.ended(place)
        assert ended.history[: len(self.history)] == self.history
        self.history = ended.history
        self.asked += tokens_in(word) if "turn.started" in ended.types else []

    async def check(self) -> None:
        """Pass if the session has all that was said, once and in order."""
        users, replies = texts_of(self.history, "user"), counted(self.history, "assistant")
        assert sorted(users) == users
        assert set(self.asked) <= set(users)
        assert set(replies.values()) <= {1}
        assert set(self.model.given) <= replies.keys()


def _has(count: int) -> Callable[[list[LogEvent]], bool]:
    return lambda log: len(log) > count or log[-1].type in TERMINAL_EVENTS


NUMBERS = itertools.count()


@settings(
    max_examples=6,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(VISITS, min_size=2, max_size=3))
async def test_whatever_happens_to_runs_on_workers(link: Link, visits: list[Visit]) -> None:
    agents: dict[str, Any] = {}
    async with milling(link, agents) as mill:
        talk = Workers(mill, f"s{next(NUMBERS)}")
        mill.app.agents.update({visit.name: talk.agent(visit) for visit in visits})
        for visit in visits:
            await talk.visit(visit)
    await talk.check()
