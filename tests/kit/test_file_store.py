"""Sessions in files: what deaths, faults of the disk, damage and other processes do to them."""

import asyncio
import errno
import fcntl
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loops.kit.file_store import Disk, FileSessions, file_name
from loops.kit.stores import SessionConflict, Window
from loops.tasks import Owner
from loops.testing import wait_until

ROOT = Path(__file__).resolve().parent.parent.parent
QUICK = Disk(fsync=lambda file: None)


def says(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def many(count: int, start: int = 0) -> list[dict[str, Any]]:
    return [says(f"m{number}") for number in range(start, start + count)]


def indexes(window: Window) -> list[int]:
    return [entry.index for entry in window.entries]


def contents(window: Window) -> list[Any]:
    return [entry.message.get("content") for entry in window.entries]


def line(index: int, text: str) -> bytes:
    return json.dumps({"i": index, "m": says(text)}).encode() + b"\n"


def written(folder: Path, *lines: bytes) -> FileSessions:
    """Return a store of a session "s" that has these lines."""
    (folder / "s.jsonl").write_bytes(b"".join(lines))
    return FileSessions(folder)


async def test_a_file_is_one_line_of_json_for_each_message_and_marker(tmp_path: Path) -> None:
    store = FileSessions(tmp_path)
    await store.append("s", 0, many(2))
    await store.mark("s", {"first_kept": 1, "summary": "short"})

    text = await asyncio.to_thread((tmp_path / "s.jsonl").read_bytes)

    first, second, third = [json.loads(each) for each in text.splitlines()]
    assert (first, second) == ({"i": 0, "m": says("m0")}, {"i": 1, "m": says("m1")})
    assert third["k"] == {"first_kept": 1, "summary": "short"}
    assert text[third["at"] :].startswith(b'{"i":1,')


async def test_a_file_cut_at_any_byte_of_its_last_line_loads_and_goes_on(tmp_path: Path) -> None:
    last = line(2, "the last \u00e9 \U0001f600")
    for kept in range(len(last) + 1):
        store = written(tmp_path, line(0, "x"), line(1, "y"), last[:kept])
        is_whole = kept >= len(last) - 1

        torn = await store.load("s")
        await store.append("s", torn.length, [says("next")])
        window = await store.load("s")

        assert indexes(torn) == ([0, 1, 2] if is_whole else [0, 1])
        assert torn.damaged == window.damaged == (0 if is_whole or kept == 0 else 1)
        assert contents(window)[torn.length :] == ["next"]
        assert indexes(window) == list(range(window.length))


async def test_an_empty_file_is_an_empty_session(tmp_path: Path) -> None:
    store = written(tmp_path, b"")

    assert await store.load("s") == Window([], 0, None, 0)
    await store.append("s", 0, many(1))

    assert indexes(await store.load("s")) == [0]


GARBAGE = [
    b"garbage\n",
    b"\0" * 64 + b"\n",
    b"\xff\xfe\xfa\n",
    b"[" * 100_000 + b"\n",
    b'{"i": 1, "m": "no message"}\n',
    b'{"i": -1, "m": {}}\n',
    b'{"i": true, "m": {}}\n',
    b'{"i": 1.0, "m": {}}\n',
    b'{"i": ' + b"9" * 5000 + b', "m": {}}\n',
    b'{"m": {}}\n',
    b'{"k": {"first_kept": "1"}, "at": 0}\n',
    b'{"k": {"first_kept": 9}, "at": 0}\n',
    b'{"k": 1}\n',
    b"[]\n",
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
async def test_a_damaged_line_in_the_middle_is_passed_over_with_one_warning(
    tmp_path: Path, garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    store = written(tmp_path, line(0, "x"), garbage, line(1, "y"), b"\n", line(2, "z"))

    with caplog.at_level(logging.WARNING):
        window = await store.load("s")

    assert (contents(window), window.length, window.marker) == (["x", "y", "z"], 3, None)
    assert window.damaged == 1
    assert [record.getMessage() for record in caplog.records] == [
        "! 1 damaged entries of session 's' are passed over"
    ]


async def test_a_damaged_message_leaves_its_place_empty(tmp_path: Path) -> None:
    store = written(tmp_path, line(0, "x"), b'{"i":1,"m":{"ro\n', line(2, "z"))

    window = await store.load("s")

    assert (indexes(window), window.length, window.damaged) == ([0, 2], 3, 1)
    with pytest.raises(SessionConflict) as caught:
        await store.append("s", 0, [says("x"), says("y"), says("z")])
    assert caught.value.index == 1


async def test_an_index_that_was_seen_already_is_passed_over(tmp_path: Path) -> None:
    store = written(tmp_path, *(line(index, "x") for index in (0, 1, 1, 2, 1, 2, 3)))

    window = await store.load("s")
    await store.append("s", 4, many(1))

    assert (indexes(window), window.length, window.damaged) == ([0, 1, 2, 3], 4, 3)
    assert indexes(await store.load("s")) == [0, 1, 2, 3, 4]


async def test_a_place_that_was_lost_before_a_marker_is_not_hidden_by_it(tmp_path: Path) -> None:
    store = written(tmp_path, line(0, "x"), b'{"i":1,"m\n', b'{"k":{"first_kept":2}}\n')

    window = await store.load("s")
    await store.append("s", window.length, [says("next")])

    assert (window.entries, window.length) == ([], 2)
    assert contents(await store.load("s")) == ["next"]


@pytest.mark.parametrize("at", [None, -1, 0, 3, 10**12, "x", True])
async def test_an_offset_that_is_wrong_does_no_harm(tmp_path: Path, at: Any) -> None:
    marker = json.dumps({"k": {"first_kept": 400}, "at": at}).encode() + b"\n"
    lines = [line(index, f"m{index}") for index in range(1000)]

    window = await written(tmp_path, *lines, marker).load("s")

    assert contents(window) == [f"m{index}" for index in range(400, 1000)]


async def test_lines_longer_than_any_chunk_are_read(tmp_path: Path) -> None:
    store = FileSessions(tmp_path)
    texts = ["x" * size for size in (1, 100_000, 8191, 8192, 3, 1_000_000, 2)]
    await store.append("s", 0, [says(text) for text in texts])
    await store.mark("s", {"first_kept": 1})

    assert contents(await store.load("s")) == texts[1:]


BYTES = st.integers(0, 255)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 10_000), BYTES), min_size=1, max_size=3), st.booleans())
def test_whatever_happens_to_bytes_a_session_loads_and_goes_on(
    flips: list[tuple[int, int]], is_marked: bool
) -> None:
    async def follow(folder: Path) -> None:
        store = FileSessions(folder, disk=QUICK)
        await store.append("s", 0, many(12))
        if is_marked:
            await store.mark("s", {"first_kept": 9})
            await store.append("s", 12, many(2, start=12))
        path = folder / "s.jsonl"
        text = bytearray(path.read_bytes())
        for place, byte in flips:
            text[place % len(text)] = byte
        path.write_bytes(text)
        await _goes_on(store)

    with TemporaryDirectory() as folder:
        asyncio.run(follow(Path(folder)))


