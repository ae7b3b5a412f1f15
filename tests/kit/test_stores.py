"""What every store of sessions promises; each test asks the one in memory and the one in files."""

import asyncio
import json
import math
import string
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loops.errors import RunError
from loops.kit.file_store import Disk, FileSessions
from loops.kit.stores import MemorySessions, SessionConflict, SessionStore, Window

NOTHING = Window([], 0, None, 0)


def says(text: Any, **beside: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **beside}


def many(count: int, start: int = 0) -> list[dict[str, Any]]:
    return [says(f"m{number}") for number in range(start, start + count)]


def shown(window: Window) -> list[tuple[int, Any]]:
    return [(entry.index, entry.message["content"]) for entry in window.entries]


def files_in(folder: Path) -> list[Path]:
    return list(folder.rglob("*.jsonl"))


@pytest.fixture(params=["memory", "files"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SessionStore:
    return MemorySessions() if request.param == "memory" else FileSessions(tmp_path / "sessions")


async def test_an_unknown_session_is_empty_and_stays_unknown(
    store: SessionStore, tmp_path: Path
) -> None:
    assert await store.load("a") == NOTHING

    with pytest.raises(SessionConflict):
        await store.append("a", 1, [says("late")])

    assert files_in(tmp_path) == []
    assert await store.load("a") == NOTHING


async def test_messages_come_back_in_their_places(store: SessionStore) -> None:
    await store.append("a", 0, [says("x"), says("y")])
    await store.append("a", 2, [says("z", usage={"input": 3}, internal=True)])
    await store.append("b", 0, [says("other")])

    window = await store.load("a")

    assert shown(window) == [(0, "x"), (1, "y"), (2, "z")]
    assert window.entries[2].message == says("z", usage={"input": 3}, internal=True)
    assert (window.length, window.marker, window.damaged) == (3, None, 0)


ODD = [
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "orphan", "content": "?"}]},
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "lost", "name": "t", "input": {}}],
    },
    {"role": "assistant", "content": []},
    {"role": "nobody", "content": [{"type": "never seen", "deep": [[[{}]]]}]},
    {"role": "user", "content": "half \ud83d, NUL \0, line\nends \r\n\u2028, \U0001f600"},
    {"i": 99, "m": {}, "k": {"first_kept": 0}},
    {"": None, "numbers": [1, 1.0, -0.5, 2**70, 1e300], "truth": [True, False]},
    {},
]


async def test_what_is_stored_comes_back_as_it_was_however_odd(store: SessionStore) -> None:
    await store.append("a", 0, ODD)

    window = await store.load("a")

    assert [json.dumps(each.message) for each in window.entries] == [json.dumps(m) for m in ODD]


@pytest.mark.parametrize("value", [math.nan, math.inf, object(), b"bytes", {1, 2}])
async def test_what_json_cannot_say_is_refused_before_anything_changes(
    store: SessionStore, value: Any
) -> None:
    with pytest.raises((TypeError, ValueError)):
        await store.append("a", 0, [says("fine"), says(value)])
    with pytest.raises((TypeError, ValueError)):
        await store.mark("a", {"first_kept": 0, "summary": value})

    assert await store.load("a") == NOTHING


async def test_what_is_nested_too_deeply_is_refused(store: SessionStore) -> None:
    deep: list[Any] = []
    for _ in range(200_000):
        deep = [deep]

    with pytest.raises(ValueError, match="nested too deeply"):
        await store.append("a", 0, [says(deep)])


async def test_nobody_shares_a_message_with_the_store(store: SessionStore) -> None:
    given, marker = says(["x"]), {"first_kept": 0, "notes": ["n"]}
    await store.append("a", 0, [given])
    await store.mark("a", marker)
    given["content"].append("mine")
    marker["notes"] = []

    first = await store.load("a")
    first.entries[0].message["content"].append("also mine")
    assert first.marker is not None
    first.marker["notes"].append("mine too")
    second = await store.load("a")

    assert shown(second) == [(0, ["x"])]
    assert second.marker == {"first_kept": 0, "notes": ["n"]}


async def test_a_taken_place_is_refused_to_another_message(store: SessionStore) -> None:
    await store.append("a", 0, many(3))

    with pytest.raises(SessionConflict) as caught:
        await store.append("a", 1, [says("m1"), says("other"), says("m3")])

    assert (caught.value.session, caught.value.index) == ("a", 2)
    assert isinstance(caught.value, RunError)
    assert caught.value.code == "session_conflict"
    assert (await store.load("a")).length == 3


async def test_a_gap_is_refused(store: SessionStore) -> None:
    await store.append("a", 0, many(3))

    with pytest.raises(SessionConflict, match="message 4 of session 'a'"):
        await store.append("a", 4, [says("m4")])

    assert (await store.load("a")).length == 3


