from typing import Any

from api.demo.report import rank, read, report_of, write


def kind(expression: str, count: int, first: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "expression": expression,
        "title": expression.upper(),
        "count": count,
        "first": first,
        "last": first,
        "example": f"{expression} in line",
        **more,
    }


def found(file: str, *kinds: dict[str, Any]) -> dict[str, Any]:
    return {"file": file, "lines": 10, "bytes": 100, "kinds": [*kinds], "unlisted": 0}


def test_groups_are_merged_over_files_and_the_largest_is_first() -> None:
    groups = rank([found("a", kind("x", 1), kind("y", 2)), found("b", kind("x", 3))])

    assert [(group.expression, group.count, group.files) for group in groups] == [
        ("x", 4, {"a": 1, "b": 3}),
        ("y", 2, {"a": 2}),
    ]


def test_a_second_look_replaces_the_first_and_finds_what_it_left_out() -> None:
    scans = [found("a", kind("x", 1)), found("b", kind("y", 5))]

    groups = rank(scans, [found("a", kind("x", 1), kind("y", 3), kind("z", 0))])

    assert {group.expression: group.files for group in groups} == {
        "y": {"b": 5, "a": 3},
        "x": {"a": 1},
    }


def test_a_group_lasts_from_the_first_line_of_any_file_to_the_last() -> None:
    late, early = kind("x", 1, "2026-03-14T05:00:00"), kind("x", 1, "2026-03-14T03:00:00")
    early["example"] = "the earliest"

    (group,) = rank([found("a", late), found("b", early), found("c", kind("x", 1))])

    assert (group.first, group.last) == ("2026-03-14T03:00:00", "2026-03-14T05:00:00")
    assert group.example == "the earliest"


def test_a_report_can_be_read_back_from_its_text() -> None:
    busy = {"minute": "2026-03-14T03:12", "count": 4}
    scans = [found("a", kind("it's ```json", 4, "2026-03-14T03:12:00", busiest=busy))]

    report = report_of("/logs", scans, [], {"b": "PermissionError: no"})
    text = write(report)

    assert read(text) == report
    assert "4 × IT'S" in text
    assert "most at 03:12: 4 in a" in text
    assert "Could not read b: PermissionError: no" in text


def test_rarer_kinds_are_counted_and_not_shown() -> None:
    scans = [found("a", *(kind(f"x{n:02d}", 100 - n) for n in range(15)))]

    report = report_of("/logs", scans, [], {})

    assert len(report["groups"]) == 12
    assert report["others"] == {"groups": 3, "lines": 88 + 87 + 86}
    assert "And 261 errors of 3 rarer kinds." in write(report)


def test_a_text_without_a_report_has_none() -> None:
    assert read("I could not list the files") is None
    assert read("```json\n{") is None


def test_a_report_reads_like_this() -> None:
    time = "2026-03-14T03:12:00"
    scans = [
        found("a.log", kind("x", 2, time), kind("y", 1)),
        *(found(f"{name}.log", kind("x", 1, time)) for name in "bcde"),
    ]

    text = write(report_of("/logs", scans, [], {})).partition("\n\n```json")[0]

    assert text.splitlines() == [
        "Triage of /logs: 7 errors of 2 kinds in 50 lines of 5 files.",
        "",
        "1. 6 × X",
        f"   {time} to {time} in a.log 2, b.log 1, c.log 1 and 2 more files",
        "   grep -E x",
        "   x in line",
        "",
        "2. 1 × Y",
        "   in a.log 1",
        "   grep -E y",
        "   y in line",
    ]


def test_of_second_looks_the_busiest_minute_is_told() -> None:
    quiet, busy = ({"minute": f"2026-03-14T03:1{n}", "count": n} for n in (1, 2))
    time = "2026-03-14T03:12:00"

    (group,) = rank(
        [],
        [
            found("a", kind("x", 3, time, busiest=busy)),
            found("b", kind("x", 3, time, busiest=quiet)),
        ],
    )

    assert group.busiest == {**busy, "file": "a"}