async def _goes_on(store: FileSessions) -> None:
    before = await store.load("s")
    await store.append("s", before.length, [says("next"), says("and next")])
    after = await store.load("s")

    assert all(one < other for one, other in pairwise(indexes(before)))
    assert contents(after)[-2:] == ["next", "and next"]
    assert after.length == before.length + 2


class Faults:
    """A disk on which some calls fail, each by its number among those of its kind."""

    def __init__(self, **fails: int) -> None:
        self._fails = fails
        self.calls: list[str] = []

    @property
    def disk(self) -> Disk:
        return Disk(self._write, self._fsync, self._truncate)

    def _check(self, kind: str) -> None:
        self.calls.append(kind)
        if self.calls.count(kind) == self._fails.get(kind):
            raise OSError(errno.ENOSPC, f"no more {kind}")

    def _write(self, file: int, text: bytes) -> int:
        # No more than a few bytes at once, so that a fault comes in the middle of what is written.
        self._check("write")
        return os.write(file, text[:30])

    def _fsync(self, file: int) -> None:
        self._check("fsync")
        os.fsync(file)

    def _truncate(self, file: int, size: int) -> None:
        self._check("truncate")
        os.ftruncate(file, size)


@pytest.mark.parametrize("length", [0, 2])
@pytest.mark.parametrize("kind", ["write", "fsync"])
async def test_a_fault_in_any_step_leaves_the_old_session_and_a_second_try_the_new_one(
    tmp_path: Path, kind: str, length: int
) -> None:
    fails = 0
    while True:
        fails += 1
        name, faults = f"s{fails}", Faults(**{kind: fails})
        await FileSessions(tmp_path).append(name, 0, many(length))
        store = FileSessions(tmp_path, disk=faults.disk)
        try:
            await store.append(name, length, many(3, start=length))
        except OSError:
            assert indexes(await store.load(name)) == list(range(length))
            await store.append(name, length, many(3, start=length))
        window = await store.load(name)
        assert (indexes(window), window.damaged) == (list(range(length + 3)), 0)
        if "truncate" not in faults.calls:
            break

    assert fails > (5 if kind == "write" else 1)