@pytest.mark.parametrize("index", [-1, True, 1.0, None])
async def test_a_place_that_is_no_index_is_refused(store: SessionStore, index: Any) -> None:
    with pytest.raises(ValueError, match="the place of a message"):
        await store.append("a", index, [says("x")])


@pytest.mark.parametrize("index", range(4))
async def test_an_append_may_be_tried_again(store: SessionStore, index: int) -> None:
    await store.append("a", 0, many(3))
    await store.append("a", index, many(5 - index, start=index))
    await store.append("a", index, many(5 - index, start=index))

    assert shown(await store.load("a")) == [(number, f"m{number}") for number in range(5)]


async def test_to_append_nothing_does_nothing(store: SessionStore) -> None:
    await store.append("a", 0, [])
    await store.append("a", 7, [])

    assert await store.load("a") == NOTHING


async def test_the_same_content_is_json_s_not_python_s(store: SessionStore) -> None:
    await store.append("a", 0, [{"x": 1, "y": True}])

    await store.append("a", 0, [{"y": True, "x": 1}])
    with pytest.raises(SessionConflict):
        await store.append("a", 0, [{"x": True, "y": 1}])
    with pytest.raises(SessionConflict):
        await store.append("a", 0, [{"x": 1.0, "y": True}])


async def test_the_window_begins_where_the_newest_marker_says(store: SessionStore) -> None:
    await store.append("a", 0, many(10))
    await store.mark("a", {"first_kept": 4, "summary": "once"})
    await store.mark("a", {"first_kept": 7, "summary": "again"})
    await store.append("a", 10, many(2, start=10))

    window = await store.load("a")

    assert [entry.index for entry in window.entries] == [7, 8, 9, 10, 11]
    assert (window.length, window.damaged) == (12, 0)
    assert window.marker == {"first_kept": 7, "summary": "again"}


async def test_messages_that_were_appended_before_a_late_marker_survive_it(
    store: SessionStore,
) -> None:
    await store.append("a", 0, many(10))
    await store.append("a", 10, many(3, start=10))

    await store.mark("a", {"first_kept": 8, "summary": "of the first eight"})

    window = await store.load("a")
    assert shown(window) == [(number, f"m{number}") for number in range(8, 13)]


async def test_a_marker_may_keep_nothing(store: SessionStore) -> None:
    await store.append("a", 0, many(3))
    await store.mark("a", {"first_kept": 3})

    empty = await store.load("a")
    await store.append("a", 3, [says("next")])

    assert (empty.entries, empty.length) == ([], 3)
    assert shown(await store.load("a")) == [(3, "next")]


async def test_a_marker_may_go_back_behind_an_earlier_one(store: SessionStore) -> None:
    await store.append("a", 0, many(5))
    await store.mark("a", {"first_kept": 4})
    await store.mark("a", {"first_kept": 1})

    assert [entry.index for entry in (await store.load("a")).entries] == [1, 2, 3, 4]


async def test_a_marker_may_be_the_first_of_a_session(store: SessionStore) -> None:
    await store.mark("a", {"first_kept": 0})
    await store.append("a", 0, many(1))

    window = await store.load("a")

    assert (shown(window), window.marker) == ([(0, "m0")], {"first_kept": 0})


async def test_a_marker_past_the_end_is_refused(store: SessionStore) -> None:
    await store.append("a", 0, many(3))

    with pytest.raises(SessionConflict) as caught:
        await store.mark("a", {"first_kept": 4})
    with pytest.raises(SessionConflict):
        await store.mark("unknown", {"first_kept": 1})

    assert caught.value.index == 4
    assert (await store.load("a")).marker is None


@pytest.mark.parametrize("first", [-1, True, 1.0, "1", None])
async def test_a_marker_without_an_index_is_refused(store: SessionStore, first: Any) -> None:
    with pytest.raises(ValueError, match="first_kept"):
        await store.mark("a", {"first_kept": first})
    with pytest.raises(ValueError, match="first_kept"):
        await store.mark("a", {})


async def test_a_deleted_session_begins_anew_and_takes_no_late_append(store: SessionStore) -> None:
    await store.append("a", 0, many(3))
    await store.delete("a")
    await store.delete("a")

    with pytest.raises(SessionConflict):
        await store.append("a", 3, [says("late")])
    assert await store.load("a") == NOTHING
    await store.append("a", 0, [says("anew")])

    assert shown(await store.load("a")) == [(0, "anew")]


