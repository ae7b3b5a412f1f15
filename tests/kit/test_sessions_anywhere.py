"""What people have met whose agents keep conversations, elsewhere, and what happens here.

A test is named by its case, where the case is shown here; `CASES` names all of them.
"""

import ast
import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.blocks import Raw
from loops.context import Context
from loops.errors import ContextTooLong, StillRunning
from loops.history import inspect
from loops.kit import LLM, FileSessions, MemorySessions, Session, Turn
from loops.kit.cutting import is_said
from loops.kit.estimate import tokens_of
from loops.kit.session import INTERRUPTED
from loops.kit.stores import SessionConflict, SessionStore
from loops.kit.summing import ASK
from loops.local import LocalRuntime
from loops.messages import Messages
from loops.providers.scripted import call as calls
from loops.providers.scripted import in_turn, scripted
from loops.tasks import Owner
from tests.kit.histories import HISTORIES, answers, asks, says, user
from tests.kit.providers import Answer, ScriptedProvider
from tests.kit.talks import Watched, check_request
from tests.waiting import wait_until
from tests.worker.driving import TENANT, milling
from worker.link import Link

_CUTTING = "tests/kit/test_cutting.py::"
_COMPACT = "tests/kit/test_compact.py::"
_FILES = "tests/kit/test_file_store.py::"
_STORES = "tests/kit/test_stores.py::"
_HERE = "tests/kit/test_sessions_anywhere.py::"
_SESSIONS = "tests/worker/test_sessions.py::"
_CONFLICTS = "tests/worker/test_conflicts.py::"

CASES: dict[str, list[str]] = {
    "C166": [
        f"{_HERE}test_c166_no_compaction_parts_a_call_from_its_result",
        f"{_CUTTING}test_both_parts_keep_the_pairing_law_wherever_a_fit_history_is_cut",
        f"{_COMPACT}test_whatever_the_history_the_request_and_the_outcome_are_fit",
    ],
    "C168": [
        f"{_HERE}test_c168_what_is_appended_during_a_compaction_survives_it",
        f"{_HERE}test_c168_a_call_that_is_still_open_is_not_summed_up",
        f"{_STORES}test_messages_that_were_appended_before_a_late_marker_survive_it",
    ],
    "C169": [f"{_HERE}test_c169_a_compaction_that_does_not_help_ends_with_one_error"],
    "C170": [
        f"{_HERE}test_c170_of_two_runs_at_once_one_has_the_session",
        f"{_HERE}test_c170_on_workers_runs_of_a_session_follow_each_other",
        f"{_CONFLICTS}test_behind_a_run_that_waits_for_somebody_nobody_waits_unasked",
        f"{_CONFLICTS}test_the_run_that_waits_may_be_ended_and_forgotten",
    ],
    "C172": [
        f"{_HERE}test_c172_a_rollback_leaves_what_is_kept_and_is_the_same_twice",
        f"{_HERE}test_c172_a_run_that_is_rolled_back_takes_its_compaction_with_it",
        f"{_STORES}test_a_marker_may_go_back_behind_an_earlier_one",
    ],
    "C173": [
        f"{_HERE}test_c173_a_checkpoint_that_was_broken_off_is_kept_once",
        f"{_FILES}test_a_fault_in_any_step_leaves_the_old_session_and_a_second_try_the_new_one",
        f"{_FILES}test_a_writer_may_be_killed_at_any_moment",
    ],
    "C174": [f"{_HERE}test_c174_a_history_that_is_invalid_is_mended_in_a_copy"],
    "C176": [
        f"{_HERE}test_c176_a_session_that_is_deleted_is_not_made_anew_by_a_late_write",
        f"{_HERE}test_c176_on_workers_deleting_a_session_ends_its_run",
        f"{_SESSIONS}test_a_session_whose_run_is_stopping_is_not_deleted_yet",
    ],
}
"""The tests of each case."""

KEY = '[null,"s"]'
"""The session of the tests, as its store knows it."""
LOOK = {"name": "look", "input_schema": {"type": "object"}}


