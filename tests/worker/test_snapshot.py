"""The fold of a log into what a client shows: pure, and the same in parts as in one go."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.event_log import LogEvent
from worker.snapshot import CUSTOM_LIMIT, TEXT_LIMIT, State, empty_state, fold_events

Told = tuple[str, int | None, dict[str, Any]]


def log(*told: Told, first: int = 1, attempt: int = 1) -> list[LogEvent]:
    return [
        LogEvent(seq, kind, turn, attempt, 0, data)
        for seq, (kind, turn, data) in enumerate(told, first)
    ]


def text(block: int, said: str, turn: int = 1) -> Told:
    return ("text.delta", turn, {"block": block, "text": said})


def fold(*told: Told) -> State:
    return fold_events(empty_state(), log(*told))


START: Told = ("turn.started", 1, {"model": "m"})


def test_the_state_tells_the_last_event_and_attempt_that_it_stands_for():
    state = fold_events(empty_state(), log(START, text(0, "a"), attempt=3))

    assert (state["seq"], state["attempt"]) == (2, 3)


def test_text_of_a_block_is_put_together():
    state = fold(
        START, ("text.started", 1, {"block": 0}), text(0, "he"), text(1, "x"), text(0, "y")
    )

    [turn] = state["turns"]
    assert (turn["turn"], turn["model"]) == (1, "m")
    assert {name: block["text"] for name, block in turn["blocks"].items()} == {
        "text:0": "hey",
        "text:1": "x",
    }


def test_text_past_the_limit_is_counted_only():
    state = fold(START, text(0, "x" * TEXT_LIMIT), text(0, "abc"), text(0, "de"))

    block = state["turns"][0]["blocks"]["text:0"]
    assert block["text"] == "x" * TEXT_LIMIT
    assert block["length"] == TEXT_LIMIT + 5


def test_a_call_has_its_arguments_and_its_state():
    state = fold(
        START,
        ("call.started", 1, {"block": 0, "id": "call_0", "name": "mail", "call": "turn:1.0"}),
        ("call.finished", 1, {"block": 0, "name": "mail", "arguments": "{}", "call": "turn:1.0"}),
        ("tool.queued", None, {"call": "turn:1.0", "queue": "tools"}),
        ("tool.started", None, {"call": "turn:1.0", "worker": "w1", "pid": 7}),
        ("tool.progress", None, {"call": "turn:1.0", "value": 0.5}),
    )

    assert state["turns"][0]["blocks"]["call:0"]["arguments"] == "{}"
    assert state["calls"]["turn:1.0"] == {
        "state": "progress",
        "queue": "tools",
        "worker": "w1",
        "pid": 7,
        "value": 0.5,
    }


def test_a_finished_call_keeps_the_beginning_of_its_result():
    done: Told = ("tool.finished", None, {"call": "c", "content": "y" * 5000, "is_error": False})

    call = fold(done)["calls"]["c"]

    assert (call["state"], len(call["content"]), call["is_error"]) == ("finished", 1024, False)


def test_the_newest_custom_events_are_kept():
    state = fold(*(("custom.note", None, {"value": n}) for n in range(CUSTOM_LIMIT + 5)))

    values = [event["data"]["value"] for event in state["custom"]]
    assert values == list(range(5, CUSTOM_LIMIT + 5))


def test_the_runs_own_last_word_is_kept():
    state = fold(("run.queued", None, {"agent": "a"}), ("run.started", None, {"attempt": 1}))

    assert (state["run"], state["data"]) == ("started", {"attempt": 1})


def test_a_reset_voids_every_later_yield_of_whatever_turn():
    state = fold(
        START,  # 1
        text(0, "kept"),  # 2
        ("turn.started", 2, {"model": "m"}),  # 3
        text(0, "voided", turn=2),  # 4
        ("custom.note", None, {"value": 1}),  # 5
        text(1, "voided", turn=1),  # 6
        ("turn.reset", None, {"after": 3, "reason": "worker_lost"}),  # 7
    )

    first, second = state["turns"]
    assert list(first["blocks"]) == ["text:0"]
    assert (second["turn"], second["blocks"]) == (2, {})
    assert state["custom"] == []


def test_a_turn_that_is_shown_anew_after_a_reset_goes_on_in_its_place():
    state = fold(
        START,
        text(0, "old"),
        ("turn.reset", None, {"after": 1}),
        START,
        text(0, "new"),
        ("turn.finished", 1, {"stop_reason": "end_turn"}),
    )

    [turn] = state["turns"]
    assert (turn["blocks"]["text:0"]["text"], turn["stop_reason"]) == ("new", "end_turn")


def test_turns_that_are_open_at_once_stay_apart():
    state = fold(
        START, ("turn.started", 2, {"model": "n"}), text(0, "a"), text(0, "b", turn=2), text(0, "c")
    )

    assert [turn["blocks"]["text:0"]["text"] for turn in state["turns"]] == ["ac", "b"]


@pytest.mark.parametrize("kind", ["file", "custom.x", "strange", "hook.opened"])
def test_what_the_fold_has_no_rule_for_is_kept_as_it_is(kind: str):
    state = fold((kind, None, {"value": 1}))

    assert state["custom"] == [{"seq": 1, "type": kind, "data": {"value": 1}}]


BLOCK = st.integers(0, 1)
TURN = st.integers(1, 2)
SAID = st.text("ab", max_size=3)
EVENTS = st.lists(
    st.one_of(
        st.builds(lambda t: ("turn.started", t, {"model": "m"}), TURN),
        st.builds(lambda t: ("turn.finished", t, {"stop_reason": "end"}), TURN),
        st.builds(lambda a: ("turn.reset", None, {"after": a}), st.integers(0, 20)),
        st.builds(lambda t, b, s: ("text.delta", t, {"block": b, "text": s}), TURN, BLOCK, SAID),
        st.builds(lambda t, b, s: ("call.delta", t, {"block": b, "text": s}), TURN, BLOCK, SAID),
        st.builds(lambda t, b: ("text.finished", t, {"block": b}), TURN, BLOCK),
        st.builds(lambda c: ("tool.started", None, {"call": c, "worker": "w"}), SAID),
        st.builds(lambda c: ("tool.finished", None, {"call": c, "content": [c]}), SAID),
        st.builds(lambda s: ("custom.x", None, {"value": s}), SAID),
        st.builds(lambda s: ("run.resumed", None, {"worker": s}), SAID),
    ),
    max_size=25,
)


@given(EVENTS, st.lists(st.integers(0, 25), max_size=3))
def test_folding_in_parts_is_folding_in_one_go(told: list[Told], cuts: list[int]):
    events = log(*told)
    whole = fold_events(empty_state(), log(*told))

    state, done = empty_state(), 0
    for cut in [*sorted(cuts), len(events)]:
        stored = orjson.loads(orjson.dumps(state))
        state, done = fold_events(stored, events[done:cut]), max(done, cut)

    assert state == whole
