"""The demo as a newcomer starts it: a terminal command with real processes."""

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest

from api.demo.triage import reply
from loops.providers.scripted import Piece, text
from tests.demo.grep import grep_count
from tests.kills.hostile import Anthropic
from tests.loops.providers.service import Answer, Asked, Service, served
from tests.waiting import wait_until
from worker.embedded import start_server
from worker.keys import Keys
from worker.link import open_link
from worker.runs import Runs
from worker.settings import Settings

pytestmark = pytest.mark.timeout(120)

SOON = timedelta(seconds=40)


class Demo:
    """`loopmill demo`, running, with a record of what it started."""

    def __init__(self, folder: Path, *options: str, **changes: str) -> None:
        self.folder = folder
        self.errors = folder / "err.txt"
        environment = {**os.environ, "LOOPMILL_DATA": str(folder / "data"), "COLUMNS": "100"}
        environment |= changes
        with self.errors.open("wb") as file:
            self.started = subprocess.Popen(
                [sys.executable, "-P", "-m", "api", "demo", "--json", *options],
                cwd=folder,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=file,
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        return self.errors.read_text()

    @property
    def pids(self) -> list[int]:
        """The processes that it says it has started."""
        return [int(pid) for pid in re.findall(r"✓ .*, pid (\d+)$", self.said, re.MULTILINE)]

    async def until_said(self, pattern: str) -> None:
        def is_said() -> bool:
            assert self.started.poll() is None, self.said
            return re.search(pattern, self.said) is not None

        await wait_until(is_said, within=SOON, for_=pattern)

    def end(self) -> tuple[int, str]:
        output, _ = self.started.communicate(timeout=60)
        return self.started.returncode, output.decode()


def alive(pids: list[int]) -> list[int]:
    found: list[int] = []
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 0)
            found.append(pid)
    return found


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Logs that take a while: a few large files."""
    folder = tmp_path / "logs"
    folder.mkdir()
    for number in range(6):
        line = f"2026-03-14 03:12:0{number} ERROR order 17 lost\n2026-03-14 03:12 INFO fine\n"
        (folder / f"shop-{number}.log").write_text(line * 20_000)
    return folder


@pytest.fixture
def demo(tmp_path: Path, logs: Path) -> Iterator[Demo]:
    """The demo over the large logs; whatever happens, nothing of it is left."""
    demo = Demo(tmp_path, "--path", str(logs))
    yield demo
    if demo.started.poll() is None:
        os.killpg(demo.started.pid, signal.SIGKILL)
    demo.started.communicate()


def test_the_demo_reports_what_grep_counts_and_ends_what_it_started(tmp_path: Path) -> None:
    demo = Demo(tmp_path)

    code, output = demo.end()

    outcome = json.loads(output.splitlines()[-1])
    logs = [path for path in (tmp_path / "data" / "sample-logs").rglob("*") if path.is_file()]
    assert (code, outcome["status"], outcome["attempts"]) == (0, "completed", 1)
    assert outcome["tool_jobs"] == 1 + len(logs) + 3
    assert len(demo.pids) == 5
    assert set(outcome["tool_worker_pids"]) == set(demo.pids[-2:])
    for group in outcome["report"]["groups"]:
        assert group["count"] == grep_count(group["expression"], *logs)
    assert alive(demo.pids) == []


@pytest.mark.parametrize("moment", ["✓ server", "✓ api", "turn 2"])
async def test_ctrl_c_leaves_nothing_running(demo: Demo, moment: str) -> None:
    await demo.until_said(moment)

    demo.started.send_signal(signal.SIGINT)
    code, _ = demo.end()

    assert code == 130, demo.said
    assert alive(demo.pids) == []
    assert "interrupted" in demo.said
    assert "Traceback" not in demo.said


async def test_a_dead_process_is_named_with_its_last_lines(demo: Demo) -> None:
    await demo.until_said("✓ worker   tools.*\n.*✓ worker   tools")
    victim = demo.pids[-1]

    os.kill(victim, signal.SIGKILL)
    code, _ = demo.end()

    assert code == 1
    assert f"a worker for tools (pid {victim}) ended with SIGKILL" in demo.said
    assert "loopmill worker ready" in demo.said
    assert alive(demo.pids) == []


async def test_ctrl_c_cancels_the_run_so_that_the_next_start_has_none(
    demo: Demo, tmp_path: Path
) -> None:
    await demo.until_said("⇢ scan_log shop-0.log on worker")

    demo.started.send_signal(signal.SIGINT)
    demo.end()

    assert await statuses(tmp_path / "data") == ["cancelled"]


async def statuses(data: Path) -> list[str]:
    """How the runs stand that the folder holds."""
    server = start_server(data)
    try:
        async with open_link(server.url) as link:
            page = await Runs(link, Keys("loopmill"), Settings()).page("default")
    finally:
        server.stop()
    return [run.status for run in page.runs]


def test_the_last_lines_can_be_typed_as_they_stand(tmp_path: Path) -> None:
    demo = Demo(tmp_path)

    demo.end()

    (dev,) = re.findall(r"^  LOOPMILL_DATA=data (\S*loopmill) dev$", demo.said, re.MULTILINE)
    shown = subprocess.run(
        [dev, "dev", "--help"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "--no-reload" in shown.stdout
    assert re.search(r"^  curl 127\.0\.0\.1:8000/v1/runs/run_\w+$", demo.said, re.MULTILINE)


class Writer(Service):
    """A model on loopback that reads the conversation and writes what comes next."""

    def answer_to(self, asked: Asked) -> Answer:
        answer = cast("str | list[Piece]", reply(asked.body["messages"]))
        pieces = [text(answer)] if isinstance(answer, str) else answer
        return Answer([*Anthropic().reply(pieces)])


@pytest.mark.clients
async def test_the_demo_asks_a_real_model_when_one_is_named(tmp_path: Path, logs: Path) -> None:
    async with served(Writer([])) as service:
        demo = Demo(
            tmp_path,
            *("--path", str(logs), "--model", "anthropic/claude-x"),
            ANTHROPIC_API_KEY="sk-canary",
            ANTHROPIC_BASE_URL=service.url,
        )
        code, told = await asyncio.to_thread(demo.end)

    outcome = json.loads(told.splitlines()[-1])
    assert (code, outcome["status"]) == (0, "completed")
    assert "Its model is anthropic/claude-x" in demo.said
    assert outcome["report"].startswith("Triage of ")
    assert "Triage of" in demo.said
    assert "LOOPMILL_DEMO_MODEL=anthropic/claude-x" in demo.said
    assert service.asked[0].body["system"][0]["text"].startswith("You triage the errors")
    assert "canary" not in told + demo.said


def test_a_model_that_cannot_be_asked_is_said_before_anything_starts(tmp_path: Path) -> None:
    demo = Demo(tmp_path, "--model", "nobody/x")

    code, _ = demo.end()

    assert (code, demo.pids) == (2, [])
    assert "no provider is registered for the vendor 'nobody'" in demo.said
