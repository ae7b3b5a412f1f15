"""The README as a program: its files are written, its commands are typed, their output compared."""

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from api.children import Children

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUN_ID = re.compile(r"\brun_\w{20,}")


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code."""

    language: str
    body: str

    @property
    def file_name(self) -> str:
        """The file that a block of Python is, as its first line says."""
        return self.body.splitlines()[0].removeprefix("# ")

    @property
    def commands(self) -> list[tuple[str, list[str]]]:
        """What is typed, each with the lines that the README shows as its output."""
        typed: list[tuple[str, list[str]]] = []
        for line in self.body.splitlines():
            if line.startswith("$ "):
                typed.append((line.removeprefix("$ "), []))
            else:
                typed[-1][1].append(line)
        return typed


def blocks(text: str) -> Iterator[Block]:
    """Yield the blocks of a text in Markdown."""
    for found in FENCE.finditer(text):
        yield Block(found.group(1), found.group(2))


def pattern_of(lines: list[str]) -> str:
    """Return what the shown output stands for: `…` is any text, on a line alone any lines."""
    parts = [
        r"(?:.*\n)*?"
        if line.strip() == "…"
        else re.escape(line.rstrip()).replace("…", ".*?") + " *\n"
        for line in lines
    ]
    return "".join(parts) + r"\s*"


def drawn(text: str) -> str:
    """Return a picture of the demo without what is otherwise each time: run, pids and seconds."""
    without_seconds = re.sub(r" +[0-9]+(\.[0-9]+)? s\b", " 0 s", text)
    without_pids = re.sub(r" +[0-9]+(?= 0 s)|(?<=worker )[0-9]+", " PID", without_seconds)
    return re.sub(r"\brun [0-9a-f]{8}\b|(?<=: )[0-9]+(?= calls?\b)", "N", without_pids)


class Reader:
    """Somebody who types what stands in the README, in a folder of their own."""

    def __init__(self, folder: Path, port: int, children: Children) -> None:
        self.folder = folder
        self._port = port
        self._children = children
        self._last_run = ""
        self._pid = ""
        """The worker for runs, as `dev` says it."""
        kept = {name: value for name, value in os.environ.items() if "LOOPMILL" not in name}
        self._environment = {
            **kept,
            "PATH": f"{ROOT}/.venv/bin:{kept['PATH']}",
            "LOOPMILL_DATA": str(folder / ".loopmill"),
            "LOOPMILL_URL": f"http://127.0.0.1:{port}",
            "COLUMNS": "100",
            "LINES": "60",
        }
        (folder / ".venv").symlink_to(ROOT / ".venv")

    def write(self, block: Block) -> None:
        """Save a block of Python as the file that it says to be."""
        (self.folder / block.file_name).write_text(self._here(block.body))

    def type(self, command: str) -> str:
        """Type a command, and return what it prints; `dev` goes on in a terminal of its own."""
        if command.endswith("loopmill dev") or command == "make dev":
            self._serve(command)
            return ""
        typed = self._here(command).replace("run_…", self._last_run).replace("PID", self._pid)
        # In a terminal that cannot move its cursor, rich draws the last picture alone.
        terminal = "FORCE_COLOR=1 TERM=dumb"
        typed = typed.replace("make demo", f"{terminal} make -C {ROOT} demo")
        said = subprocess.run(
            ["bash", "-c", typed],
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=100,
            check=False,
        ).stdout
        self._last_run = next(iter(RUN_ID.findall(said)), self._last_run)
        return said.rstrip("\n") + "\n"

    def _here(self, text: str) -> str:
        """Return the text with the address at which this reader's API is."""
        return text.replace(":8000", f":{self._port}")

    def _serve(self, command: str) -> None:
        self._children.stop()
        variables = dict(re.findall(r"(\w+)=(\S+)", command))
        arguments = ["-P", "-m", "api", "dev", "--port", str(self._port)]
        environment = {**self._environment, **variables}
        dev = self._children.start("loopmill dev", arguments, environment, self.folder)
        for ready in ("api │ loopmill api ready", "runs │ .*ready", "tools │ .*ready"):
            self._children.wait_ready(dev, f".*{ready}")
        started = dev.printed(r" *runs │ .*, pid (\d+)$")
        self._pid = started.group(1) if started else ""
