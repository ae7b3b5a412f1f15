from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any

from api.client import Seen
from api.demo.story import Story, tell

START = datetime(2026, 3, 14, 3, 12, tzinfo=UTC)


def story_of(*events: tuple[str, dict[str, Any]]) -> Story:
    """What is known after these events, one a second."""
    seen = (
        Seen(type_, data, str(number), turn=1, time=START + timedelta(seconds=number))
        for number, (type_, data) in enumerate(events, 1)
    )
    return reduce(tell, seen, Story())


CALL = ("call.finished", {"call": "a", "name": "scan_log", "arguments": '{"file": "web.log"}'})
STARTED = ("tool.started", {"call": "a", "worker": "w", "pid": 77})


def test_a_call_is_followed_from_the_model_to_its_answer() -> None:
    progress = ("tool.progress", {"call": "a", "value": {"lines": 40, "part": 0.5}})
    finished = ("tool.finished", {"call": "a", "content": {"lines": 90}, "is_error": False})

    running = story_of(CALL, STARTED, progress).calls["a"]
    done = story_of(CALL, STARTED, progress, finished).calls["a"]

    assert (running.tool, running.label, running.state) == ("scan_log", "web.log", "running")
    assert (running.pid, running.lines, running.part, running.took) == (77, 40, 0.5, None)
    assert (done.state, done.lines, done.part) == ("done", 90, 1.0)
    assert done.took == timedelta(seconds=2)


def test_a_worker_may_be_faster_than_the_models_words() -> None:
    story = story_of(("tool.queued", {"call": "a"}), STARTED, CALL)

    assert (story.calls["a"].state, story.calls["a"].label) == ("running", "web.log")


def test_a_failed_and_a_lost_call_are_told_apart() -> None:
    failed = story_of(CALL, ("tool.finished", {"call": "a", "content": "no", "is_error": True}))
    lost = story_of(CALL, STARTED, ("tool.lost", {"call": "a", "reason": "gone"}))

    assert (failed.calls["a"].state, lost.calls["a"].state) == ("failed", "lost")


def test_what_a_broken_off_reply_said_is_forgotten() -> None:
    story = story_of(
        ("text.delta", {"text": "kept "}),
        ("text.delta", {"text": "lost"}),
        ("turn.reset", {"after": 1, "reason": "cut"}),
        ("text.delta", {"text": "new"}),
    )

    assert story.text == "kept new"


def test_a_new_turn_begins_with_nothing_said() -> None:
    assert story_of(("text.delta", {"text": "old"}), ("turn.started", {"model": "m"})).text == ""


def test_the_pids_are_those_that_the_log_names() -> None:
    others = [("tool.started", {"call": key, "pid": pid}) for key, pid in (("b", 5), ("c", 77))]

    story = story_of(STARTED, *others, ("call.finished", {**CALL[1], "call": "d"}))

    assert (story.pids, story.tool_jobs) == ([5, 77], 3)


def test_the_status_is_the_last_that_was_told() -> None:
    assert story_of(("run.started", {})).status == "running"
    assert story_of(("run.waiting", {}), ("run.resumed", {})).status == "running"
    failed = story_of(("run.failed", {"code": "timed_out", "message": "too long"}))
    assert (failed.status, failed.error) == ("failed", "too long")


def test_every_event_counts_also_those_of_an_unknown_kind() -> None:
    story = story_of(("run.queued", {}), ("custom.anything", {"x": [1]}), ("run.completed", {}))

    assert (story.events, story.length) == (3, timedelta(seconds=2))


def test_arguments_and_values_of_any_shape_are_survived() -> None:
    story = story_of(
        ("call.finished", {"call": "a", "name": "t", "arguments": "not json"}),
        ("call.finished", {"call": "b", "name": "t", "arguments": "[1]"}),
        ("tool.progress", {"call": "a", "value": "half"}),
        ("tool.finished", {"call": "a", "content": [1, 2], "is_error": False}),
    )

    assert [(call.label, call.lines) for call in story.calls.values()] == [("", 0), ("", 0)]


def test_a_story_that_has_not_begun_is_empty() -> None:
    story = Story()

    assert (story.status, story.turn, story.attempt, story.events) == ("queued", 0, 1, 0)
    assert (story.text, story.pids, story.tool_jobs, story.length) == ("", [], 0, timedelta(0))


def test_turns_and_attempts_are_counted_as_the_events_say() -> None:
    turn = Seen("turn.started", {"model": "m"}, "1", attempt=2, turn=3)
    nameless = Seen("turn.started", {"model": "m"}, "2", attempt=1)

    assert (tell(Story(), turn).turn, tell(Story(), turn).attempt) == (3, 2)
    assert (tell(tell(Story(), turn), nameless).turn, tell(Story(), nameless).turn) == (4, 1)
    assert tell(tell(Story(), turn), nameless).attempt == 2


def test_a_call_that_begins_again_begins_at_nothing() -> None:
    progress = ("tool.progress", {"call": "a", "value": {"lines": 40, "part": 0.5}})

    assert story_of(CALL).calls["a"].part == 0.0
    assert story_of(CALL, STARTED, progress, STARTED).calls["a"].part == 0.0
