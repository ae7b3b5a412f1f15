import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from api.demo.scan import Clock, Scan, count_matches, lines_of, scan
from tests.demo.grep import grep_count


def nobody(lines: int, part: float) -> None:
    """Progress that nobody asks for."""


def scanned(file: Path, text: str) -> Scan:
    file.write_bytes(text.encode())
    return scan(file, nobody)


def test_errors_are_counted_by_kind(tmp_path: Path) -> None:
    found = scanned(tmp_path / "a.log", "1 ERROR a\n2 INFO b\n3 ERROR a\n4 ERROR c")

    assert found.lines == 4
    assert [(kind.title, kind.count) for kind in found.kinds.values()] == [
        ("ERROR a", 2),
        ("ERROR c", 1),
    ]


def test_a_kind_knows_its_first_and_last_time_and_its_minutes(tmp_path: Path) -> None:
    found = scanned(
        tmp_path / "a.log",
        "2026-03-14 03:12:59 ERROR a\n2026-03-14 03:12:01 ERROR a\n2026-03-14 03:13:00 ERROR a\n",
    )

    (kind,) = found.kinds.values()
    assert (kind.first, kind.last) == ("2026-03-14T03:12:01", "2026-03-14T03:13:00")
    assert kind.minutes == {"2026-03-14T03:12": 2, "2026-03-14T03:13": 1}


def test_a_line_without_a_time_has_that_of_the_line_before(tmp_path: Path) -> None:
    found = scanned(tmp_path / "a.log", "KeyError: a\n2026-03-14 03:12:59 ERROR\nKeyError: b\n")

    assert [kind.first for kind in found.kinds.values()] == [
        None,
        "2026-03-14T03:12:59",
        "2026-03-14T03:12:59",
    ]


@pytest.mark.parametrize(
    ("line", "time"),
    [
        (b"2026-03-14T03:12:59.001Z x", "2026-03-14T03:12:59"),
        (b"2026/03/14 03:12:59 [error]", "2026-03-14T03:12:59"),
        (b'1.1.1.1 - - [14/Mar/2026:03:12:59 +0000] "GET', "2026-03-14T03:12:59"),
        (b"Mar  4 03:12:59 db-1", "2019-03-04T03:12:59"),
        (b"Xyz  4 03:12:59 db-1", None),
        (b"no time at all", None),
        (b"x" * 130 + b"2026-03-14T03:12:59", None),
    ],
)
def test_times_are_read_as_logs_write_them(line: bytes, time: str | None) -> None:
    clock = Clock(2019)

    clock.see(line)

    assert clock.time() == time


def test_the_year_of_syslog_is_that_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "sys.log"
    file.write_text("Dec 31 23:59:59 db-1 ERROR: late\n")
    new_year = datetime(2020, 1, 1, tzinfo=UTC).timestamp()
    os.utime(file, (new_year, new_year))

    (kind,) = scan(file, nobody).kinds.values()

    assert kind.first == "2019-12-31T23:59:59"


def test_progress_is_told_as_the_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    file.write_bytes(b"line\n" * 5_000)
    told: list[tuple[int, float]] = []

    assert sum(1 for _ in lines_of(file, lambda *progress: told.append(progress))) == 5_000

    assert told == [(2_000, 0.4), (4_000, 0.8)]


HOSTILE = (
    b"",
    b"\n\n",
    b"ERROR no end",
    b"ERROR crlf\r\nERROR crlf\r\n",
    b"ERROR \xff\xfe bytes\nERROR \xfa\xfb bytes\n",
    b"ERROR " + b"x" * 1_000_000 + b"\n",
    b"ERROR " + b"1 " * 100_000 + b"\n",
)


@pytest.mark.parametrize("content", HOSTILE, ids=range(len(HOSTILE)))
def test_whatever_stands_in_a_file_is_counted_as_grep_counts_it(
    tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "a.log"
    file.write_bytes(content)

    found = scan(file, nobody)

    for kind in found.kinds.values():
        assert kind.count == grep_count(kind.expression, file)
        assert len(kind.example) <= 300


def test_a_second_look_counts_what_the_first_one_counted(samples: Path) -> None:
    file = samples / "shop" / "shop-1.log"
    kinds = scan(file, nobody).kinds

    again = count_matches(file, list(kinds), nobody)

    assert [(kind.count, kind.first, kind.last) for kind in again] == [
        (kind.count, kind.first, kind.last) for kind in kinds.values()
    ]