@pytest.mark.parametrize("where", sorted({each for tests in CASES.values() for each in tests}))
def test_each_test_that_is_named_stands_in_its_file(shipped: Path, where: str) -> None:
    file, _, name = where.partition("::")

    tree = ast.parse((shipped / file).read_text(encoding="utf-8"))

    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    assert name in {each.name for each in tree.body if isinstance(each, functions)}


@pytest.fixture(params=["memory", "files"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SessionStore:
    """A store of sessions, of each kind."""
    return MemorySessions() if request.param == "memory" else FileSessions(tmp_path / "kept")


async def opened(store: SessionStore, said: str = "", runtime: Any = None) -> Session:
    """Open the session in a run of its own."""
    context = Context(messages=Messages.of(said or ()), chat_id="s", sessions=store)
    context.runtime = runtime or LocalRuntime()
    return await Session.open(context)


def reading(llm: LLM, store: SessionStore, said: str = "go") -> AsyncIterator[Any]:
    """Return the events of a run of the agent in the session."""
    return llm.run(context=Context(messages=Messages.of(said), chat_id="s", sessions=store))


async def kept(store: SessionStore) -> list[Any]:
    """Return the contents of all messages of the session."""
    return [each["content"] for each in await Watched(store).whole(KEY)]


@given(HISTORIES, st.integers(0, 600))
async def test_c166_no_compaction_parts_a_call_from_its_result(
    history: list[Raw], keep: int
) -> None:
    session = await opened(MemorySessions())
    session.messages = list(history)
    provider = ScriptedProvider(["They talked."])

    await session.compact(provider, keep, 100)

    newer = session.messages[session.first_kept :]
    assert inspect(newer) == []
    assert not provider.asked or is_said(newer[0]) or newer[0]["role"] == "assistant"
    assert all(inspect(asked["messages"]) == [] for asked in provider.asked)


async def test_c168_what_is_appended_during_a_compaction_survives_it(store: SessionStore) -> None:
    gate = asyncio.Event()

    async def summary(_: Any) -> str:
        await gate.wait()
        return "They talked."

    session = await opened(store)
    for number in range(4):
        await session.add_user(f"{number} {'word ' * 50}")
    provider, owner = ScriptedProvider([summary]), Owner()
    compacting = owner.start(session.compact(provider, 1, 100), name="compaction")
    await wait_until(lambda: bool(provider.asked), for_="the question")
    other = await opened(store)
    await other.add_user("meanwhile")

    gate.set()
    await compacting

    later = await opened(store)
    assert later.summary is not None
    assert [each["content"] for each in later.messages[-1:]] == ["meanwhile"]
    with pytest.raises(SessionConflict):
        await session.add_user("too late")


async def test_c168_a_call_that_is_still_open_is_not_summed_up(store: SessionStore) -> None:
    session = await opened(store)
    await session.add_user("one")
    session.messages += [asks("c1"), answers("c1"), asks("c2")]
    await session.checkpoint()

    await session.compact(ScriptedProvider(["They talked."]), 0, 100)

    assert session.messages[session.first_kept] in [asks("c1"), asks("c2")]
    assert [each["role"] for each in session.context()][-1] == "user"
    assert INTERRUPTED in str(session.context())


class Narrow:
    """A model with a small window, which refuses what is longer."""

    model = "narrow"
    window = 3_000

    def __init__(self, *answers: str | list[Raw]) -> None:
        self.answers = iter(answers)
        self.refused = self.summed = 0

    async def stream(self, *, messages: Any, system: str, tools: Any, **_: Any) -> Any:
        """Yield the next answer, or fail."""
        is_summary = ASK[:40] in str(messages[-1]["content"])
        self.summed += is_summary
        if tokens_of(messages) + tokens_of(system) + tokens_of(str(tools)) > self.window:
            self.refused += not is_summary
            raise ContextTooLong("it is too long", limit=self.window)
        said = "They talked." if is_summary else next(self.answers)
        content = [{"type": "text", "text": said}] if isinstance(said, str) else said
        yield Turn(content, "end_turn" if isinstance(said, str) else "tool_use")

    async def complete(self, **_: Any) -> str:
        """Return nothing: nobody asks."""
        return ""


HUGE = "word " * 20_000


async def huge(inp: dict[str, Any]) -> str:
    """Give a result of two megabytes."""
    return "x" * 2_000_000


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda llm: llm, HUGE),
        (lambda llm: llm.system(HUGE), "go"),
        (lambda llm: llm.tools([{**LOOK, "description": HUGE}]), "go"),
        (lambda llm: llm.on("look", huge), "look"),
    ],
    ids=["message", "system", "tools", "result"],
)
async def test_c169_a_compaction_that_does_not_help_ends_with_one_error(
    change: Callable[[LLM], LLM], said: str
) -> None:
    model = Narrow(*([[{"type": "tool_use", "id": "c", "name": "look", "input": {}}]] * 1))
    llm = change(LLM().model(model).tools([LOOK]).on("look", huge).context(model.window))
    store = MemorySessions()
    await store.append(KEY, 0, [user("before"), says("well"), user("and"), says("so")])

    with pytest.raises(ContextTooLong, match="make them shorter"):
        async for _ in reading(llm, store, said):
            pass

    assert model.refused <= 2
    assert model.summed <= 6


