import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from traceback import format_exception
from typing import Any

import httpx
import pytest
import uvloop
from mcp.types import CallToolResult, ImageContent

from loops.errors import SetupError, ToolFailed, ToolTimedOut
from loops.jsonable import bounded
from loops.kit.mcp import MCP
from loops.kit.mcp_content import clean_names, value_of
from loops.messages import ToolCall, ToolResult
from loops.naming import is_name
from loops.perform import perform
from loops.tasks import Owner
from loops.testing import wait_until
from loops.tool_context import ToolContext

pytestmark = pytest.mark.peers

SERVER = Path(__file__).with_name("mcp_server.py")
TOKEN = "open-sesame"
CALL = ToolCall("a", "turn:1.0", "mcp_little", "{}")
MINUTE = timedelta(minutes=1)

BY_HAND = """
import json, os, sys, time

TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("pid", "die", "sleep")]

def answer(method, params):
    if method == "initialize":
        version = params["protocolVersion"]
        info = {"name": "by hand", "version": "1"}
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": TOOLS}
    with open(os.environ["MCP_NOTES"], "a") as notes:
        notes.write(params["name"] + "\\n")
    if params["name"] == "die":
        sys.exit("I have had enough")
    if params["name"] == "sleep":
        time.sleep(60)
    return {"content": [{"type": "text", "text": f"from {os.getpid()}"}]}

for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] in ("initialize", "tools/list", "tools/call"):
        told = {"result": answer(asked["method"], asked.get("params"))}
    else:
        told = {"error": {"code": -32601, "message": "what is that?"}}
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **told}), flush=True)
"""
"""A server that knows of no package: it starts at once, and speaks what was spoken years ago."""


async def called(server: MCP, tool: str, **arguments: Any) -> Any:
    return await server.tool().function(tool, arguments)


async def performed(server: MCP, tool: str, **arguments: Any) -> ToolResult:
    given = json.dumps({"tool": tool, "arguments": arguments})
    return await perform(server.tool(), given, ToolContext(call=CALL))


async def pid_of(server: MCP, tool: str = "pid") -> int:
    return int((await called(server, tool, text="")).rpartition(" ")[2])


def task_of(server: MCP) -> asyncio.Task[Any]:
    """The task that owns the connection."""
    name = f"mcp server {server.name}"
    return next(task for task in asyncio.all_tasks() if task.get_name() == name)


def noted(notes: Path) -> list[str]:
    return notes.read_text(encoding="utf-8").split() if notes.exists() else []


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def answers(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Remote:
    """A server of our own at URLs, as long as it is not killed."""

    notes: Path
    kinds: tuple[str, ...] = ("plain",)
    ports: tuple[int, ...] = ()
    process: subprocess.Popen[bytes] | None = None

    def url(self, kind: str = "plain") -> str:
        return f"http://127.0.0.1:{self.ports[self.kinds.index(kind)]}/mcp"

    @property
    def calls(self) -> list[str]:
        return noted(self.notes)

    def start(self) -> None:
        self.ports = self.ports or tuple(free_port() for _ in self.kinds)
        places = [f"{port}:{kind}" for port, kind in zip(self.ports, self.kinds, strict=True)]
        command = [sys.executable, str(SERVER), *places]
        self.process = subprocess.Popen(command, env={**os.environ, "MCP_NOTES": str(self.notes)})

    async def ready(self) -> None:
        await wait_until(lambda: all(map(answers, self.ports)), within=MINUTE, for_="a server")

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Remote, Remote]]:
    """Two servers, begun together since that takes long: one for all, and one to be killed."""
    folder = tmp_path_factory.mktemp("mcp")
    both = Remote(folder / "shared", ("plain", "guarded", "elderly")), Remote(folder / "mortal")
    for each in both:
        each.start()
    yield both
    for each in both:
        each.kill()


@pytest.fixture
async def shared(begun: tuple[Remote, Remote]) -> Remote:
    """A server that all tests share which do it no harm."""
    await begun[0].ready()
    return begun[0]


@pytest.fixture
async def mortal(begun: tuple[Remote, Remote]) -> Remote:
    """A server that one test may kill."""
    await begun[1].ready()
    return begun[1]


@pytest.fixture
async def far(shared: Remote) -> AsyncIterator[MCP]:
    """The shared server; at the end nothing is left of the connection to it."""
    server = MCP("little", url=shared.url())
    yield server
    await server.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """The file where a process of ours notes its calls."""
    return tmp_path / "notes"


