"""The demo's agent: it triages the errors in a folder of log files.

Its model is scripted, so that the demo needs no key: a function that sees the conversation and
nothing else. Everything that the report says, it read from the results of its tools.

    LOOPMILL_APP=api.demo.triage:app
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any

import loops as ai
from loops.providers.scripted import Answer, call, text

from .conversation import Conversation
from .report import MOST_GROUPS, rank, report_of, write
from .scan import MOST_KINDS, Kind, count_matches, scan

AT_ONCE = 60
"""How many files are read by one turn's calls."""

MOST_FILES = 1_000
"""How many files are read at all; the report says how many were left out."""

LARGEST_RESULT = 150_000
"""Bytes of one scan's result; rarer kinds that do not fit are counted as unlisted."""

PROGRESS_EACH = timedelta(milliseconds=100)


@ai.tool(read_only=True)
def list_files(path: str) -> dict[str, Any]:
    """List the text files in a folder and its subfolders, as `grep -rI` would find them."""
    folder = Path(path).expanduser()
    if not folder.is_dir():
        raise NotADirectoryError(f"{path!r} is not a folder")
    files = sorted(file for file in _files(folder) if _is_text(file))
    listed = [
        {"file": file.relative_to(folder).as_posix(), "bytes": file.stat().st_size}
        for file in files[:MOST_FILES]
    ]
    return {"path": path, "files": listed, "left_out": len(files) - len(listed)}


@ai.tool(read_only=True)
def scan_log(path: str, file: str, context: ai.ToolContext) -> dict[str, Any]:
    """Read one log file of the folder, and count its errors by kind."""
    found = scan(_inside(path, file), _told(context))
    kinds = sorted(found.kinds.values(), key=lambda kind: (-kind.count, kind.expression))
    named = list(_fitting(kinds))
    return {
        "file": file,
        "lines": found.lines,
        "bytes": found.size,
        "kinds": named,
        "unlisted": len(kinds) - len(named),
    }


@ai.tool(read_only=True)
def inspect_log(
    path: str, file: str, expressions: list[str], context: ai.ToolContext
) -> dict[str, Any]:
    """Look for expressions in one log file: how often, when, and in which minute the most."""
    kinds = count_matches(_inside(path, file), expressions, _told(context))
    return {
        "file": file,
        "kinds": [{**_as_json(kind), "busiest": _busiest(kind)} for kind in kinds],
    }


def reply(history: list[dict[str, Any]]) -> Answer:
    """Say what comes next in the conversation: list, scan, look again, report."""
    talk = Conversation(history)
    folder = _folder(talk.question)
    listing = talk.results("list_files")
    if not listing:
        return [text("First I look which files there are."), call("list_files", path=folder)]
    if listing[0].is_error:
        return f"I could not list the files: {listing[0].content}"
    files = [str(each["file"]) for each in listing[0].content["files"]]
    scanned = {result.arguments["file"] for result in talk.results("scan_log")}
    waiting = [file for file in files if file not in scanned][:AT_ONCE]
    if waiting:
        calls = [call("scan_log", path=folder, file=file) for file in waiting]
        return [text(f"I read {len(waiting)} files at the same time."), *calls]
    return _second_look(talk, folder) or _conclusion(talk, folder)


def _second_look(talk: Conversation, folder: str) -> Answer:
    """Ask for a second look at the worst three files, and at those whose scan named not all."""
    scans = [result.content for result in talk.results("scan_log") if not result.is_error]
    expressions = [group.expression for group in rank(scans)[:MOST_GROUPS]]
    if talk.results("inspect_log") or not expressions:
        return []
    worst = sorted(scans, key=lambda found: -sum(kind["count"] for kind in found["kinds"]))
    cut = [found for found in worst[3:] if found["unlisted"]]
    looked_at = [found["file"] for found in (*worst[:3], *cut[: AT_ONCE - 3])]
    return [
        text(f"{', '.join(looked_at[:3])} have the most errors: I look again."),
        *(
            call("inspect_log", path=folder, file=file, expressions=expressions)
            for file in looked_at
        ),
    ]


def _conclusion(talk: Conversation, folder: str) -> str:
    scans = talk.results("scan_log")
    looks = [result.content for result in talk.results("inspect_log") if not result.is_error]
    unread = {
        str(result.arguments["file"]): str(result.content) for result in scans if result.is_error
    }
    read = [result.content for result in scans if not result.is_error]
    left_out: int = talk.results("list_files")[0].content["left_out"]
    return write(report_of(folder, read, looks, unread, left_out=left_out))


def _folder(question: str) -> str:
    """Return the folder that the question ends with: "… in /var/log/shop"."""
    found = re.search(r"\bin\s+(\S.*?)\s*$", question, re.DOTALL)
    return found.group(1) if found else "."


def _files(folder: Path) -> Iterator[Path]:
    for file in folder.rglob("*"):
        if not file.is_symlink() and file.is_file():
            yield file


def _is_text(file: Path) -> bool:
    with file.open("rb") as opened:
        return b"\0" not in opened.read(8192)


def _inside(path: str, file: str) -> Path:
    """Return the file's path, which must be one that `list_files` could have named."""
    folder = Path(path).expanduser()
    wanted = folder / file
    if not wanted.resolve().is_relative_to(folder.resolve()):
        raise PermissionError(f"{file!r} is not in the folder {path!r}")
    return wanted


def _told(context: ai.ToolContext) -> Callable[[int, float], None]:
    """Return what tells a scan's progress, at most ten times a second."""
    due = monotonic()

    def tell(lines: int, part: float) -> None:
        nonlocal due
        if monotonic() >= due:
            due = monotonic() + PROGRESS_EACH.total_seconds()
            context.progress({"lines": lines, "part": round(part, 3)})

    return tell


def _fitting(kinds: list[Kind]) -> Iterator[dict[str, Any]]:
    size = 0
    for kind in kinds[:MOST_KINDS]:
        size += 4 * len(kind.expression + kind.title + kind.example)
        if size > LARGEST_RESULT:
            return
        yield _as_json(kind)


def _as_json(kind: Kind) -> dict[str, Any]:
    return {
        "expression": kind.expression,
        "title": kind.title,
        "count": kind.count,
        "first": kind.first,
        "last": kind.last,
        "example": kind.example,
    }


def _busiest(kind: Kind) -> Mapping[str, Any] | None:
    if not kind.minutes:
        return None
    minute = max(kind.minutes, key=lambda each: (kind.minutes[each], each))
    return {"minute": minute, "count": kind.minutes[minute]}


def make_app(*, pace: timedelta) -> ai.App:
    """Return the app; its model writes a piece of text each `pace`."""
    model = ai.scripted(reply, name="scripted triage", pace=pace, delta=96)
    return ai.App({"triage": ai.Agent(model=model, tools=[list_files, scan_log, inspect_log])})


app = make_app(pace=timedelta(milliseconds=8))