async def test_c170_of_two_runs_at_once_one_has_the_session(store: SessionStore) -> None:
    provider = ScriptedProvider(["one", "two"])
    llm, owner = LLM().model(provider), Owner()

    async def run(said: str) -> None:
        async for _ in reading(llm, store, said):
            pass

    tasks = [owner.start(run(said), name=said) for said in ("a", "b")]
    await owner.join()

    [lost] = [task.exception() for task in tasks if task.exception()]
    assert isinstance(lost, SessionConflict)
    whole = await Watched(store).whole(KEY)
    assert [each["role"] for each in whole if each["role"] == "assistant"] == ["assistant"]
    assert whole[-1]["role"] == "assistant"


async def test_c170_on_workers_runs_of_a_session_follow_each_other(link: Link) -> None:
    llm = LLM().model(scripted(lambda history: f"after {len(history)}"))
    async with milling(link, {"agent": llm}) as mill:
        places = [await mill.submit(said=str(number), session_id="s") for number in range(3)]
        ended = [await mill.ended(place) for place in places][-1]

    assert [each["role"] for each in ended.history] == ["user", "assistant"] * 3
    assert [str(each["content"]) for each in ended.history[::2]] == ["0", "1", "2"]


async def test_c172_a_rollback_leaves_what_is_kept_and_is_the_same_twice(
    store: SessionStore,
) -> None:
    session = await opened(store)
    await session.add_user("go")
    session.add_turn(Turn([asks("c1")["content"][0]], "tool_use"))
    await session.checkpoint()
    session.messages.append(answers("c1"))

    session.rollback()
    session.rollback()

    assert session.messages == [user("go"), asks("c1")]
    assert INTERRUPTED in str(session.context()[-1])
    check_request(session.context())
    assert len(await kept(store)) == 2


async def test_c172_a_run_that_is_rolled_back_takes_its_compaction_with_it(link: Link) -> None:
    async def own(*, context: Context, **_: Any) -> AsyncIterator[str]:
        session = await Session.open(context)
        await session.add_user(context.last_message)
        await session.compact(ScriptedProvider(["They talked."]), 1, 100)
        yield "summed up"
        await asyncio.Event().wait()

    plain = LLM().model(scripted("well"))
    async with milling(link, {"agent": plain, "own": LLM().model("m").loop(own)}) as mill:
        before = await mill.through(said="one", session_id="s")
        place = await mill.submit("own", "two", session_id="s")
        await mill.until(place, "text.delta")
        marked = await link.command("KEYS", "*:markers")
        ended = await mill.through(said="three", session_id="s", on_conflict="rollback")

    assert len(marked) == 1
    assert await link.command("KEYS", "*:markers") == []
    assert ended.history[:2] == before.history
    assert [str(each["content"]) for each in ended.history[::2]] == ["one", "three"]


