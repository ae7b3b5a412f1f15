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


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Dev:
    """`loopmill dev`, running in a folder."""

    def __init__(self, folder: Path, *options: str, port: int = 0) -> None:
        port = port or free_port()
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self._output = folder / f"out-{len(list(folder.glob('out-*')))}.txt"
        with self._output.open("wb") as file:
            self.started = subprocess.Popen(
                [sys.executable, "-P", "-m", "api", "dev", "--port", str(port), *options],
                cwd=folder,
                env=environment_for(None),
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

    def pid_of(self, name: str) -> int:
        return int(re.findall(rf"{name} │ .*ready: .*pid (\d+)", self.said)[-1])

    def end(self) -> tuple[int, str]:
        return self.started.wait(timeout=30), self.said

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


async def test_other_files_of_the_folder_change_nothing(dev: Dev, tmp_path: Path) -> None:
    await dev.until_ready()
    (tmp_path / "notes.py").write_text("not even python")
    agents = tmp_path / "my_agents.py"

    agents.write_text(agents.read_text().replace("you said", "I heard"))
    await dev.until_ready(times=2)

    assert re.findall("restart: .*", dev.said) == ["restart: my_agents.py changed"]


async def test_a_broken_file_is_shown_once_and_its_mend_is_served(dev: Dev, tmp_path: Path) -> None:
    await dev.until_ready()
    agents = tmp_path / "my_agents.py"
    whole = agents.read_text()

    agents.write_text("import nothing_that_exists\n")
    await dev.until_said("waiting for a file to change")
    agents.write_text("import nothing_that_exists\n\n")
    agents.write_text(whole)
    await dev.until_ready(times=2)

    broken = "! my_agents.py line 1: ModuleNotFoundError: No module named 'nothing_that_exists'"
    assert dev.said.count(broken) == 1
    assert dev.result_of("echo", "again")["output"] == "you said again"


async def test_a_broken_app_starts_nothing_until_it_is_mended(tmp_path: Path) -> None:
    (tmp_path / "my_agents.py").write_text("import helping\n")
    dev = Dev(tmp_path)
    await dev.until_said("waiting for a file to change")
    assert dev.pids() == set()

    (tmp_path / "helping.py").write_text("")
    write_agents(tmp_path)
    await dev.until_ready()

    os.killpg(dev.started.pid, signal.SIGTERM)
    dev.end()


@pytest.mark.parametrize(("name", "is_ready"), [("runs", "worker"), ("api", "api")])
async def test_who_dies_is_started_again(dev: Dev, name: str, is_ready: str) -> None:
    await dev.until_ready()
    victim = dev.pid_of("runs") if name == "runs" else child_of(dev.started.pid, "api")

    os.kill(victim, signal.SIGKILL)
    await dev.until_said(rf"{name} │ loopmill {is_ready} ready", times=2)

    said = rf"loopmill │ {name} \(pid {victim}\) ended with SIGKILL; it is started again in 0.5 s"
    assert len(re.findall(said, dev.said)) == 1
    assert dev.result_of("echo", "after")["output"] == "you said after"


def child_of(pid: int, command: str) -> int:
    """The child whose command line is `… -m api COMMAND …`."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        if words[3:5] == [b"api", command.encode()]:
            return int(child)
    raise AssertionError(f"no child of {pid} is `loopmill {command}`")


async def test_a_second_one_in_the_folder_says_where_the_first_is(dev: Dev, tmp_path: Path) -> None:
    await dev.until_ready()

    code, said = Dev(tmp_path).end()

    assert (code, len(said.splitlines())) == (2, 1)
    assert f"serves this folder already, at {dev.url} (pid {dev.started.pid})" in said
    assert f"LOOPMILL_DATA=.loopmill-2 loopmill dev --port {dev.port + 1}" in said


async def test_a_taken_port_is_named_and_nothing_is_started(dev: Dev, tmp_path: Path) -> None:
    await dev.until_ready()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    write_agents(elsewhere)

    code, said = Dev(elsewhere, port=dev.port).end()

    assert (code, len(said.splitlines())) == (2, 1)
    assert f"port {dev.port} of 127.0.0.1 is taken" in said
    assert f"--port {dev.port + 1}" in said
    assert not (elsewhere / ".loopmill" / "server.json").exists()


async def test_without_reloading_a_changed_file_changes_nothing(tmp_path: Path) -> None:
    write_agents(tmp_path)
    dev = Dev(tmp_path, "--no-reload")
    await dev.until_ready()

    agents = tmp_path / "my_agents.py"
    agents.write_text(agents.read_text().replace("you said", "I heard"))
    os.kill(dev.pid_of("tools"), signal.SIGKILL)
    await dev.until_said("tools │ loopmill worker ready", times=2)

    assert dev.result_of("echo", "one")["output"] == "you said one"
    assert "restart" not in dev.said
    os.killpg(dev.started.pid, signal.SIGTERM)
    dev.end()


def test_without_reloading_a_broken_app_is_an_end(tmp_path: Path) -> None:
    (tmp_path / "my_agents.py").write_text("1 / 0")

    code, said = Dev(tmp_path, "--no-reload").end()

    assert code == 2
    assert said == "loopmill: my_agents.py line 1: ZeroDivisionError: division by zero\n"


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
