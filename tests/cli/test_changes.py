import os
import time
from pathlib import Path

from api.changes import Changes, modules_near


def made(folder: Path, *names: str) -> list[Path]:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    return [folder / name for name in names]


def test_nothing_has_changed_until_something_does(tmp_path: Path) -> None:
    first, second = made(tmp_path, "a.py", "b.py")
    changes = Changes(lambda: [first, second], since=time.time())
    assert changes.seen() == []

    os.utime(second, (1, 1))

    assert changes.seen() == [second]


def test_what_was_written_before_one_could_look_is_seen(tmp_path: Path) -> None:
    since = time.time() - 5
    (file,) = made(tmp_path, "a.py")

    assert Changes(lambda: [file], since=since).seen() == [file]


def test_a_file_of_the_future_is_no_change(tmp_path: Path) -> None:
    (file,) = made(tmp_path, "a.py")
    os.utime(file, (4e9, 4e9))

    assert Changes(lambda: [file], since=time.time()).seen() == []


def test_files_that_come_and_go_are_changes(tmp_path: Path) -> None:
    stays, goes = made(tmp_path, "stays.py", "goes.py")
    changes = Changes(lambda: tmp_path.glob("*.py"), since=time.time())

    goes.unlink()
    comes = stays.rename(tmp_path / "comes.py")

    assert changes.seen() == [comes, goes, stays]


def test_a_mend_is_looked_for_near_the_app(tmp_path: Path) -> None:
    here, deep = tmp_path / "here", "here/agents/deep/tools.py"
    made(tmp_path, "here/app.py", "here/agents/one.py", deep, "here/.venv/x.py", "else/where.py")

    near = modules_near(here, [tmp_path / deep])

    names = [str(file.relative_to(tmp_path)) for file in near]
    assert names == ["here/agents/deep/tools.py", "here/agents/one.py", "here/app.py"]
