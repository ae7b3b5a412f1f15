"""Two tools for the files of a workspace: `read` shows one, `edit` changes one.

A change is made under a lock and takes the file's place as a whole, so that of two changes at the
same time none is lost, and nobody ever reads half of one.
"""

import base64
import os
import stat
from collections.abc import Callable, Sequence
from heapq import nsmallest
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from loops.blocks import Raw
from loops.errors import InvalidArguments, ToolFailed
from loops.jsonable import clean_text
from loops.tool_context import ToolContext
from loops.tools import tool

from .workspace import (
    content_of,
    inside,
    is_ours,
    keep_in_trash,
    locked,
    opened_folder,
    opened_to_read,
    refuse_irregular,
    replace_file,
    telling,
    workspace_of,
)

MAX_FILE = 3 * 1024 * 1024
"""How many bytes a file may have that is read or changed."""

MAX_SHOWN = 50_000
"""How many characters of a text are shown at once, with line numbers and the footer."""

MAX_LINE = 2_000
"""How many characters of a line are shown."""

MAX_ENTRIES = 1_000
"""How many entries of a folder are listed."""

_MARK = "\ufeff"
"""What some programs write at the beginning of a file, to say that it is UTF-8."""

_SNIFFED = 8 * 1024
_FOOTER = 200
"""How many characters are left free for the footer."""

PathName = Annotated[str, Field(description="Relative to the workspace, like 'notes/plan.md'.")]
LineNumber = Annotated[int, Field(ge=1, description="The first line to show, from 1.")]
LineCount = Annotated[int | None, Field(ge=1, description="How many lines to show at most.")]
Command = Annotated[
    Literal["str_replace", "create", "insert"],
    Field(
        description="str_replace: old_str, which must stand in the file exactly once, becomes "
        "new_str. create: the file is file_text, in place of what it was. insert: new_str is put "
        "after the line insert_line, 0 for the beginning."
    ),
]


@tool(read_only=True, idempotent=True)
def read(
    path: PathName, offset: LineNumber = 1, limit: LineCount = None, *, context: ToolContext
) -> str | list[Raw]:
    """Show a file of the workspace: text with line numbers, a picture, or a PDF.

    A folder is listed. Long text ends with a note that says with which offset to go on.
    """
    root = workspace_of(context)
    found = inside(root, path)
    with telling(path), opened_to_read(root, found) as file:
        if stat.S_ISDIR(os.fstat(file).st_mode):
            return _listing(file)
        content = content_of(file, path, MAX_FILE)
    kind = _kind(content)
    if kind is not None:
        return [_block(kind, content)]
    return _shown(_text(content, path).removeprefix(_MARK), offset, limit)


@tool
def edit(  # noqa: PLR0913 - the model gives six, the seventh it never sees
    path: PathName,
    command: Command,
    old_str: str = "",
    new_str: str = "",
    file_text: str = "",
    insert_line: int | None = None,
    *,
    context: ToolContext,
) -> str:
    """Change a text file of the workspace, or make one; folders on the way to it are made."""
    root = workspace_of(context)
    found = inside(root, path)
    if found == root:
        raise InvalidArguments(f"{path!r} is a folder; name a file in it")
    with telling(path), locked(root, found, cancelled=context.cancelled):
        if command == "create":
            return _create(root, found, path, file_text)
        if command == "insert":
            return _change(root, found, path, lambda text: _inserted(text, insert_line, new_str))
        return _change(root, found, path, lambda text: _replaced(text, old_str, new_str, path))


def _listing(folder: int) -> str:
    with os.scandir(folder) as entries:
        names = [
            clean_text(entry.name) + ("/" if entry.is_dir(follow_symlinks=False) else "")
            for entry in entries
            if not is_ours(entry.name)
        ]
    shown = nsmallest(MAX_ENTRIES, names)
    if len(names) > len(shown):
        shown.append(f"[the first {len(shown)} of {len(names)} entries]")
    return "\n".join(shown) or "(empty folder)"


def _kind(content: bytes) -> str | None:
    """Return the media type of what is shown as it is; None for anything else."""
    if content.startswith(b"RIFF") and content[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _MAGIC.items() if content.startswith(magic)), None)


_MAGIC = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"%PDF-": "application/pdf",
}


def _block(kind: str, content: bytes) -> Raw:
    data = base64.b64encode(content).decode("ascii")
    source = {"type": "base64", "media_type": kind, "data": data}
    return {"type": "image" if kind.startswith("image/") else "document", "source": source}


def _text(content: bytes, path: str) -> str:
    if b"\0" not in content[:_SNIFFED]:
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise ToolFailed(
                f"{path!r} is not UTF-8 text (the byte {error.start} does not fit); "
                "convert it first, or look at it with a command"
            ) from error
    raise ToolFailed(f"{path!r} is a binary file, neither text nor a picture nor a PDF")