@pytest.fixture
def by_hand(notes: Path) -> MCP:
    """A process of ours that is quick to start."""
    env = {"MCP_NOTES": str(notes)}
    return MCP("little", command=sys.executable, args=["-c", BY_HAND], env=env)


@pytest.fixture
async def near(by_hand: MCP) -> AsyncIterator[MCP]:
    """The same; at the end nothing is left of the connection to it."""
    yield by_hand
    await by_hand.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_server_tells_all_pages_of_its_tools_in_its_order(far: MCP) -> None:
    specs = await far.discover()

    told = " ".join(spec["description"].removeprefix("Does ") for spec in specs)
    assert told == "echo. add. look. weather.today. weather today. fail. sleep. die. secret."
    assert specs[0] == json.loads(json.dumps(specs[0]))
    assert specs[0]["input_schema"]["properties"] == {"text": {"type": "string"}}
    assert (specs[0]["type"], specs[0]["name"]) == ("custom", "little__echo")


async def test_names_that_no_provider_takes_are_cleaned_and_stay_apart(far: MCP) -> None:
    names = [spec["name"] for spec in await far.discover() if "weather" in spec["name"]]

    answers = [await performed(far, name.removeprefix("little__")) for name in names]

    assert len(set(names)) == 2
    assert [answer.content for answer in answers] == [
        "ToolFailed: no weather.today today",
        "ToolFailed: no weather today today",
    ]


async def test_only_the_tools_that_are_allowed_are_told_and_called(shared: Remote) -> None:
    server = MCP("little", url=shared.url(), allowed=["echo"])

    names = [spec["name"] for spec in await server.discover()]
    with pytest.raises(ToolFailed, match="no tool 'add'; it has echo"):
        await called(server, "add", a=1, b=2)
    await server.close()

    assert names == ["little__echo"]


async def test_text_is_given_as_one_string(far: MCP, shared: Remote) -> None:
    assert shared.process is not None
    assert await called(far, "echo", text="hi") == f"hi\nfrom {shared.process.pid}"


async def test_a_structured_value_is_given_as_it_is(far: MCP) -> None:
    assert await called(far, "add", a=1, b=2) == {"sum": 3}


async def test_images_and_resources_are_given_as_blocks(far: MCP) -> None:
    blocks = await called(far, "look")

    assert blocks[1]["source"]["media_type"] == "image/png"
    assert [block.get("text") for block in blocks] == [
        "see",
        None,
        "[image/svg+xml, about 6 bytes: models do not look at such images]",
        "[audio/wav, about 6 bytes: models of the kit do not hear]",
        "file:///note.txt\na note",
        "file:///a.zip\n[application/zip, about 3 bytes: it is no text]",
        "[more, file:///more.txt]",
    ]


def test_an_image_that_has_no_room_or_is_broken_is_only_named() -> None:
    large = ImageContent(data="A" * 200_000, mime_type="image/png")
    broken = ImageContent(data="A", mime_type="image/png")

    shown = value_of(CallToolResult(content=[large, large, broken]))

    assert [block["type"] for block in shown] == ["image", "text", "text"]
    assert shown[1]["text"] == "[image/png, about 150000 bytes: it is too large to be shown]"
    assert shown[2]["text"] == "[image/png, about 0 bytes: it is broken]"
    assert bounded(shown) == shown


def test_names_are_told_apart_whatever_they_are() -> None:
    names = ["a", "a.b", "a b", "x" * 80, "x" * 81, "", "ü", "\ud83d"]
    names += list(clean_names(names, prefix="s__").values())

    cleaned = clean_names(names, prefix="s__")

    assert len(set(cleaned.values())) == len(set(names))
    assert all(is_name(f"s__{clean}") for clean in cleaned.values())
    assert [name for name in names[8:] if cleaned[name] != name] == []
    assert cleaned == clean_names(names, prefix="s__")


async def test_what_a_server_calls_an_error_is_one(far: MCP) -> None:
    with pytest.raises(ToolFailed, match=r"^no fail today$"):
        await called(far, "fail")


async def test_an_unknown_tool_is_named_with_those_that_are_near(far: MCP, shared: Remote) -> None:
    before = shared.calls

    with pytest.raises(ToolFailed, match="'little' has no tool 'eccho'; did you mean 'echo'"):
        await called(far, "eccho")

    assert shared.calls == before


async def test_the_tool_is_one_and_has_the_options_of_the_server() -> None:
    server = MCP("little", url="https://host/mcp", timeout=MINUTE, read_only=True)

    made = server.tool()

    assert made is server.tool()
    assert (made.name, made.timeout, made.read_only) == ("mcp_little", MINUTE, True)
    assert set(made.schema["properties"]) == {"tool", "arguments"}


