import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.blocks import Raw
from loops.history import inspect
from loops.kit.cutting import cut, fitting, is_said, whole_borders
from loops.kit.estimate import blocks_of, tokens_of
from loops.kit.marker import head_of
from tests.kit.histories import (
    HISTORIES,
    ODD_HISTORIES,
    answers,
    asks,
    call,
    result,
    says,
    user,
)

GIANT = "word " * 20_000


@pytest.mark.parametrize(
    ("history", "keep", "border"),
    [
        ([], 0, None),
        ([user(GIANT)], 10, None),
        ([user("1"), says("2")], 0, 1),
        ([user("1"), says("2"), user("3"), says("4")], 0, 3),
        ([user("1"), says("2"), user("3"), says("4")], 10, 2),
        ([user("1"), says("2"), user("3"), says("4")], 10_000, 2),
        ([user("1"), asks("a"), answers("a"), user("2"), says("3")], 18, 3),
        ([user("1"), asks("a"), answers("a"), asks("b"), answers("b")], 0, 3),
        ([user("1"), asks("a"), answers("a"), asks("b"), answers("b")], 10_000, 1),
        ([user("1"), says("2"), user(GIANT)], 1_000, 2),
        ([user("1"), asks("a"), answers("a", content=GIANT)], 1_000, 1),
        ([user("1"), says("2"), user("3"), asks("a"), answers("a", content=GIANT)], 1_000, 3),
        ([user("1"), asks("a"), answers("a"), user("go", internal=True)], 0, 1),
        ([user("1"), user("2", internal=True)], 0, None),
        ([user("1"), answers("z")], 0, None),
    ],
)
def test_a_history_is_cut_at_what_a_user_said_or_else_at_a_reply(
    history: list[Raw], keep: int, border: int | None
) -> None:
    assert cut(history, keep) == border


def test_what_is_summed_up_already_is_not_cut_again() -> None:
    history = [*head_of("so far"), user("1"), says("2"), user("3"), says("4")]

    assert cut(history, 10_000, start=2) == 4
    assert cut(history[:4], 10_000, start=2) == 3
    assert cut(history[:3], 0, start=2) is None
    assert cut(history, 0, start=-5) == 5
    assert cut(history, 0, start=99) is None


@pytest.mark.parametrize(
    ("history", "wholes"),
    [
        ([user("1"), asks("a"), answers("a"), says("2")], [1, 1, 0, 1, 1]),
        ([asks("a"), says("2"), answers("a"), says("3")], [1, 0, 0, 1, 1]),
        ([asks("a", "b"), answers("b"), answers("a"), user("1")], [1, 0, 0, 1, 1]),
        ([asks("a"), user("1"), says("2")], [1, 1, 1, 1]),
        ([asks("a"), user("1")], [1, 0, 0]),
        ([asks("a"), asks("a"), answers("a")], [1, 1, 0, 1]),
        ([asks("a"), answers("a"), asks("a"), answers("a")], [1, 0, 1, 0, 1]),
        ([answers("a"), asks("b"), answers("b"), answers("a")], [1, 1, 0, 1, 1]),
        ([], [1]),
    ],
)
def test_a_border_is_whole_where_no_call_is_parted_from_its_result(
    history: list[Raw], wholes: list[int]
) -> None:
    assert whole_borders(history) == [bool(each) for each in wholes]


def test_a_search_of_the_service_is_not_parted_from_its_result() -> None:
    search = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
    paused = {"role": "assistant", "content": [search]}

    history = [user("1"), paused, {"role": "assistant", "content": [found]}, says("2")]

    assert whole_borders(history) == [True, True, False, True, True]


@pytest.mark.parametrize(
    ("message", "is_one"),
    [
        (user("hi"), True),
        (user(" "), False),
        (user("hi", internal=True), False),
        (user([]), False),
        (answers("a"), False),
        (user([result("a"), {"type": "text", "text": "and"}]), True),
        (says("hi"), False),
    ],
)
def test_results_and_our_own_words_are_nothing_that_a_user_said(message: Raw, is_one: bool) -> None:
    assert is_said(message) == is_one


def all_keeps(history: list[Raw]) -> list[int]:
    """For each message the largest sum that still ends the walk there, and one past the end."""
    sums = [tokens_of(history[index:]) for index in range(len(history))]
    return [0, *sums, sum(sums) + 1]


@given(HISTORIES, st.integers(0, 3))
def test_both_parts_keep_the_pairing_law_wherever_a_fit_history_is_cut(
    history: list[Raw], start: int
) -> None:
    assert inspect(history) == []

    borders = {cut(history, keep, start) for keep in all_keeps(history)} - {None}

    for border in borders:
        assert border is not None
        assert start < border < len(history)
        assert inspect(history[:border]) == []
        assert inspect(history[border:]) == []
        assert is_said(history[border]) or history[border]["role"] == "assistant"


@given(HISTORIES)
def test_each_whole_border_of_a_fit_history_keeps_the_pairing_law(history: list[Raw]) -> None:
    wholes = whole_borders(history)

    for border, is_whole in enumerate(wholes):
        is_lawful = inspect(history[:border]) == [] == inspect(history[border:])
        assert is_whole == is_lawful


@given(ODD_HISTORIES)
def test_no_cut_parts_a_call_from_the_result_that_is_its_own(history: list[Raw]) -> None:
    for border in {cut(history, keep) for keep in all_keeps(history)} - {None}:
        assert border is not None
        waiting: list[str] = []
        for message in history[:border]:
            for block in blocks_of(message):
                if block["type"].endswith("tool_use"):
                    waiting.append(block["id"])
                elif block["type"].endswith("result") and block["tool_use_id"] in waiting:
                    waiting.remove(block["tool_use_id"])
        answered = [
            block.get("tool_use_id") for each in history[border:] for block in blocks_of(each)
        ]
        called = {block.get("id") for each in history[border:] for block in blocks_of(each)}
        assert {each for each in waiting if each in answered} <= called


@given(HISTORIES, st.integers(0, 2_000))
def test_what_fits_is_the_most_that_does(history: list[Raw], room: int) -> None:
    border = fitting(history, room)

    wholes = whole_borders(history)
    assert tokens_of(history[border:]) <= room
    assert inspect(history[border:]) == []
    assert not any(wholes[index] and tokens_of(history[index:]) <= room for index in range(border))


def test_a_history_of_many_thousand_messages_is_cut_at_once() -> None:
    history = [user("1")]
    for number in range(5_000):
        history += [asks(f"c{number}"), user([result(f"c{number}")])]

    assert cut(history, 1_000) is not None
    assert cut([{"role": "assistant", "content": [call("a")] * 9_000}, *history], 10) is not None