async def test_what_cannot_be_taken_back_is_whole_or_passed_over(tmp_path: Path) -> None:
    for fails in range(1, 6):
        name, faults = f"s{fails}", Faults(write=fails, truncate=1)
        store = FileSessions(tmp_path, disk=faults.disk)

        with pytest.raises(OSError, match="no more write"):
            await store.append(name, 0, many(3))
        torn = await store.load(name)
        await store.append(name, 0, many(3))
        window = await store.load(name)

        assert contents(torn) == ["m0", "m1", "m2"][: torn.length]
        assert contents(window) == ["m0", "m1", "m2"]
        assert window.damaged <= 1


async def test_a_marker_that_cannot_be_written_leaves_the_older_one(tmp_path: Path) -> None:
    store = FileSessions(tmp_path, disk=Faults(fsync=5).disk)
    await store.append("s", 0, many(5))
    await store.mark("s", {"first_kept": 1})
    await store.mark("s", {"first_kept": 2})

    with pytest.raises(OSError, match="no more fsync"):
        await store.mark("s", {"first_kept": 4})

    assert (await store.load("s")).marker == {"first_kept": 2}


async def test_a_reader_changes_nothing(tmp_path: Path) -> None:
    store = written(tmp_path, line(0, "x"), b'{"i":1,"m":')
    path = tmp_path / "s.jsonl"
    path.chmod(0o400)
    before = await asyncio.to_thread(lambda: (path.read_bytes(), path.stat().st_mtime_ns))

    await store.load("s")
    await store.load("unknown")

    after = await asyncio.to_thread(lambda: (path.read_bytes(), path.stat().st_mtime_ns))
    assert (after, await asyncio.to_thread(os.listdir, tmp_path)) == (before, ["s.jsonl"])


async def test_a_session_is_for_its_owner_s_eyes_only(tmp_path: Path) -> None:
    await FileSessions(tmp_path / "new" / "folders").append("s", 0, many(1))

    status = await asyncio.to_thread((tmp_path / "new" / "folders" / "s.jsonl").stat)

    assert status.st_mode & 0o077 == 0


async def test_a_reader_that_polls_sees_only_whole_entries_and_each_of_them_once(
    tmp_path: Path,
) -> None:
    store, text, owner = FileSessions(tmp_path), "x" * 200_000, Owner()

    async def write() -> None:
        for index in range(0, 45, 3):
            await store.append("s", index, [says(text)] * 3)

    writer = owner.start(write(), name="writer")
    lengths = [0]
    while not writer.done():
        window = await FileSessions(tmp_path).load("s")
        assert (window.damaged, indexes(window)) == (0, list(range(window.length)))
        assert all(each == text for each in contents(window))
        lengths.append(window.length)

    await writer
    assert lengths == sorted(lengths)
    assert all(length % 3 == 0 for length in lengths)
    assert len(set(lengths)) > 2


@pytest.mark.parametrize(("index", "left"), [(0, ["anew"]), (1, [])])
async def test_who_waits_for_a_file_that_is_deleted_writes_into_no_ghost(
    tmp_path: Path, index: int, left: list[str]
) -> None:
    store, owner, path = FileSessions(tmp_path), Owner(), tmp_path / "s.jsonl"
    await store.append("s", 0, many(1))
    with ExitStack() as held:
        file = held.enter_context(await asyncio.to_thread(path.open, "rb"))
        fcntl.flock(file, fcntl.LOCK_EX)
        waiting = owner.start(store.append("s", index, [says("anew")]), name="waiting")
        await wait_until(lambda: openings_of(path) == 2, for_="it to wait for the lock")
        path.unlink()

    await owner.join()

    assert isinstance(waiting.exception(), SessionConflict) == (left == [])
    assert contents(await store.load("s")) == left
    assert path.exists() == (left != [])