async def test_twenty_calls_at_once_share_one_process_which_closing_ends() -> None:
    server, owner = MCP("little", command=sys.executable, args=[str(SERVER)]), Owner()

    async def one(number: int) -> str:
        return str(await called(server, "echo", text=str(number)))

    tasks = [owner.start(one(number), name=f"call {number}") for number in range(20)]
    await owner.join()
    await server.close()

    texts = [task.result().split("\nfrom ") for task in tasks]
    assert [text for text, _ in texts] == [str(number) for number in range(20)]
    assert len({pid for _, pid in texts}) == 1
    assert not lives(int(texts[0][1]))


async def test_a_connection_that_nobody_needs_is_closed(near: MCP) -> None:
    idle = replace(near, idle=timedelta(milliseconds=50))

    pid = await pid_of(idle)
    await wait_until(lambda: len(asyncio.all_tasks()) == 1, for_="the end of its tasks")
    was_left = lives(pid)
    again = await pid_of(idle)
    await idle.close()

    assert (was_left, again != pid) == (False, True)


def test_a_connection_ends_with_its_event_loop_and_the_next_has_its_own(by_hand: MCP) -> None:
    pids = [asyncio.run(pid_of(by_hand)) for _ in range(2)]

    assert len(set(pids)) == 2
    assert not any(map(lives, pids))


def test_so_it_is_in_a_loop_of_another_make(by_hand: MCP) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        pid = runner.run(pid_of(by_hand))

    assert not lives(pid)


async def test_a_process_that_dies_in_a_call_fails_it_and_the_next_call_has_another(
    near: MCP, notes: Path
) -> None:
    result = await performed(near, "die")
    again = await performed(near, "pid")

    assert result.is_error
    assert "'little' went away at the tool 'die', which may have been done" in result.content
    assert result.content.endswith("it last said: I have had enough")
    assert not again.is_error
    assert noted(notes) == ["die", "pid"]


async def test_a_process_that_is_killed_in_a_call_is_not_asked_again(
    near: MCP, notes: Path
) -> None:
    owner = Owner()
    pid = await pid_of(near)
    call = owner.start(performed(near, "sleep"), name="call")
    await wait_until(lambda: "sleep" in noted(notes))

    os.kill(pid, signal.SIGKILL)
    await owner.join()

    assert "'little' went away at the tool 'sleep'" in call.result().content
    assert noted(notes) == ["pid", "sleep"]


async def test_a_process_that_was_killed_between_calls_is_started_anew(near: MCP) -> None:
    first = await pid_of(near)

    os.kill(first, signal.SIGKILL)
    await wait_until(lambda: len(asyncio.all_tasks()) == 1, for_="the end of the connection")

    assert await pid_of(near) != first


async def test_a_slow_call_is_given_up_and_the_connection_stays(far: MCP) -> None:
    hasty = replace(far, name="hasty", timeout=timedelta(seconds=1))

    await called(hasty, "echo", text="")
    before = task_of(hasty)
    result = await performed(hasty, "sleep", seconds=60)
    await called(hasty, "echo", text="")
    after = task_of(hasty)
    await hasty.close()

    assert after is before
    assert result.content == (
        "ToolTimedOut: the MCP server 'hasty' took longer for the tool 'sleep' than 0:00:01"
    )


async def test_a_call_that_is_cancelled_leaves_the_others_alone(far: MCP, shared: Remote) -> None:
    owner, given_up = Owner(), Owner()
    before = len(shared.calls)
    kept = owner.start(called(far, "sleep", seconds=0.3), name="kept")
    given_up.start(called(far, "sleep", seconds=60), name="given up")
    await wait_until(lambda: len(shared.calls) == before + 2)

    await given_up.close()
    await owner.join()

    assert kept.result() == "slept"


async def test_a_remote_server_that_is_killed_in_a_call_is_found_when_it_is_back(
    mortal: Remote,
) -> None:
    server, owner = MCP("little", url=mortal.url()), Owner()
    call = owner.start(performed(server, "sleep", seconds=60), name="call")
    await wait_until(lambda: mortal.calls == ["sleep"], within=MINUTE)

    mortal.kill()
    await owner.join()
    gone = await performed(server, "echo", text="")
    mortal.start()
    await mortal.ready()
    back = await performed(server, "echo", text="hi")
    await server.close()

    assert "'little' went away at the tool 'sleep'" in call.result().content
    assert "could not be reached for the tool 'echo': MCPError: cannot connect" in gone.content
    assert back.content.startswith("hi\n")
    assert mortal.calls == ["sleep", "echo"]


