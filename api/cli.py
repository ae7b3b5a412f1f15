"""The `loopmill` command: what can be typed, and nothing else.

A command is imported when it is called: `loopmill run` need not wait until all of what serves the
API has been imported, nor a worker. That is the one place where names become modules.
"""

from __future__ import annotations

import gc
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib import import_module

import click

COMMANDS: Mapping[str, str] = {
    "demo": "showing",
    "dev": "serving",
    "api": "serving",
    "worker": "working",
    "run": "asking",
    "runs": "asking",
    "tail": "asking",
    "cancel": "asking",
    "check": "serving",
}
"""The commands, in the order in which they are shown, and the module of each."""


class Commands(click.Group):
    """A group that finds its commands in modules."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in their order."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, if there is one of the name."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        with kept_for_good():
            module = import_module(f"api.commands.{COMMANDS[cmd_name]}")
        found: click.Command = getattr(module, cmd_name)
        return found


@contextmanager
def kept_for_good() -> Generator[None]:
    """What is imported here is never garbage: it is not looked through, now or later.

    That is a sixth of the time that an import takes.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="loopmill")
def command() -> None:
    """Agent loops as queue jobs: POST a run, watch its events, scale the workers."""
