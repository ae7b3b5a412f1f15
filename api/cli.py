"""The `loopmill` command: what can be typed, and nothing else.

A command is imported when it is called: `loopmill run` need not wait until all of what serves the
API has been imported, nor a worker. That is the one place where names become modules.
"""

from __future__ import annotations

from collections.abc import Mapping
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
        module = import_module(f"api.commands.{COMMANDS[cmd_name]}")
        found: click.Command = getattr(module, cmd_name)
        return found


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="loopmill")
def command() -> None:
    """Agent loops as queue jobs: POST a run, watch its events, scale the workers."""