def _lines(text: str) -> list[str]:
    """Return the lines without their ends; the end of the last one does not begin another."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _count(text: str) -> str:
    count = len(_lines(text))
    return f"{count} line" if count == 1 else f"{count} lines"


def _shown(text: str, offset: int, limit: int | None) -> str:
    lines = [line.removesuffix("\r") for line in _lines(text)]
    if not lines:
        return "(empty file)"
    if offset > len(lines):
        raise InvalidArguments(f"offset={offset} is past the end: the file has {len(lines)} lines")
    end = len(lines) if limit is None else min(len(lines), offset - 1 + limit)
    shown: list[str] = []
    room = MAX_SHOWN - _FOOTER
    for number, line in enumerate(lines[offset - 1 : end], offset):
        numbered = f"{number:6d}\t{_cut(line)}\n"
        room -= len(numbered)
        if room < 0:
            break
        shown.append(numbered)
    last = offset - 1 + len(shown)
    if last < len(lines):
        shown.append(f"[stopped at line {last} of {len(lines)}; go on with offset={last + 1}]")
    return "".join(shown).removesuffix("\n")


def _cut(line: str) -> str:
    if len(line) <= MAX_LINE:
        return line
    mark = f" [cut: the line has {len(line)} characters]"
    return line[: MAX_LINE - len(mark)] + mark


def _create(root: Path, found: Path, path: str, text: str) -> str:
    content = clean_text(text).encode()
    with opened_folder(root, found.parent, make=True) as folder:
        kept = _kept(root, found, path)
        replace_file(folder, found.name, content)
    if kept is None:
        return f"made {path!r} with {_count(text)}"
    return f"wrote {path!r} anew with {_count(text)}; what it held before is kept as {kept!r}"


def _kept(root: Path, found: Path, path: str) -> str | None:
    """Keep what stands where a file is to be made; None when there is nothing."""
    try:
        with opened_to_read(root, found) as file:
            refuse_irregular(file, path)
            return keep_in_trash(root, found, file)
    except FileNotFoundError:
        return None


def _change(root: Path, found: Path, path: str, changed: Callable[[str], tuple[str, str]]) -> str:
    with opened_folder(root, found.parent) as folder:
        with opened_to_read(root, found) as file:
            text = _text(content_of(file, path, MAX_FILE), path)
        after, told = changed(text)
        replace_file(folder, found.name, clean_text(after).encode())
    return f"{told} of {path!r}"


def _replaced(text: str, old: str, new: str, path: str) -> tuple[str, str]:
    if not old or old == new:
        raise InvalidArguments("old_str must be some text of the file, and new_str another one")
    old, new = _with_ends_of(text, old), _with_ends_of(text, new)
    found = _places(text, old)
    if not found:
        raise ToolFailed(f"old_str does not stand in {path!r}{_nearly(text, old)}")
    if len(found) > 1:
        raise ToolFailed(
            f"old_str stands in {path!r} more than once, at the lines {_numbers(text, found)}; "
            "take more of what is around the one that you mean"
        )
    told = f"replaced the text at line {_numbers(text, found)}"
    return text.replace(old, new), told


_MOST_PLACES = 20
"""How many places are named of a text that stands in more than one."""


def _places(text: str, part: str) -> list[int]:
    """Return where the part begins in the text, also where one place overlaps the next."""
    found: list[int] = []
    at = text.find(part)
    while at >= 0 and len(found) <= _MOST_PLACES:
        found.append(at)
        at = text.find(part, at + 1)
    return found


def _numbers(text: str, places: Sequence[int]) -> str:
    named = ", ".join(str(text.count("\n", 0, at) + 1) for at in places[:_MOST_PLACES])
    return f"{named} and more" if len(places) > _MOST_PLACES else named


def _nearly(text: str, old: str) -> str:
    """Return where the first line of a text stands that as a whole is not there."""
    first = next((line.strip() for line in _lines(old) if line.strip()), "")
    places = _places(text, first) if first else []
    if not places:
        return "; read the file again and copy the text exactly, without the line numbers"
    return (
        f", but its first line does, at the lines {_numbers(text, places)}; "
        "copy the text exactly, with its white space"
    )


def _inserted(text: str, line: int | None, new: str) -> tuple[str, str]:
    count = len(_lines(text))
    if line is None or not 0 <= line <= count:
        raise InvalidArguments(f"insert_line={line} is none of 0 to {count}, the file's last line")
    if not new:
        raise InvalidArguments("new_str is empty; give the lines to insert")
    at = _end_of(text, line)
    gap = "\n" if line and at == len(text) and not text.endswith("\n") else ""
    added = _with_ends_of(text, gap + new.removesuffix("\n") + "\n")
    return text[:at] + added + text[at:], f"inserted {_count(new)} after line {line}"


def _end_of(text: str, line: int) -> int:
    """Return where the line ends and the next one begins."""
    if line == 0:
        return 1 if text.startswith(_MARK) else 0
    return min(len(text), len("\n".join(text.split("\n")[:line])) + 1)


def _with_ends_of(text: str, part: str) -> str:
    """Return the part with its lines ended as all of the text's are; models end them like Unix."""
    ends = text.count("\r\n")
    if not ends or ends != text.count("\n"):
        return part
    return part.replace("\r\n", "\n").replace("\n", "\r\n")
