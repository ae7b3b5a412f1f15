import os
import threading
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from loops.errors import InvalidArguments, ToolFailed
from loops.kit.workspace import (
    inside,
    keep_in_trash,
    locked,
    opened_folder,
    opened_to_read,
    replace_file,
    telling,
    workspace_of,
)
from loops.tool_context import ToolContext


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace, with something beside it that is not its own."""
    (tmp_path / "secret").write_text("not yours")
    (tmp_path / "spaces" / "mine").mkdir(parents=True)
    return Path(os.path.realpath(tmp_path / "spaces" / "mine"))


@pytest.mark.parametrize("form", [str, Path, lambda path: SimpleNamespace(root=path)])
def test_a_workspace_is_a_path_or_has_one_and_is_made_if_it_is_missing(
    root: Path, form: Any
) -> None:
    folder = root / "deep" / "er"

    found = workspace_of(ToolContext(workspace=form(folder)))

    assert found == folder
    assert folder.is_dir()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (None, "this run has no workspace"),
        ("", "this run has no workspace"),
        (SimpleNamespace(root=None), "this run has no workspace"),
        (7, "a workspace is a path or has one as its root, not 7"),
        ("/", "the whole machine is no workspace"),
        (__file__, "the workspace cannot be made"),
    ],
)
def test_what_is_no_workspace_is_refused(given: object, told: str) -> None:
    with pytest.raises(ToolFailed, match=told):
        workspace_of(ToolContext(workspace=given))


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("notes.md", "notes.md"),
        ("a/./b//c.txt", "a/b/c.txt"),
        ("a/../b", "b"),
        (".", ""),
        ("~", ""),
        ("~/x", "x"),
        ("/workspace", ""),
        ("/workspace/", ""),
        ("/workspace/a/b", "a/b"),
        ("workspace/x", "workspace/x"),
        ("...", "..."),
        ("~bob", "~bob"),
        ("naïve name\n.txt", "naïve name\n.txt"),
        ("C:\\x", "C:\\x"),
    ],
)
def test_a_path_means_a_place_in_the_workspace(root: Path, path: str, found: str) -> None:
    assert inside(root, path) == root / found


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("", "the path is empty"),
        (" \n", "the path is empty"),
        ("..", "leads out of the workspace"),
        ("../mine2/x", "leads out of the workspace"),
        ("a/../../x", "leads out of the workspace"),
        ("~/../x", "leads out of the workspace"),
        ("/workspace/../etc/passwd", "leads out of the workspace"),
        ("/etc/passwd", "is outside of the workspace; give a path relative to it"),
        ("/workspaces/x", "is outside of the workspace"),
        ("//workspace/x", "is outside of the workspace"),
        ("a\0b", "holds a NUL"),
        ("half \ud83d", "holds half a character"),
        (".loopmill", "is not yours"),
        (".loopmill/locks/aa", "is not yours"),
        ("a/.LoopMill-x.tmp", "is not yours"),
    ],
)
def test_a_path_that_leaves_the_workspace_is_refused(root: Path, path: str, told: str) -> None:
    with pytest.raises(InvalidArguments, match=told):
        inside(root, path)


def test_a_link_is_judged_by_where_it_leads(root: Path) -> None:
    (root / "real").mkdir()
    (root / "near").symlink_to("real")
    (root / "out").symlink_to(root.parent.parent)
    (root / "hop").symlink_to("out")
    (root / ".loopmill").mkdir()
    (root / "ours").symlink_to(".loopmill")

    assert inside(root, "near/new.txt") == root / "real" / "new.txt"
    assert inside(root, "near/../x") == root / "x"
    for path in ("out", "out/secret", "hop/secret", "out/new.txt", "ours/x"):
        with pytest.raises(InvalidArguments):
            inside(root, path)


def test_a_link_to_the_workspace_itself_is_no_way_out(root: Path) -> None:
    link = root.parent / "link"
    link.symlink_to(root)

    assert inside(link, "x") == root / "x"


def test_links_in_a_circle_lead_nowhere(root: Path) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")

    with pytest.raises(ToolFailed, match="'a/x' cannot be used: "), telling("a/x"):  # noqa: SIM117
        with opened_to_read(root, inside(root, "a/x")):
            pass


@pytest.mark.parametrize("swapped", ["folder", "folder/file"])
def test_a_link_that_is_put_there_after_the_look_is_not_followed(root: Path, swapped: str) -> None:
    (root / "folder").mkdir()
    (root / "folder" / "file").write_text("mine")
    found = inside(root, "folder/file")
    (root / swapped).rename(root / "moved")
    (root / swapped).symlink_to(root.parent.parent)

    with pytest.raises(OSError, match=swapped.rpartition("/")[2]), opened_to_read(root, found):
        pass


def test_our_own_folder_is_not_followed_out_of_the_workspace(root: Path) -> None:
    (root / ".loopmill").symlink_to(root.parent)

    with pytest.raises(OSError, match="loopmill"):  # noqa: SIM117
        with locked(root, root / "x", cancelled=threading.Event()):
            pass

    assert os.listdir(root.parent) == ["mine"]


def test_what_takes_the_place_of_a_file_keeps_its_mode(root: Path) -> None:
    file = root / "run.sh"
    file.write_text("old")
    file.chmod(0o751)

    with opened_folder(root, root) as folder:
        replace_file(folder, "run.sh", b"new")

    assert (file.read_text(), file.stat().st_mode & 0o777) == ("new", 0o751)
    assert os.listdir(root) == ["run.sh"]


def test_a_write_that_fails_leaves_nothing(root: Path) -> None:
    (root / "taken").mkdir()

    with opened_folder(root, root) as folder, pytest.raises(IsADirectoryError):
        replace_file(folder, "taken", b"new")

    assert os.listdir(root) == ["taken"]


def test_the_trash_numbers_what_it_keeps(root: Path) -> None:
    file = root / "a" / "notes.txt"
    file.parent.mkdir()
    names: list[str] = []
    for text in ("one", "two", "three"):
        file.write_text(text)
        with opened_to_read(root, file) as opened:
            names.append(keep_in_trash(root, file, opened))

    assert names == [f".loopmill/trash/a/notes.txt.{number}" for number in (1, 2, 3)]
    assert [(root / name).read_text() for name in names] == ["one", "two", "three"]


def test_whoever_is_cancelled_waits_for_no_lock(root: Path) -> None:
    cancelled = threading.Event()
    cancelled.set()

    with ExitStack() as held:
        held.enter_context(locked(root, root / "x", cancelled=threading.Event()))
        with pytest.raises(ToolFailed, match="was cancelled before it changed anything"):
            held.enter_context(locked(root, root / "x", cancelled=cancelled))


def test_files_do_not_leak_descriptors(root: Path) -> None:
    (root / "x").write_text("x")
    before = len(os.listdir("/proc/self/fd"))

    for _ in range(20):
        with locked(root, root / "x", cancelled=threading.Event()):
            with opened_to_read(root, root / "x") as file:
                keep_in_trash(root, root / "x", file)
            with opened_folder(root, root / "new", make=True) as folder:
                replace_file(folder, "y", b"y")

    assert len(os.listdir("/proc/self/fd")) == before
