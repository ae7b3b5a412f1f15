import asyncio
import json
import os
import random
import shlex
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from loops.errors import SetupError
from loops.kit.bash import MAX_COMMAND, make_bash
from loops.kit.sandbox import MAX_OUTPUT, PROGRAMS, VARIABLES, Excerpt, sandboxed
from loops.perform import perform
from loops.tasks import Owner
from loops.testing import wait_until
from loops.tool_context import ToolContext
from loops.tools import Tool

STAND_IN = """#!/bin/sh
# Reads the options that bubblewrap has, and runs the command without confining it.
unset $(env | cut -d= -f1)
while [ $# -gt 0 ]; do
    case "$1" in
        --bind) [ "$3" = /workspace ] && root=$2; shift 3 ;;
        --setenv) export "$2=$3"; shift 3 ;;
        --ro-bind-try) shift 3 ;;
        --tmpfs | --dev | --proc | --chdir | --remount-ro | --cap-drop) shift 2 ;;
        --unshare-* | --die-with-parent | --clearenv) shift ;;
        --) shift; break ;;
        *) echo "bwrap: Unknown option $1" >&2; exit 1 ;;
    esac
done
cd "$root" && exec "$@"
"""

REAL = os.environ.get("TEST_BWRAP", "")
"""A real bubblewrap to try instead of the stand-in: `TEST_BWRAP=/usr/bin/bwrap pytest …`."""


