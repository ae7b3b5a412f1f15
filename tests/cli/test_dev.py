"""`loopmill dev`: everything in one terminal, and again when a file changes."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from tests.processes import environment_for, write_agents
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(120)

SOON = timedelta(seconds=30)


class Dev:
    """`loopmill dev`, running in a folder."""

    def __init__(self, folder: Path, **changes: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        self.url = f"http://127.0.0.1:{port}"
        self._output = folder / "out.txt"
        with self._output.open("wb") as file:
            self.started = subprocess.Popen(
                [sys.executable, "-P", "-m", "api", "dev", "--port", str(port)],
                cwd=folder,
                env={**environment_for(None), **changes},
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        return self._output.read_text()

    def pids(self) -> set[int]:
        return {int(pid) for pid in re.findall(r"pid (\d+)", self.said)}

    async def until_said(self, pattern: str, times: int = 1) -> None:
        def is_said() -> bool:
            assert self.started.poll() is None, self.said
            return len(re.findall(pattern, self.said)) >= times

        await wait_until(is_said, within=SOON, for_=pattern)

    async def until_ready(self, times: int = 1) -> None:
        for name in (
            "api │ loopmill api ready",
            "runs │ loopmill worker",
            "tools │ loopmill worker",
        ):
            await self.until_said(name, times)

    def result_of(self, agent: str, text: str) -> dict[str, object]:
        run = httpx.post(f"{self.url}/v1/runs", json={"agent": agent, "input": text}).json()
        url = f"{self.url}/v1/runs/{run['id']}/result"
        result: dict[str, object] = httpx.get(url, params={"wait": 20}, timeout=30).json()
        return result

    def load(self, run_id: str) -> dict[str, object]:
        run: dict[str, object] = httpx.get(f"{self.url}/v1/runs/{run_id}").json()
        return run


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[Dev]:
    write_agents(tmp_path)
    dev = Dev(tmp_path)
    yield dev
    if dev.started.poll() is None:
        os.killpg(dev.started.pid, signal.SIGTERM)
    dev.started.wait(timeout=30)


async def test_a_changed_file_is_served_after_a_restart(dev: Dev, tmp_path: Path) -> None:
    await dev.until_ready()
    assert dev.result_of("echo", "one")["output"] == "you said one"

    agents = tmp_path / "my_agents.py"
    agents.write_text(agents.read_text().replace("you said", "I heard"))
    await dev.until_ready(times=2)

    assert "restart: my_agents.py changed" in dev.said
    assert dev.result_of("echo", "two")["output"] == "I heard two"


async def test_a_broken_file_is_shown_and_its_mend_is_served(dev: Dev, tmp_path: Path) -> None:
    await dev.until_ready()
    agents = tmp_path / "my_agents.py"
    whole = agents.read_text()

    agents.write_text("import nothing_that_exists\n")
    await dev.until_said("waiting for a file to change")
    assert "nothing_that_exists" in dev.said
    agents.write_text(whole)
    await dev.until_ready(times=2)

    assert dev.result_of("echo", "again")["output"] == "you said again"


async def test_ctrl_c_ends_everything_and_keeps_the_data(dev: Dev, tmp_path: Path) -> None:
    await dev.until_ready()
    output = dev.result_of("echo", "kept")

    dev.started.send_signal(signal.SIGINT)
    dev.started.wait(timeout=30)
    pids = dev.pids()
    again = Dev(tmp_path)
    await again.until_ready()

    kept = again.load(str(output["id"]))
    os.killpg(again.started.pid, signal.SIGTERM)
    again.started.wait(timeout=30)
    assert dev.started.returncode == 130
    assert pids
    assert all(_is_gone(pid) for pid in pids)
    assert kept["output"] == "you said kept"


def _is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False