async def test_nobody_waits_for_ever_for_a_file_that_others_use(tmp_path: Path) -> None:
    store = FileSessions(tmp_path, patience=timedelta(milliseconds=20))
    await store.append("s", 0, many(1))
    with ExitStack() as held:
        file = held.enter_context(await asyncio.to_thread((tmp_path / "s.jsonl").open, "rb"))
        fcntl.flock(file, fcntl.LOCK_SH)
        shared = await store.load("s")

        with pytest.raises(TimeoutError, match=r"waited 0:00:00\.02"):
            await store.append("s", 1, many(1, start=1))

    assert indexes(shared) == [0]
    assert indexes(await store.load("s")) == [0]


def openings_of(path: Path) -> int:
    """How often this process has the file open."""
    count = 0
    for each in Path("/dev/fd").iterdir():
        try:
            count += each.samefile(path)
        except FileNotFoundError:
            continue
    return count


def test_a_name_is_short_and_plain() -> None:
    assert file_name("chat_01-ab") == "chat_01-ab"
    assert file_name("../A b") == "%2e%2e%2f%41%20b"
    assert len(file_name("\U0001f600" * 1000)) <= 120


PROGRAM = """
import asyncio, os, sys
from loops.kit.file_store import FileSessions
from loops.kit.stores import SessionConflict

store, size = FileSessions(sys.argv[1]), int(sys.argv[2])

def messages(index):
    text = f"{os.getpid()} " + "x" * size
    return [{"content": text, "place": index + number} for number in range(3)]

async def write():
    while True:
        length = (await store.load("s")).length
        await store.append("s", length, messages(length))
        await store.mark("s", {"first_kept": length})
        print(length + 3, flush=True)

async def race(name):
    try:
        await store.append(name, 0, messages(0))
    except SessionConflict:
        return "lost"
    return "won"

def in_child():
    child = os.fork()
    if child == 0:
        print("pid", os.getpid(), flush=True)
        asyncio.run(write())
    os.waitpid(child, 0)

for line in sys.stdin:
    if line.strip() == "write":
        in_child()
    else:
        print(asyncio.run(race(line.strip())), flush=True)
"""


@contextmanager
def program(folder: Path, size: int) -> Iterator["Program"]:
    command = [sys.executable, "-c", PROGRAM, str(folder), str(size)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Program(process.stdin, process.stdout)


@dataclass(frozen=True, slots=True)
class Program:
    """A running program that is told something line by line, and tells something."""

    sink: IO[str]
    source: IO[str]

    def tell(self, text: str) -> None:
        self.sink.write(f"{text}\n")
        self.sink.flush()

    def hear(self) -> str:
        return self.source.readline().strip()

    def hear_pid(self) -> int:
        """Return the next writer's id; what the one before it has still said is passed over."""
        while True:
            _, is_one, pid = self.hear().partition("pid ")
            if is_one:
                return int(pid)


def test_a_writer_may_be_killed_at_any_moment(tmp_path: Path) -> None:
    store = FileSessions(tmp_path)
    with program(tmp_path, 80_000) as writers:
        for kill in range(20):
            writers.tell("write")
            writer = writers.hear_pid()
            told = [int(writers.hear()) for _ in range(1 + kill % 3)]
            os.kill(writer, signal.SIGKILL)
            left = asyncio.run(store.load("s"))
            asyncio.run(store.append("s", left.length, [says("next")]))

            assert left.length >= told[-1]
            assert indexes(left) == list(range(left.length))[-len(left.entries) :]
            assert left.damaged <= 1

    lines = [parsed(each) for each in (tmp_path / "s.jsonl").read_bytes().splitlines()]
    places = [each["i"] for each in lines if each and "i" in each]
    assert places == list(range(len(places)))
    assert lines.count(None) <= 20


def parsed(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def test_of_two_processes_that_append_at_one_place_one_wins(tmp_path: Path) -> None:
    with program(tmp_path, 20_000) as one, program(tmp_path, 20_000) as other:
        outcomes = [raced(one, other, f"race-{number}") for number in range(12)]

    windows = [asyncio.run(FileSessions(tmp_path).load(f"race-{each}")) for each in range(12)]
    assert outcomes == [["lost", "won"]] * 12
    for window in windows:
        assert (indexes(window), window.damaged) == ([0, 1, 2], 0)
        assert len(set(contents(window))) == 1


def raced(one: Program, other: Program, name: str) -> list[str]:
    one.tell(name)
    other.tell(name)
    return sorted([one.hear(), other.hear()])
