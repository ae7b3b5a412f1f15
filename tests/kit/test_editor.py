import base64
import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from loops.kit.editor import MAX_FILE, MAX_SHOWN, edit, read
from loops.perform import perform
from loops.tasks import Owner
from loops.tool_context import ToolContext
from loops.tools import Tool

SEED = int(os.environ.get("SEED", "20240607"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "space"
    folder.mkdir()
    return folder


async def ask(tool: Tool, root: Path | None, **arguments: Any) -> tuple[Any, bool]:
    result = await perform(tool, json.dumps(arguments), ToolContext(workspace=root))
    return result.content, result.is_error


async def told(tool: Tool, root: Path | None, **arguments: Any) -> Any:
    content, is_error = await ask(tool, root, **arguments)
    assert not is_error, content
    return content


async def refused(tool: Tool, root: Path | None, **arguments: Any) -> str:
    content, is_error = await ask(tool, root, **arguments)
    assert is_error, content
    return str(content)


async def replace(root: Path, old: str, new: str, *, path: str = "a.txt") -> tuple[Any, bool]:
    return await ask(edit, root, path=path, command="str_replace", old_str=old, new_str=new)


async def test_text_is_shown_with_the_numbers_of_its_lines(root: Path) -> None:
    (root / "a.txt").write_text("one\r\n\n  drei ü\n")

    assert await told(read, root, path="a.txt") == "     1\tone\n     2\t\n     3\t  drei ü"
    assert await told(read, root, path="/workspace/a.txt", offset=3) == "     3\t  drei ü"


async def test_a_part_of_a_text_says_how_to_go_on(root: Path) -> None:
    (root / "a.txt").write_text("".join(f"{number}\n" for number in range(1, 10)))

    shown = await told(read, root, path="a.txt", offset=3, limit=2)

    assert shown == "     3\t3\n     4\t4\n[stopped at line 4 of 9; go on with offset=5]"
    assert "stopped" not in await told(read, root, path="a.txt", offset=8, limit=2)


async def test_a_long_text_can_be_read_to_its_end(root: Path) -> None:
    lines = [f"line {number} " + "x" * (number % 3000) for number in range(1, 500)]
    lines[7] = "y" * 1_000_000
    (root / "a.txt").write_text("\n".join(lines))
    seen, offset = list[str](), 1

    while offset:
        shown = await told(read, root, path="a.txt", offset=offset)
        assert len(shown) <= MAX_SHOWN
        seen += [line.split("\t")[1] for line in shown.split("\n") if "\t" in line]
        more = re.search(r"\n\[stopped at line \d+ of 499; go on with offset=(\d+)\]$", shown)
        offset = int(more[1]) if more else 0

    assert len(seen) == len(lines)
    assert max(len(line) for line in seen) == 2000
    assert seen[7].endswith("y [cut: the line has 1000000 characters]")
    assert [line for line in seen if len(line) < 2000] == [x for x in lines if len(x) < 2000]


@pytest.mark.parametrize(
    ("content", "arguments", "answer"),
    [
        (b"", {}, "(empty file)"),
        (b"x", {"offset": 2}, "InvalidArguments: offset=2 is past the end: the file has 1 lines"),
        (b"x", {"offset": 0}, "greater than or equal to 1"),
        (b"x", {"limit": 0}, "greater than or equal to 1"),
        (b"ab\0c", {}, "ToolFailed: 'a.txt' is a binary file"),
        (b"ab\xffc", {}, "is not UTF-8 text (the byte 2 does not fit)"),
        (b"x" * (MAX_FILE + 1), {}, "has more than the 3145728 bytes"),
        (b"\xef\xbb\xbfx", {}, "     1\tx"),
    ],
)
async def test_the_edges_of_reading(
    root: Path, content: bytes, arguments: dict[str, Any], answer: str
) -> None:
    (root / "a.txt").write_bytes(content)

    assert answer in (await ask(read, root, path="a.txt", **arguments))[0]


@pytest.mark.parametrize(
    ("magic", "kind", "media_type"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0", "image", "image/png"),
        (b"\xff\xd8\xff\xe0\0", "image", "image/jpeg"),
        (b"GIF89a\0", "image", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image", "image/webp"),
        (b"%PDF-1.7\n", "document", "application/pdf"),
    ],
)
async def test_pictures_and_documents_are_shown_as_they_are(
    root: Path, magic: bytes, kind: str, media_type: str
) -> None:
    (root / "file.dat").write_bytes(magic)

    (block,) = await told(read, root, path="file.dat")

    data = base64.b64encode(magic).decode()
    assert block == {
        "type": kind,
        "source": {"type": "base64", "media_type": media_type, "data": data},
    }


async def test_a_folder_is_listed_without_what_is_ours(root: Path) -> None:
    for name in ("b", "a", ".loopmill"):
        (root / name).mkdir()
    (root / "c.txt").touch()
    (root / "link").symlink_to("/etc")

    assert await told(read, root, path=".") == "a/\nb/\nc.txt\nlink"
    assert await told(read, root, path="a") == "(empty folder)"


async def test_of_a_large_folder_the_first_entries_are_listed(root: Path) -> None:
    for number in range(1003):
        (root / f"{number:04}").touch()

    lines = (await told(read, root, path="~")).split("\n")

    assert (lines[0], lines[999]) == ("0000", "0999")
    assert lines[1000:] == ["[the first 1000 of 1003 entries]"]


async def test_what_is_not_there_is_told_by_the_path_that_was_given(root: Path) -> None:
    (root / "pipe").touch()
    os.unlink(root / "pipe")
    os.mkfifo(root / "pipe")
    (root / "a.txt").touch()

    assert (await refused(read, root, path="x/y")) == (
        "ToolFailed: 'x/y' cannot be used: there is no such file or folder in the workspace"
    )
    assert "'a.txt/x' cannot be used: a part of the path" in await refused(
        read, root, path="a.txt/x"
    )
    assert "'pipe' is no regular file" in await refused(read, root, path="pipe")
    assert "leads out of the workspace" in await refused(read, root, path="../x")
    assert "has no workspace" in await refused(read, None, path="x")
    assert str(root) not in await refused(read, root, path="n" * 300)


async def test_a_text_that_stands_once_is_replaced(root: Path) -> None:
    (root / "a.txt").write_text("one\ntwo\nthree")

    assert await replace(root, "two\nth", "2\n\\1 th") == (
        "replaced the text at line 2 of 'a.txt'",
        False,
    )
    assert (root / "a.txt").read_text() == "one\n2\n\\1 three"


@pytest.mark.parametrize(
    ("text", "old", "answer"),
    [
        ("one\ntwo", "zwei", "old_str does not stand in 'a.txt'; read the file again"),
        ("  one\n  two", "one\ntwo", "but its first line does, at the lines 1; copy the text"),
        ("x\ny\nx\nx", "x", "stands in 'a.txt' more than once, at the lines 1, 3, 4; take more"),
        ("aaa", "aa", "more than once, at the lines 1, 1;"),
        ("x\n" * 30, "x", "19, 20 and more;"),
        ("x", "", "old_str must be some text of the file"),
        ("x", "new", "old_str must be some text of the file, and new_str another one"),
    ],
)
async def test_a_text_that_does_not_stand_exactly_once_is_not_replaced(
    root: Path, text: str, old: str, answer: str
) -> None:
    (root / "a.txt").write_text(text)

    content, is_error = await replace(root, old, "new")

    assert is_error
    assert answer in content
    assert (root / "a.txt").read_text() == text


async def test_lines_keep_the_ends_that_the_file_has(root: Path) -> None:
    (root / "a.txt").write_bytes(b"one\r\ntwo\r\nthree\r\n")

    await replace(root, "one\ntwo\n", "1\n2\n")
    await told(edit, root, path="a.txt", command="insert", insert_line=2, new_str="x")

    assert (root / "a.txt").read_bytes() == b"1\r\n2\r\nx\r\nthree\r\n"


@pytest.mark.parametrize(
    ("text", "line", "new", "after"),
    [
        ("one\ntwo\n", 0, "x", "x\none\ntwo\n"),
        ("one\ntwo\n", 1, "x\n", "one\nx\ntwo\n"),
        ("one\ntwo\n", 2, "x\ny", "one\ntwo\nx\ny\n"),
        ("one\ntwo", 2, "x", "one\ntwo\nx\n"),
        ("one\ntwo", 1, "\n", "one\n\ntwo"),
        ("", 0, "x", "x\n"),
        ("\ufeffone\n", 0, "x", "\ufeffx\none\n"),
    ],
)
async def test_lines_are_inserted_after_a_line(
    root: Path, text: str, line: int, new: str, after: str
) -> None:
    (root / "a.txt").write_text(text)

    await told(edit, root, path="a.txt", command="insert", insert_line=line, new_str=new)

    assert (root / "a.txt").read_text() == after


@pytest.mark.parametrize(
    ("line", "new", "answer"),
    [
        (3, "x", "insert_line=3 is none of 0 to 2"),
        (-1, "x", "insert_line=-1 is none of 0 to 2"),
        (None, "x", "insert_line=None is none of 0 to 2"),
        (1, "", "new_str is empty"),
    ],
)
async def test_what_cannot_be_inserted_is_refused(
    root: Path, line: int | None, new: str, answer: str
) -> None:
    (root / "a.txt").write_text("one\ntwo\n")

    content = await refused(
        edit, root, path="a.txt", command="insert", insert_line=line, new_str=new
    )

    assert answer in content


async def test_a_file_is_made_with_the_folders_on_the_way(root: Path) -> None:
    answer = await told(edit, root, path="a/b/c.txt", command="create", file_text="x\ny\n")

    assert answer == "made 'a/b/c.txt' with 2 lines"
    assert (root / "a" / "b" / "c.txt").read_text() == "x\ny\n"
    assert (root / "a" / "b" / "c.txt").stat().st_mode & 0o111 == 0


async def test_what_is_written_anew_is_kept_in_the_trash(root: Path) -> None:
    for text in ("one", "two", "three"):
        answer = await told(edit, root, path="a.txt", command="create", file_text=text)

    kept = root / ".loopmill" / "trash"
    assert "is kept as '.loopmill/trash/a.txt.2'" in answer
    assert [(kept / f"a.txt.{each}").read_text() for each in (1, 2)] == ["one", "two"]
    assert (root / "a.txt").read_text() == "three"


@pytest.mark.parametrize("command", ["create", "insert", "str_replace"])
@pytest.mark.parametrize("path", ["folder", ".", "../x", "/etc/x", ".loopmill/locks/x", "out/x"])
async def test_no_change_is_made_outside_of_files(root: Path, path: str, command: str) -> None:
    (root / "folder").mkdir()
    (root / "out").symlink_to(root.parent)
    arguments = {"old_str": "a", "new_str": "b", "file_text": "c", "insert_line": 0}

    await refused(edit, root, path=path, command=command, **arguments)

    assert os.listdir(root.parent) == ["space"]
    assert os.listdir(root / "folder") == []


async def test_a_change_goes_to_where_a_link_leads(root: Path) -> None:
    (root / "real.txt").write_text("one")
    (root / "a.txt").symlink_to("real.txt")

    await replace(root, "one", "two")

    assert (root / "a.txt").is_symlink()
    assert (root / "real.txt").read_text() == "two"


async def test_a_call_that_was_cancelled_changes_nothing(root: Path) -> None:
    context = ToolContext(workspace=root)
    context.cancelled.set()

    result = await perform(edit, '{"path": "x", "command": "create", "file_text": "x"}', context)

    assert "was cancelled" in str(result.content)
    assert not (root / "x").exists()


async def test_of_changes_at_the_same_time_in_threads_none_is_lost(root: Path) -> None:
    (root / "a.txt").write_text("\n".join(f"<{number}>" for number in range(40)))
    owner = Owner()

    calls = [
        owner.start(replace(root, f"<{number}>", f"[{number}]"), name="change")
        for number in random.Random(SEED).sample(range(40), 40)
    ]
    await owner.join()

    assert [call.result()[1] for call in calls] == [False] * 40
    assert (root / "a.txt").read_text() == "\n".join(f"[{number}]" for number in range(40))


CHANGES = """
import random, sys
from loops.kit.editor import edit
from loops.tool_context import ToolContext

root, who, seed = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
for number in random.Random(seed).sample(range(50), 50):
    edit("a.txt", "str_replace", f"<{who} {number}>", f"[{who} {number}]",
         context=ToolContext(workspace=root))
"""


def changing(root: Path, who: str) -> "subprocess.Popen[str]":
    argv = [sys.executable, "-c", CHANGES, str(root), who, f"{SEED} {who}"]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_of_changes_at_the_same_time_in_processes_none_is_lost(root: Path) -> None:
    slots = [f"{who} {number}" for who in ("a", "b") for number in range(50)]
    (root / "a.txt").write_text("\n".join(f"<{slot}>" for slot in slots))

    with changing(root, "a") as one, changing(root, "b") as two:
        for process in (one, two):
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in (one, two):
            assert process.stdin is not None
            process.stdin.close()

    assert [one.returncode, two.returncode] == [0, 0], f"SEED={SEED}"
    assert (root / "a.txt").read_text() == "\n".join(f"[{slot}]" for slot in slots), f"SEED={SEED}"