class Slow(LocalRuntime):
    """A runtime that keeps what is said, and is slow at it the first time."""

    keeps = True

    def __init__(self, gate: asyncio.Event) -> None:
        super().__init__()
        self.gate = gate

    async def checkpoint(self, marker: Any = None) -> None:
        """Wait for the gate."""
        await self.gate.wait()


async def test_c173_a_checkpoint_that_was_broken_off_is_kept_once() -> None:
    gate, owner = asyncio.Event(), Owner()
    context = Context(messages=Messages.of("go"), runtime=Slow(gate))
    session = await Session.open(context)
    gate.set()
    await session.add_user("go")
    gate.clear()
    session.add_turn(Turn(says("well")["content"], "end_turn"))
    keeping = owner.start(session.checkpoint(), name="checkpoint")
    await wait_until(lambda: len(context.messages) == 2, for_="the message")
    await owner.close()

    gate.set()
    await session.add_user("and?")

    assert keeping.cancelled()
    assert [message.text for message in context.messages] == ["go", "well", "and?"]
    assert session.messages == [user("go"), says("well"), user("and?")]


ODD: dict[str, Sequence[Raw]] = {
    "orphan call": [user("a"), asks("c1"), says("b")],
    "orphan result": [user("a"), says("b"), answers("c9")],
    "two replies": [user("a"), says("b"), says("c")],
    "empty content": [user("a"), {"role": "assistant", "content": []}],
    "empty text": [user("a"), says("b"), user(" "), says("c")],
    "unknown block": [user("a"), {"role": "assistant", "content": [{"type": "odd", "x": 1}]}],
    "surrogate": [user("a \ud800"), says("b")],
    "deltas": [user("a"), {"type": "content_block_delta", "delta": {"text": "b"}}],
    "no content": [user("a"), {"role": "assistant"}],
}


@pytest.mark.parametrize("name", sorted(ODD))
async def test_c174_a_history_that_is_invalid_is_mended_in_a_copy(
    store: SessionStore, name: str
) -> None:
    await store.append(KEY, 0, list(ODD[name]))
    given: list[Answer] = ["fine"]
    provider = ScriptedProvider(given)

    shown = [event async for event in reading(LLM().model(provider), store)]

    check_request(provider.asked[0]["messages"])
    whole = await Watched(store).whole(KEY)
    assert whole[: len(ODD[name])] == ODD[name]
    assert [each["content"] for each in whole[len(ODD[name]) :][:1]] == ["go"]
    warnings = [each for each in shown if isinstance(each, dict) and each.get("style") == "warning"]
    assert len(warnings) == (name != "two replies" and name != "unknown block")


async def test_c176_a_session_that_is_deleted_is_not_made_anew_by_a_late_write(
    store: SessionStore,
) -> None:
    async def delete(_: Any) -> str:
        await store.delete(KEY)
        return "too late"

    with pytest.raises(SessionConflict):
        async for _ in reading(LLM().model(ScriptedProvider([delete])), store):
            pass

    assert (await store.load(KEY)).length == 0


async def test_c176_on_workers_deleting_a_session_ends_its_run(link: Link) -> None:
    async def look(inp: dict[str, Any]) -> str:
        await asyncio.Event().wait()
        return "never"

    model = scripted(in_turn([calls("look")], "done"))
    llm = LLM().model(model).tools([LOOK]).on("look", look)
    async with milling(link, {"agent": llm}) as mill:
        place = await mill.submit(session_id="s")
        await mill.until(place, "tool.started")

        async def is_deleted() -> bool:
            try:
                await mill.resources.sessions.delete(TENANT, "s")
            except StillRunning:
                return False
            return True

        await wait_until(is_deleted, for_="the session to be gone")
        status = (await mill.run_of(place)).status

    assert status == "cancelled"
    assert await link.command("KEYS", "*:session:*") == []
