from datetime import UTC, datetime, timedelta
from typing import Any

from api.client import Seen
from api.demo.story import Story, tell
from api.demo.ticker import line_of

NOW = datetime(2026, 3, 14, 3, 12, tzinfo=UTC)


def told(*events: tuple[str, dict[str, Any]]) -> list[str | None]:
    """The lines of the events, a second apart."""
    story, lines = Story(), list[str | None]()
    for number, (type_, fields) in enumerate(events, 1):
        seen = Seen(type_, fields, str(number), turn=1, time=NOW + timedelta(seconds=number))
        story = tell(story, seen)
        lines.append(line_of(story, seen))
    return lines


WRITTEN = {"call": "k", "name": "scan_log", "arguments": '{"path": "/x", "file": "web/a.log"}'}


def test_each_line_of_a_call_names_its_file() -> None:
    assert told(
        ("turn.started", {}),
        ("call.finished", WRITTEN),
        ("tool.started", {"call": "k", "pid": 7}),
        ("tool.progress", {"call": "k", "value": {"lines": 5, "part": 0.1}}),
        ("tool.finished", {"call": "k", "name": "scan_log", "content": {"lines": 1200}}),
    ) == [
        "turn 1",
        None,
        "  ⇢ scan_log web/a.log on worker 7",
        None,
        "  ✓ scan_log web/a.log 2.00 s, 1,200 lines",
    ]


def test_what_goes_wrong_is_told() -> None:
    assert told(
        ("call.finished", WRITTEN),
        ("tool.finished", {"call": "k", "name": "scan_log", "content": "no", "is_error": True}),
        ("tool.lost", {"call": "k"}),
        ("run.failed", {"message": "it broke"}),
    )[1:] == ["  ! scan_log web/a.log", "  ? scan_log web/a.log", "run failed: it broke"]
