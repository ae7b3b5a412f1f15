import time
from pathlib import Path

from api.demo.samples import SAMPLES, make_samples


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_samples_are_many_and_large_and_made_at_once(tmp_path: Path) -> None:
    before = time.process_time()

    files = files_of(make_samples(tmp_path / "logs"))

    assert time.process_time() - before < 2
    assert len(files) == len(SAMPLES) >= 20
    assert sum(map(len, files.values())) >= 5_000_000


def test_samples_are_the_same_each_time(samples: Path, tmp_path: Path) -> None:
    again = make_samples(tmp_path / "logs")

    assert files_of(again) == files_of(samples)


def test_samples_that_are_there_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "mine.log").write_text("ERROR mine\n")

    make_samples(folder)

    assert files_of(folder) == {"mine.log": b"ERROR mine\n"}


def test_a_start_that_is_broken_off_leaves_no_half(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file stands where the folder should be")

    try:
        make_samples(tmp_path / "logs")
    except OSError:
        assert [path.name for path in tmp_path.iterdir()] == ["logs"]
    else:
        raise AssertionError("samples were made in the place of a file")
