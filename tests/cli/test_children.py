import os
import signal
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest

from api.children import Child, ChildError, Children
from tests.waiting import wait_until


@pytest.fixture
def children() -> Iterator[Children]:
    with Children() as children:
        yield children


def start(children: Children, program: str) -> Child:
    return children.start("a child", ["-c", program], dict(os.environ))


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


WAITS = "import time; print('ready: yes', flush=True); time.sleep(60)"


def test_a_process_is_ready_when_it_says_so(children: Children) -> None:
    child = start(children, WAITS)

    assert children.wait_ready(child, r"ready: (\w+)").group(1) == "yes"
    children.check()


def test_a_process_that_dies_is_named_with_its_last_lines(children: Children) -> None:
    child = start(children, "print('all was well'); raise SystemExit('no more')")

    with pytest.raises(ChildError, match=r"a child \(pid \d+\) ended with code 1") as error:
        children.wait_ready(child, "never")

    assert "    all was well\n    no more" in str(error.value)


def test_a_process_that_is_killed_is_named_by_its_signal(children: Children) -> None:
    child = start(children, WAITS)
    children.wait_ready(child, "ready")
    os.kill(child.pid, signal.SIGKILL)
    child.popen.wait()

    with pytest.raises(ChildError, match="ended with SIGKILL"):
        children.check()


def test_all_are_ended_in_time_also_the_stubborn() -> None:
    stubborn = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {WAITS}"
    with Children(stop_within=timedelta(milliseconds=200)) as children:
        begun = [start(children, program) for program in (WAITS, stubborn)]
        for child in begun:
            children.wait_ready(child, "ready")
        before = time.monotonic()

    assert time.monotonic() - before < 5
    assert [child.popen.returncode for child in begun] == [-signal.SIGTERM, -signal.SIGKILL]


async def test_a_process_takes_those_that_it_started_with_it(children: Children) -> None:
    parent = start(
        children,
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print('ready', child.pid, flush=True)\n"
        "time.sleep(60)",
    )
    grandchild = int(children.wait_ready(parent, r"ready (\d+)").group(1))

    children.stop()

    await wait_until(lambda: is_gone(grandchild), for_="the grandchild to end")


def test_who_listens_hears_each_line() -> None:
    heard: list[tuple[str, str]] = []
    with Children(lambda name, line: heard.append((name, line))) as children:
        child = children.start("talker", ["-c", "print('one'); print('two')"], dict(os.environ))
        child.popen.wait()
        child.last_lines()

    assert heard == [("talker", "one"), ("talker", "two")]
