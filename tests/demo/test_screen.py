import io
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console, RenderableType

from api.demo.report import report_of
from api.demo.screen import cell, draw, draw_report
from api.demo.story import CallStory, State, Story

NOW = datetime(2026, 3, 14, 3, 12, tzinfo=UTC)


def shown(renderable: RenderableType, width: int) -> list[str]:
    """The lines that a terminal of the width shows."""
    console = Console(file=io.StringIO(), width=width, color_system=None)
    with console.capture() as capture:
        console.print(renderable)
    return capture.get().splitlines()


def story(count: int, state: State = "running") -> Story:
    calls = [
        CallStory(
            f"k{n}", "scan_log", f"web/access-{n}.log", state, 4000 + n % 2, started=NOW, part=0.5
        )
        for n in range(count)
    ]
    return Story("running", turn=2, calls={call.key: call for call in calls}, first=NOW, last=NOW)


@pytest.mark.parametrize(("width", "height"), [(100, 30), (80, 24), (60, 20), (200, 50), (40, 12)])
@pytest.mark.parametrize("count", [0, 1, 24, 300])
def test_a_picture_fits_its_terminal(width: int, height: int, count: int) -> None:
    lines = shown(draw(story(count), title="run", now=NOW, width=width, height=height), width)

    assert len(lines) <= height
    assert max(map(len, lines)) <= width


def test_a_call_shows_what_it_does_who_does_it_and_how_far_it_is() -> None:
    call = story(1).calls["k0"]

    line = cell(call, [4000], NOW + timedelta(seconds=1.5), 60).plain

    assert line.split() == ["⇢", "scan", "web/access-0.log", "4000", "50%"]


def test_a_call_that_tells_nothing_or_is_over_shows_its_time() -> None:
    call = replace(story(1).calls["k0"], part=0.0)
    over = replace(call, state="done", part=1.0, ended=NOW + timedelta(seconds=12))

    line = cell(call, [4000], NOW + timedelta(seconds=1.5), 60).plain

    assert line.split()[-2:] == ["1.50", "s"]
    assert cell(over, [4000], None, 60).plain.split()[-2:] == ["12", "s"]


def test_a_narrow_cell_keeps_the_end_of_a_name() -> None:
    call = replace(story(1).calls["k0"], label="a/very/long/folder/access-0.log")

    line = cell(call, [4000], NOW, 38).plain

    assert len(line) <= 38
    assert "…" in line
    assert "access-0.log" in line


def test_of_too_many_calls_those_that_run_are_shown() -> None:
    crowd = story(40, "done")
    running = replace(crowd.calls["k20"], state="running", label="slow.log")

    picture = draw(
        replace(crowd, calls={**crowd.calls, "k20": running}),
        title="run",
        now=NOW,
        width=80,
        height=16,
    )

    lines = "\n".join(shown(picture, 80))
    assert "slow.log" in lines
    assert "and 22 more calls" in lines


def test_a_picture_of_the_past_does_not_change() -> None:
    over = replace(story(2, "done"), last=NOW + timedelta(seconds=3))

    lines = shown(draw(over, title="run", now=None, width=80, height=24), 80)

    assert lines[0] == "run · running · turn 2 · 3.00 s"


def test_what_the_model_says_is_its_last_line_and_no_json() -> None:
    saying = replace(story(1), said=((1, "Errors\n\n1. 4 × lost\n   detail\n```json\n{}"),))

    lines = shown(draw(saying, title="run", now=NOW, width=80, height=24), 80)

    assert lines[-1] == "1. 4 × lost"


def test_rarer_kinds_are_counted_below_the_table() -> None:
    kinds = [
        {"expression": f"^{n}$", "title": f"kind {n}", "count": 20 - n, "example": "x"}
        | {"first": None, "last": None}
        for n in range(15)
    ]
    found = {"file": "a", "lines": 2000, "bytes": 1, "kinds": kinds, "unlisted": 0}

    lines = shown(draw_report(report_of("/logs", [found], [], {})), 80)

    assert lines[-1].strip() == "+ 3 rarer kinds, 21 errors"


def test_a_report_is_a_table() -> None:
    times = {"first": "2026-03-14T03:12:00", "last": "2026-03-14T04:00:00"}
    kind = {"expression": "^x$", "title": "[bold]x[/]", "count": 1234, "example": "x", **times}
    found = {"file": "a", "lines": 2000, "bytes": 1, "kinds": [kind], "unlisted": 0}

    lines = shown(draw_report(report_of("/logs", [found], [], {"b.log": "gone"})), 80)

    assert lines[0] == "1,234 errors of 1 kind in 2,000 lines of 1 file"
    assert lines[3].split() == ["1,234", "[bold]x[/]", "03:12:00", "04:00:00", "1"]
    assert lines[4] == "could not read b.log: gone"


def test_a_report_without_errors_has_no_table() -> None:
    found = {"file": "a", "lines": 2, "bytes": 1, "kinds": [], "unlisted": 0}

    lines = shown(draw_report(report_of("/logs", [found], [], {})), 80)

    assert [line for line in lines if line.strip()] == ["No errors in 2 lines of 1 file"]
