from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.blocks import Raw
from loops.history import inspect
from loops.kit.estimate import tokens_of
from loops.kit.marker import ACKNOWLEDGEMENT, SEEN_PICTURE, Marker, view
from loops.kit.stubs import OLD_INPUT, OLD_RESULT, freed, stubbed
from tests.kit.histories import HISTORIES, answers, asks, picture, result, says, user

LONG = "z" * 1_001


def test_results_become_a_line_and_keep_whether_they_failed() -> None:
    history = [asks("a"), user([result("a", "z" * 5_000, is_error=True)], note=1)]

    assert stubbed(history) == [asks("a"), user([result("a", OLD_RESULT, is_error=True)], note=1)]


@pytest.mark.parametrize(
    ("given_input", "shown"),
    [
        ({"path": "a.py", "text": LONG}, {"path": "a.py", "text": OLD_INPUT}),
        ({"text": "z" * 1_000}, {"text": "z" * 1_000}),
        ({"edits": [{"new": LONG}, {"new": "b"}]}, {"edits": [{"new": OLD_INPUT}, {"new": "b"}]}),
        ({"count": 5, "none": None}, {"count": 5, "none": None}),
    ],
)
def test_only_long_texts_among_arguments_become_a_line(
    given_input: dict[str, Any], shown: dict[str, Any]
) -> None:
    assert stubbed([asks("a", **given_input)]) == [asks("a", **shown)]


def test_results_of_skills_stay_whole() -> None:
    history = [asks("a", name="skill"), answers("a", content="how to"), asks("b"), answers("b")]

    assert stubbed(history)[1] is history[1]
    assert stubbed(history)[3] == answers("b", content=OLD_RESULT)
    assert stubbed(history, keep=["t"])[1] == answers("a", content=OLD_RESULT)


def test_an_id_that_repeats_names_the_call_before_the_result() -> None:
    history = [asks("a", name="skill"), answers("a"), asks("a"), answers("a")]

    assert stubbed(history)[1] is history[1]
    assert stubbed(history)[3] == answers("a", content=OLD_RESULT)


def test_what_has_nothing_to_stub_is_shared() -> None:
    history = [user("hi"), says("ho", usage={}), asks("a", path="a.py")]

    assert all(new is old for new, old in zip(stubbed(history), history, strict=True))


def test_what_stubbing_frees_is_told_beforehand() -> None:
    history = [
        *(asks("a"), answers("a", content="word" * 1_000)),
        *(asks("b", name="skill"), answers("b", content="word" * 1_000)),
        *(asks("c", text="word" * 1_000), answers("c")),
    ]

    assert 950 < freed(history, 0, 2) <= 1_000
    assert freed(history, 2, 4) == 0
    assert freed(history, 3, 4) == 0
    assert 950 < freed(history, 4, 6) <= 1_000
    assert freed(history, 6, 6) == freed(history, 0, 0) == freed(history, 9, 99) == 0


@given(HISTORIES)
def test_stubbing_frees_what_it_says_and_parts_nothing(history: list[Raw]) -> None:
    before = deepcopy(history)

    shorter = stubbed(history)

    assert inspect(shorter) == []
    assert [list(each) for each in shorter] == [list(each) for each in history]
    assert freed(history, 0, len(history)) == max(0, tokens_of(history) - tokens_of(shorter))
    assert stubbed(shorter) == shorter
    assert history == before


def test_a_model_is_shown_a_summary_then_stubs_then_the_rest() -> None:
    history = [user("1"), says("2"), user("3"), asks("a"), answers("a"), asks("b"), answers("b")]

    shown = view(history, Marker("so far", first_kept=2, cleared=5))

    assert shown[:2] == [
        user("so far", internal=True),
        {**says(ACKNOWLEDGEMENT), "internal": True},
    ]
    assert shown[2:5] == [user("3"), asks("a"), answers("a", content=OLD_RESULT)]
    assert shown[5:] == history[5:]
    assert view(history, Marker()) == history


def test_what_is_summed_up_is_not_stubbed_again() -> None:
    history = [user("1"), user("2"), asks("a"), answers("a")]

    assert view(history, Marker("so far", first_kept=1, cleared=0))[2:] == history[1:]


def test_what_the_model_said_comes_directly_after_the_summary() -> None:
    history = [user("1"), asks("a"), answers("a")]

    assert view(history, Marker("so far", first_kept=1))[1:] == history[1:]
    assert view(history, Marker(None, first_kept=1)) == history[1:]


def test_a_picture_in_a_result_is_shown_once() -> None:
    seen = answers("a", content=[{"type": "text", "text": "look"}, picture()])
    read = answers("b", content=[{"type": "text", "text": "no picture"}])
    history = [user([picture()]), asks("b"), read, asks("a"), seen]

    assert view(history, Marker()) == history
    later = view([*history, says("nice")], Marker())
    shown = [{"type": "text", "text": "look"}, {"type": "text", "text": SEEN_PICTURE}]
    assert later[4] == answers("a", content=shown)
    assert all(later[index] is history[index] for index in range(4))


@pytest.mark.parametrize(
    ("stored", "marker"),
    [
        ({}, Marker()),
        (None, Marker()),
        ([], Marker()),
        ({"summary": "s", "first_kept": 3, "cleared": 5, "new": 1}, Marker("s", 3, 5)),
        ({"summary": 5, "first_kept": "3", "cleared": None}, Marker()),
        ({"summary": " ", "first_kept": -3, "cleared": -1}, Marker()),
        ({"first_kept": True, "cleared": 2.0}, Marker()),
    ],
)
def test_a_stored_marker_is_read_with_patience(stored: Any, marker: Marker) -> None:
    assert Marker.decode(stored) == marker


def test_a_marker_is_stored_and_read_again() -> None:
    marker = Marker("so far", 3, 5)

    assert marker.encode() == {"summary": "so far", "first_kept": 3, "cleared": 5}
    assert Marker.decode(marker.encode()) == marker


@given(HISTORIES, st.integers(-2, 30), st.integers(-2, 30))
def test_a_marker_never_points_past_the_history(
    history: list[Raw], first_kept: int, cleared: int
) -> None:
    marker = Marker("so far", first_kept, cleared).within(len(history))

    assert 0 <= marker.first_kept <= len(history)
    assert 0 <= marker.cleared <= len(history)
    rest = history[marker.first_kept :]
    head = 1 if rest and rest[0]["role"] == "assistant" else 2
    assert len(view(history, Marker("so far", first_kept, cleared))) == head + len(rest)