def put_on_path(program: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    (folder / "bwrap").write_text(program)
    (folder / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


@pytest.fixture
def bwrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of this name on PATH, which does what commands need of it."""
    if REAL:
        monkeypatch.setenv("PATH", os.path.dirname(REAL))
    else:
        put_on_path(STAND_IN, tmp_path / "bin", monkeypatch)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "spaces" / "mine"
    folder.mkdir(parents=True)
    return folder


BASH = make_bash(timeout=timedelta(seconds=20))


async def ask(
    root: Path | None, command: str, *, tool: Tool = BASH, **more: Any
) -> tuple[Any, bool]:
    arguments = json.dumps({"command": command, **more})
    result = await perform(tool, arguments, ToolContext(workspace=root))
    return result.content, result.is_error


def after(argv: list[str], *part: str) -> list[str]:
    """Return what follows a part of the arguments, which must stand in them."""
    for start in range(len(argv)):
        if argv[start : start + len(part)] == list(part):
            return argv[start + len(part) :]
    raise AssertionError(f"{part} does not stand in {argv}")


def sleeper() -> str:
    """A command that sleeps for a minute, and that no other process is called like."""
    return f"sleep 60.{random.randrange(10**9):09}"


def runs(command: str) -> bool:
    """Say whether a process of this command line is there."""
    wanted = command.replace(" ", "\0").encode() + b"\0"
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if entry.read_bytes() == wanted:
                return True
        except (FileNotFoundError, ProcessLookupError):
            continue
    return False


def test_the_sandbox_is_cut_off_from_everything_else() -> None:
    argv = sandboxed("/bin/bwrap", Path("/data/a"), "ls", network=False)

    assert argv[0] == "/bin/bwrap"
    for option in ("user", "pid", "ipc", "uts", "net"):
        assert f"--unshare-{option}" in argv
    assert {"--die-with-parent", "--clearenv"} <= set(argv)
    assert after(argv, "--cap-drop")[0] == "ALL"
    assert after(argv, "--chdir", "/workspace", "--") == ["bash", "-c", "ls"]


def test_the_network_is_there_only_when_it_is_asked_for() -> None:
    argv = sandboxed("bwrap", Path("/data/a"), "ls", network=True)

    assert "--unshare-net" not in argv
    assert "--unshare-user" in argv


def test_the_environment_is_nothing_but_what_a_shell_needs() -> None:
    argv = sandboxed("bwrap", Path("/data/a"), "ls", network=False)

    names = [argv[at + 1] for at, option in enumerate(argv) if option == "--setenv"]

    assert names == list(VARIABLES) == ["PATH", "HOME", "TERM", "LANG"]
    assert after(argv, "--setenv", "HOME")[0] == "/workspace"


@pytest.mark.parametrize("network", [True, False])
def test_nothing_is_writable_but_the_workspace_and_what_goes_with_the_sandbox(
    network: bool,
) -> None:
    argv = sandboxed("bwrap", Path("/opt/spaces/a"), "ls", network=network)

    assert argv.count("--bind") == 1
    assert not {"--dev-bind", "--bind-try", "--ro-bind"} & set(argv)
    for folder in PROGRAMS:
        assert "--ro-bind-try" in after(argv, "--unshare-user")
        after(argv, "--ro-bind-try", folder, folder)
    rest = after(argv, "--tmpfs", "/tmp")
    rest = after(rest, "--tmpfs", "/opt/spaces")
    rest = after(rest, "--bind", "/opt/spaces/a", "/workspace")
    rest = after(rest, "--tmpfs", "/workspace/.loopmill", "--remount-ro", "/workspace/.loopmill")
    assert rest[:2] == ["--remount-ro", "/"]


def test_a_workspace_at_the_top_hides_nothing_else() -> None:
    argv = sandboxed("bwrap", Path("/space"), "ls", network=False)

    hidden = [argv[at + 1] for at, option in enumerate(argv) if option == "--tmpfs"]

    assert hidden == ["/tmp", "/workspace/.loopmill"]


async def test_without_bubblewrap_nothing_is_run(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))

    content, is_error = await ask(root, "touch ran")

    assert is_error
    assert "'bwrap' is not on PATH; install the package bubblewrap" in content
    assert os.listdir(root) == []


async def test_with_a_bubblewrap_that_does_not_work_nothing_is_run(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = make_bash()
    program = "#!/bin/sh\necho 'bwrap: No permissions' >&2\nexit 1\n"
    put_on_path(program, tmp_path / "bin", monkeypatch)

    for _ in range(2):
        content, is_error = await ask(root, "touch ran", tool=tool)
        assert is_error
        assert "bubblewrap does not work here: bwrap: No permissions; let this user" in content

    assert os.listdir(root) == []


async def test_a_bubblewrap_that_cannot_be_started_is_told(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_on_path("#!/no/such/shell\n", tmp_path / "bin", monkeypatch)

    content, is_error = await ask(root, "true", tool=make_bash())

    assert is_error
    assert content.startswith("ToolFailed: the command cannot be started")


async def test_the_sandbox_is_tried_once(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, tool = tmp_path / "log", make_bash()
    program = STAND_IN.replace("\nwhile", f'\necho "$*" >>{shlex.quote(str(log))}\nwhile')
    put_on_path(program, tmp_path / "bin", monkeypatch)

    for command in ("echo one", "echo two"):
        await ask(root, command, tool=tool)

    tried = [line.rpartition(" -- ")[2] for line in log.read_text().splitlines()]
    assert tried == ["bash -c true", "bash -c echo one", "bash -c echo two"]


@pytest.mark.usefixtures("bwrap")
@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("echo one; echo two >&2; echo three", "one\ntwo\nthree"),
        ("true", "(no output)"),
        ("printf ' \\n x \\n'", "x"),
        ("exit 3", "(no output)\n[exit code 3]"),
        ("echo x; false", "x\n[exit code 1]"),
        ("kill -9 $$", "(no output)\n[exit code 137]"),
        ("printf 'a\\377b\\303'", "a\ufffdb\ufffd"),
        ("cat; echo done", "done"),
        ("echo $HOME $TERM $LANG", "/workspace dumb C.UTF-8"),
        ("touch made; ls", "made"),
        ('echo \'it\'"\'s" "ü" | cat -', "it's ü"),
    ],
)
async def test_a_command_tells_what_it_wrote_and_how_it_ended(
    root: Path, command: str, output: str
) -> None:
    assert await ask(root, command, description="to see it") == (output, False)


@pytest.mark.usefixtures("bwrap")
async def test_a_command_sees_nothing_of_the_workers_environment(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "secret")

    content, _ = await ask(root, "env | cut -d= -f1")

    assert set(content.split()) - {"PWD", "SHLVL", "_", "OLDPWD"} == set(VARIABLES)


@pytest.mark.usefixtures("bwrap")
@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("  ", "the command is empty"),
        ("echo a\0b", "holds a NUL"),
        ("#" * (MAX_COMMAND + 1), "write a script to a file"),
    ],
)
async def test_a_command_that_cannot_be_run_is_refused(root: Path, command: str, told: str) -> None:
    content, is_error = await ask(root, command)

    assert is_error
    assert told in content


@pytest.mark.usefixtures("bwrap")
async def test_the_longest_command_is_run(root: Path) -> None:
    assert await ask(root, "echo x #" + "x" * (MAX_COMMAND - 8)) == ("x", False)


async def test_without_a_workspace_there_are_no_commands() -> None:
    content, is_error = await ask(None, "true")

    assert is_error
    assert content == (
        "ToolFailed: this run has no workspace, so there are no files and no commands here"
    )


@pytest.mark.usefixtures("bwrap")
async def test_of_endless_output_the_beginning_and_the_end_are_kept(root: Path) -> None:
    content, _ = await ask(root, "echo first; yes | head -c 30000000; echo last")

    assert content.startswith("first\ny\n")
    assert content.endswith("y\nlast")
    assert f"\n[{30_000_011 - MAX_OUTPUT} characters are left out here]\n" in content
    assert len(content) < MAX_OUTPUT + 100


@pytest.mark.usefixtures("bwrap")
async def test_a_command_out_of_time_is_ended_with_all_that_it_started(root: Path) -> None:
    first, second = sleeper(), sleeper()
    begun = monotonic()

    content, is_error = await ask(root, f"echo begun; {first} & {second}", timeout=300)

    assert is_error
    assert content == (
        "ToolTimedOut: the command was ended, since it took longer than 0.3 seconds; "
        "it had written:\nbegun"
    )
    assert monotonic() - begun < 3
    await wait_until(lambda: not runs(first) and not runs(second), for_="the processes to end")


@pytest.mark.usefixtures("bwrap")
async def test_the_error_of_a_command_out_of_time_ends_with_its_latest_output(root: Path) -> None:
    content, _ = await ask(root, f"seq 100000; echo last; {sleeper()}", timeout=1000)

    assert content.endswith("\nlast")
    assert "\n1\n2\n3\n" in content
    assert len(content) < 4096


@pytest.mark.usefixtures("bwrap")
async def test_what_a_command_leaves_running_is_ended(root: Path) -> None:
    left, begun = sleeper(), monotonic()

    content, is_error = await ask(root, f"{left} & echo done")

    assert (content, is_error) == ("done", False)
    assert monotonic() - begun < 5
    await wait_until(lambda: not runs(left), for_="what is left to end")


@pytest.mark.usefixtures("bwrap")
async def test_a_cancelled_command_is_ended_with_all_that_it_started(root: Path) -> None:
    first, second, owner = sleeper(), sleeper(), Owner()
    owner.start(ask(root, f"{first} & {second}"), name="command")
    await wait_until(lambda: runs(first) and runs(second), for_="the command to begin")
    begun = monotonic()

    await owner.close()

    assert monotonic() - begun < 3
    await wait_until(lambda: not runs(first) and not runs(second), for_="the processes to end")


@pytest.mark.usefixtures("bwrap")
async def test_a_command_that_is_cancelled_while_it_begins_is_ended(root: Path) -> None:
    command = sleeper()

    for turns in range(12):
        owner = Owner()
        owner.start(ask(root, f"{command} & {command}"), name="command")
        for _ in range(turns):
            await asyncio.sleep(0.002)
        await owner.close()

    await wait_until(lambda: not runs(command), for_="the processes to end")


@pytest.mark.usefixtures("bwrap")
async def test_commands_of_one_tool_run_at_the_same_time(root: Path) -> None:
    owner = Owner()

    waiting = owner.start(ask(root, "until [ -e go ]; do sleep 0.02; done; echo went"), name="one")
    await ask(root, "touch go")

    assert await waiting == ("went", False)


@pytest.mark.usefixtures("bwrap")
@pytest.mark.parametrize(("asked", "seconds"), [(0, "0.001"), (-5, "0.001"), (10**12, "0.2")])
async def test_a_model_can_ask_for_less_time_but_not_for_more(
    root: Path, asked: int, seconds: str
) -> None:
    tool = make_bash(timeout=timedelta(milliseconds=200))

    content, _ = await ask(root, "sleep 60", tool=tool, timeout=asked)

    assert f"it took longer than {seconds} seconds" in content


def test_a_timeout_that_is_none_is_refused() -> None:
    with pytest.raises(SetupError, match="needs a timeout above zero"):
        make_bash(timeout=timedelta(0))


def test_the_model_is_told_what_it_may_give() -> None:
    assert BASH.name == "bash"
    assert list(BASH.schema["properties"]) == ["command", "timeout", "description"]
    assert BASH.schema["required"] == ["command"]
    assert BASH.timeout is not None
    assert BASH.timeout > timedelta(seconds=20)


@pytest.mark.usefixtures("bwrap")
async def test_commands_leave_no_descriptors_open(root: Path) -> None:
    await ask(root, "true")
    before = len(os.listdir("/proc/self/fd"))

    for command in ("echo x", "exit 1"):
        await ask(root, command)
    await ask(root, "sleep 60", timeout=50)
    await asyncio.sleep(0)

    assert len(os.listdir("/proc/self/fd")) == before


def test_an_excerpt_keeps_characters_that_come_in_pieces() -> None:
    text = "".join(random.choice("aü€😀") for _ in range(5000))
    whole, excerpt = text.encode(), Excerpt(1000)

    for at in range(0, len(whole), 7):
        excerpt.feed(whole[at : at + 7])

    assert excerpt.text == f"{text[:500]}\n[4000 characters are left out here]\n{text[-500:]}"


if REAL:

    async def test_a_real_sandbox_shows_no_other_workspace(root: Path, bwrap: None) -> None:
        (root.parent / "other").mkdir()
        (root.parent / "other" / "secret").write_text("secret")
        place = root.parent / "other" / "secret"

        content, _ = await ask(
            root, f"cat {place}; ls -A {root.parent}; touch /usr/x /x; ls -A /home"
        )

        assert "secret: No such file" in content
        assert content.count("Read-only file system") == 2
        assert "/home': No such file" in content