NAMES = ["", ".", "..", "a/b", "../a", "a\0b", "%", "%25", "A", "a", "a.jsonl", "\u00e9", "e\u0301"]
NAMES += ["con", "x" * 5000, "x" * 5000 + "y", "\U0001f600" * 100, "\ud83d", " ", "a\nb", "~", "%%"]


async def test_an_id_may_be_any_text_and_is_no_other(store: SessionStore, tmp_path: Path) -> None:
    for name in NAMES:
        await store.append(name, 0, [says(name)])

    assert [shown(await store.load(name)) for name in NAMES] == [[(0, name)] for name in NAMES]
    assert {path.parent for path in files_in(tmp_path)} <= {tmp_path / "sessions"}


async def test_of_many_who_append_at_one_place_one_wins(store: SessionStore) -> None:
    lost: list[int] = []

    async def race(number: int) -> None:
        try:
            await store.append("a", 0, [says(number), says(number)])
        except SessionConflict:
            lost.append(number)

    async with asyncio.TaskGroup() as group:
        for number in range(8):
            group.create_task(race(number))

    winner = ({*range(8)} - {*lost}).pop()
    assert len(lost) == 7
    assert shown(await store.load("a")) == [(0, winner), (1, winner)]


async def test_memory_forgets_the_session_that_was_not_used_for_longest() -> None:
    store = MemorySessions(limit=2)
    await store.append("a", 0, [says("a")])
    await store.append("b", 0, [says("b")])
    await store.load("a")
    await store.append("c", 0, [says("c")])

    lengths = [(await store.load(name)).length for name in "abc"]

    assert lengths == [1, 0, 1]
    with pytest.raises(SessionConflict):
        await store.append("b", 1, [says("late")])


def test_memory_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="room"):
        MemorySessions(limit=0)


@dataclass
class Model:
    """A session as a plain list."""

    messages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    marker: dict[str, Any] | None = None

    def append(self, index: int, messages: list[dict[str, Any]]) -> bool:
        there = self.messages[index : index + len(messages)]
        if index > len(self.messages) or there != messages[: len(there)]:
            return False
        self.messages[index : index + len(messages)] = messages
        return True

    def mark(self, first: int) -> bool:
        if first <= len(self.messages):
            self.marker = {"first_kept": first}
        return first <= len(self.messages)

    @property
    def window(self) -> tuple[list[tuple[int, Any]], int, dict[str, Any] | None, int]:
        first = self.marker["first_kept"] if self.marker else 0
        kept = [(at, message["content"]) for at, message in enumerate(self.messages)]
        return kept[first:], len(self.messages), self.marker, 0


CONTENT = st.integers(0, 1) | st.text(string.printable, max_size=3)
CONTENTS = st.lists(CONTENT, min_size=1, max_size=3)
SESSIONS = st.sampled_from("ab")
STEPS = st.one_of(
    st.tuples(st.just("append"), SESSIONS, st.integers(-3, 1), CONTENTS),
    st.tuples(st.just("append"), SESSIONS, st.just(0), CONTENTS),
    st.tuples(st.just("mark"), SESSIONS, st.integers(-3, 1), st.none()),
    st.tuples(st.sampled_from(["reopen", "delete"]), SESSIONS, st.just(0), st.none()),
)


async def follow(open_store: Callable[[], SessionStore], steps: list[tuple[Any, ...]]) -> None:
    """Take the steps, each of them on both sides, and look at the session after each."""
    store, models = open_store(), {"a": Model(), "b": Model()}
    for kind, name, shift, contents in steps:
        model = models[name]
        place = max(len(model.messages) + shift, 0)
        messages = [says(each) for each in contents or []]
        try:
            if kind == "append":
                is_right = model.append(place, messages)
                await store.append(name, place, messages)
            elif kind == "mark":
                is_right = model.mark(place)
                await store.mark(name, {"first_kept": place})
            elif kind == "delete":
                is_right, models[name] = True, Model()
                await store.delete(name)
            else:
                is_right, store = True, open_store()
        except SessionConflict:
            assert not is_right
        else:
            assert is_right
        window = await store.load(name)
        seen = shown(window), window.length, window.marker, window.damaged
        assert seen == models[name].window


@given(st.lists(STEPS, max_size=12))
def test_memory_agrees_with_a_plain_list(steps: list[tuple[Any, ...]]) -> None:
    kept = MemorySessions()

    asyncio.run(follow(lambda: kept, steps))


@settings(max_examples=50)
@given(st.lists(STEPS, max_size=12))
def test_files_agree_with_a_plain_list(steps: list[tuple[Any, ...]]) -> None:
    quick = Disk(fsync=lambda file: None)

    with TemporaryDirectory() as folder:
        asyncio.run(follow(partial(FileSessions, folder, disk=quick), steps))