async def test_a_session_that_the_server_forgot_is_begun_anew(shared: Remote) -> None:
    server = MCP("little", url=shared.url("elderly"))
    first = await performed(server, "echo", text="hi")
    before = len(shared.calls)

    async with httpx.AsyncClient() as other:
        forgotten = await other.get(shared.url("elderly").replace("/mcp", "/forget"))
    second = await performed(server, "echo", text="hi")
    await server.close()

    assert int(forgotten.text) > 0
    assert second == first
    assert len(shared.calls) == before + 1


async def test_a_server_that_is_not_there_is_named_with_the_reason() -> None:
    absent = MCP("absent", command="/no/such/program")
    broken = MCP("broken", command=sys.executable, args=["-c", "raise SystemExit('no licence')"])

    with pytest.raises(
        ToolFailed, match="'absent' could not be reached for its list of tools: File"
    ):
        await absent.discover()
    with pytest.raises(ToolFailed, match=r"'broken' could not be reached .* it last said: no lic"):
        await broken.discover()


async def test_a_server_that_refuses_is_named_with_its_status(shared: Remote) -> None:
    server = MCP("little", url=shared.url("guarded"))

    with pytest.raises(ToolFailed, match=r"'little' could not be reached .*HTTP 401 Unauthorized"):
        await server.discover()


async def test_a_server_that_says_nothing_is_given_up() -> None:
    command = "import sys; sys.stdin.read()"
    timeout = timedelta(milliseconds=200)
    mute = MCP("mute", command=sys.executable, args=["-c", command], timeout=timeout)

    with pytest.raises(ToolTimedOut, match="'mute' took longer for its list of tools than 0:00:0"):
        await mute.discover()
    await mute.close()

    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_headers_open_the_door_and_a_wrong_one_is_not_told(
    shared: Remote, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    right = MCP("little", url=shared.url("guarded"), headers={"Authorization": f"Bearer {TOKEN}"})
    wrong = MCP(
        "little", url=shared.url("guarded"), headers={"Authorization": "Bearer sesame-open"}
    )

    found = await right.discover()
    with pytest.raises(ToolFailed, match=r"\[hidden\] is wrong") as failure:
        await wrong.discover()
    await right.close()
    await wrong.close()

    assert len(found) == 9
    told = [repr(right), repr(wrong), caplog.text, *format_exception(failure.value)]
    assert [text for text in told if "sesame-open" in text or TOKEN in text] == []


async def test_variables_reach_the_process_and_no_text() -> None:
    env = {"PASSWORD": "swordfish"}
    code = "import os; raise SystemExit(os.environ['PASSWORD'])"
    server = MCP("little", command=sys.executable, args=["-c", code], env=env)

    with pytest.raises(ToolFailed, match=r"it last said: \[hidden\]") as failure:
        await server.discover()

    assert "swordfish" not in repr(server) + "".join(format_exception(failure.value))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "has no place; give it either command= or url="),
        ({"command": "a", "url": "http://a"}, "has two places"),
        ({"command": "a", "headers": {"A": "b"}}, "takes no headers=; give it env="),
        ({"url": "http://a", "args": ["b"]}, "neither args= nor env="),
        ({"command": "a", "args": "b"}, "args='b'; give a list of texts"),
        ({"command": "", "args": []}, "command=''; name a program"),
        ({"url": "ftp://a"}, "without http:// or https://"),
        ({"url": "http://:80"}, "without a host"),
        ({"url": "http://a", "headers": {"A": "b\r\nc"}}, "a value of 'A' in headers="),
        ({"command": "a", "env": {"A": 1}}, "a value of 'A' in env="),
        ({"command": "a", "timeout": 5}, "timeout=5; give a timedelta above zero"),
        ({"command": "a", "allowed": "b"}, "allowed='b'; give a list"),
    ],
)
def test_a_wrong_setup_is_refused_with_its_mend(options: Any, told: str) -> None:
    with pytest.raises(SetupError) as failure:
        MCP("little", **options)

    assert told in str(failure.value)


@pytest.mark.parametrize("name", ["", "a b", "a" * 33, "ü", "a__b", "a_", None])
def test_a_name_that_stands_before_no_tool_is_refused(name: Any) -> None:
    with pytest.raises(SetupError, match="an MCP server's name is 1 to 32 letters"):
        MCP(name, command="a")
