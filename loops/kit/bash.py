"""A tool that runs shell commands, each in a sandbox of its own around the workspace."""

from datetime import timedelta
from functools import partial
from typing import Annotated

from pydantic import Field

from loops.errors import InvalidArguments, SetupError, ToolTimedOut
from loops.guard import MAX_ERROR_TEXT, Raised
from loops.jsonable import clean_text
from loops.tasks import in_thread
from loops.tool_context import ToolContext
from loops.tools import Tool, tool

from .sandbox import Ended, Excerpt, Sandboxes
from .workspace import workspace_of

TIMEOUT = timedelta(minutes=10)
"""How long a command may take, unless something else is said."""

MAX_COMMAND = 100_000
"""How many bytes a command may have; the system takes no more than 128 KiB in one argument."""

_GRACE = timedelta(seconds=30)
"""How much longer the call may take than its command: for the first look at the sandbox, and to
end what is out of time."""

CommandText = Annotated[
    str,
    Field(description="What bash runs, in the workspace. Nothing but the files is kept between."),
]
Milliseconds = Annotated[
    int | None, Field(description="How many milliseconds the command may take, within the limit.")
]
Purpose = Annotated[
    str, Field(description="What the command is for, in a few words; shown to people.")
]


def make_bash(*, network: bool = False, timeout: timedelta = TIMEOUT) -> Tool:
    """Return the tool `bash`, whose commands see the workspace of their run and no other one.

    Args:
        network: Whether commands may use the network. They reach all that this machine reaches
            then, services that listen on its own addresses among it.
        timeout: How long a command may take; a model may ask for less, never for more.

    Raises:
        SetupError: When the timeout is not above zero.
    """
    if timeout <= timedelta(0):
        raise SetupError(f"a command needs a timeout above zero, not {timeout!r}")
    sandboxes, longest = Sandboxes(network=network), timeout

    @tool(name="bash", timeout=longest + _GRACE)
    async def bash(
        command: CommandText,
        timeout: Milliseconds = None,
        description: Purpose = "",
        *,
        context: ToolContext,
    ) -> str:
        """Run a shell command in the workspace, and return what it wrote, errors among it.

        It runs in a sandbox: of the machine it reads the programs only, and writes nothing but
        the workspace and /tmp, which is empty each time. What it leaves running is ended.
        """
        del description  # it is for people, who read the call
        _check(command)
        limit = _within(timeout, longest)
        root = await in_thread(partial(workspace_of, context), name="workspace of a command")
        if isinstance(root, Raised):
            raise root.error
        return _told(await sandboxes.run(clean_text(command), root, limit=limit), limit)

    return bash


def _check(command: str) -> None:
    if not command.strip():
        raise InvalidArguments("the command is empty; give what bash is to run")
    if "\0" in command:
        raise InvalidArguments("the command holds a NUL, which no command may")
    size = len(clean_text(command).encode())
    if size > MAX_COMMAND:
        raise InvalidArguments(
            f"the command has {size} bytes, and {MAX_COMMAND} are the most; "
            "write a script to a file, and run that"
        )


def _within(milliseconds: int | None, longest: timedelta) -> timedelta:
    if milliseconds is None:
        return longest
    most = longest // timedelta(milliseconds=1)
    return timedelta(milliseconds=max(1, min(milliseconds, most)))


def _told(ended: Ended, limit: timedelta) -> str:
    if ended.code is None:
        # An error is cut where it is told, so its output is cut here, with its end kept.
        excerpt = Excerpt(MAX_ERROR_TEXT // 2)
        excerpt.feed(ended.output.encode())
        raise ToolTimedOut(
            f"the command was ended, since it took longer than {limit.total_seconds():g} seconds; "
            f"it had written:\n{excerpt.text or NOTHING}"
        )
    output = ended.output or NOTHING
    return output if ended.code == 0 else f"{output}\n[exit code {ended.code}]"


NOTHING = "(no output)"
"""What is told of a command that wrote nothing."""
