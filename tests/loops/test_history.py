from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.blocks import Block, TextBlock, ToolResultBlock, ToolUseBlock
from loops.errors import BrokenHistory
from loops.history import UNAVAILABLE, inspect, repair, validate
from loops.messages import Message, Messages, as_message


def asks(*ids: str) -> Message:
    return Message(role="assistant", content=[ToolUseBlock(id=each, name="t") for each in ids])


def answers(*ids: str) -> Message:
    return Message(
        role="tool", content=[ToolResultBlock(tool_use_id=each, content="ok") for each in ids]
    )


def lost(*ids: str) -> Message:
    return Message(
        role="tool",
        content=[
            ToolResultBlock(tool_use_id=each, content=UNAVAILABLE, is_error=True) for each in ids
        ],
    )


USER = as_message("hi")
SAYS = Message(role="assistant", content=[TextBlock(text="ho")])


@pytest.mark.parametrize(
    "history",
    [
        [],
        [USER],
        [USER, SAYS, USER],
        [USER, asks("a", "b"), answers("b", "a"), SAYS],
        [USER, asks("a", "b"), answers("b"), answers("a"), USER],
        [asks("a"), answers("a").model_copy(update={"role": "user"}), USER],
        [as_message("no NUL: \\u0000")],
    ],
)
def test_a_fit_history_is_left_alone(history: list[Message]) -> None:
    assert repair(history) == history
    assert inspect(history) == []
    validate(history)


@pytest.mark.parametrize(
    ("history", "repaired", "kinds"),
    [
        ([USER, asks("a")], [USER, asks("a"), lost("a")], ["unanswered_call"]),
        ([asks("a"), USER], [asks("a"), lost("a"), USER], ["unanswered_call"]),
        ([asks("a"), SAYS], [asks("a"), lost("a"), SAYS], ["unanswered_call"]),
        ([USER, answers("a")], [USER], ["orphan_result"]),
        ([asks("a"), answers("a", "z")], [asks("a"), answers("a")], ["orphan_result"]),
        ([asks("a"), answers("a", "a")], [asks("a"), answers("a")], ["orphan_result"]),
        ([asks("a"), USER, answers("a")], [asks("a"), answers("a"), USER], ["misplaced_result"]),
        ([USER, as_message(" \n"), SAYS], [USER, SAYS], ["empty_text"]),
        ([as_message("\ud83d")], [as_message("\ufffd")], ["lone_surrogate"]),
        ([as_message("a\0b")], [as_message("a\ufffdb")], ["nul"]),
        (
            [asks("a"), answers("a"), asks("a"), answers("a")],
            [asks("a"), answers("a"), asks("a_2"), answers("a_2")],
            ["repeated_id"],
        ),
        ([asks("", "")], [asks("call", "call_2"), lost("call", "call_2")], ["repeated_id"] * 2),
    ],
)
def test_a_broken_history_is_mended(
    history: list[Message], repaired: list[Message], kinds: list[str]
) -> None:
    assert repair(history) == repaired
    assert [issue.kind for issue in inspect(history)][: len(kinds)] == kinds


def test_a_model_that_numbers_the_calls_of_each_reply_anew_fills_no_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    turn = [asks("call_0"), answers("call_0")]

    assert len(repair([USER, *turn, *turn])) == 5
    assert caplog.records == []


def test_what_is_mended_is_logged_and_bounded(caplog: pytest.LogCaptureFixture) -> None:
    repair([answers(*map(str, range(50)))])
    repair([USER, SAYS])

    [record] = caplog.records
    assert "the result of '0' has no call" in record.getMessage()
    assert record.getMessage().endswith("; and more")
    assert len(record.getMessage()) < 1000


def test_only_the_missing_results_are_made_up() -> None:
    mended = repair([asks("a", "b"), answers("b")])

    assert [block.content for block in mended[1].tool_results] == [UNAVAILABLE, "ok"]


def test_results_between_words_of_a_user_come_first() -> None:
    mixed: list[Block] = [TextBlock(text="so"), ToolResultBlock(tool_use_id="a", content="ok")]

    mended = repair([asks("a"), Message(role="user", content=mixed)])

    assert mended == [asks("a"), answers("a"), as_message("so")]


def test_a_repeated_id_in_one_message_keeps_its_results_apart() -> None:
    twice = Message(
        role="tool",
        content=[
            ToolResultBlock(tool_use_id="a", content="1"),
            ToolResultBlock(tool_use_id="a", content="2"),
        ],
    )

    mended = repair([asks("a", "a"), twice])

    assert [call.id for call in mended[0].tool_calls] == ["a", "a_2"]
    assert [(each.tool_use_id, each.content) for each in mended[1].tool_results] == [
        ("a", "1"),
        ("a_2", "2"),
    ]


def test_a_history_that_cannot_be_sent_is_named() -> None:
    with pytest.raises(BrokenHistory, match="message 1: the call 'a' has no result"):
        validate([USER, asks("a")])


def test_half_characters_are_found_in_arguments_too() -> None:
    call = ToolUseBlock(id="a", name="t", input={"deep": ["\ud83d"]})

    mended = repair([Message(role="assistant", content=[call])])

    assert mended[0].tool_calls[0].input == {"deep": ["\ufffd"]}


IDS = st.sampled_from(["a", "b", "c", ""])
TEXTS = st.sampled_from(["x", "", " ", "\ud83d"]).map(lambda text: TextBlock(text=text))
CALLS = IDS.map(lambda each: ToolUseBlock(id=each, name="t"))
RESULTS = IDS.map(lambda each: ToolResultBlock(tool_use_id=each, content="ok"))
MESSAGES = st.one_of(
    st.builds(Message, role=st.just("assistant"), content=st.lists(TEXTS | CALLS, max_size=4)),
    st.builds(Message, role=st.just("user"), content=st.lists(TEXTS | RESULTS, max_size=4)),
    st.builds(Message, role=st.just("tool"), content=st.lists(RESULTS, max_size=4)),
)
HISTORIES = st.lists(MESSAGES, max_size=8)


def pairs(history: Messages) -> bool:
    """Whether each call is answered once and in place, and nothing else is answered."""
    waiting: list[str] = []
    for message in history:
        if waiting:
            firsts = message.content[: len(waiting)]
            if not all(isinstance(block, ToolResultBlock) for block in firsts):
                return False
        for block in message.content:
            if isinstance(block, ToolResultBlock):
                if block.tool_use_id not in waiting:
                    return False
                waiting.remove(block.tool_use_id)
        waiting += [call.id for call in message.tool_calls]
    return waiting == []


@given(HISTORIES)
def test_a_repaired_history_keeps_the_pairing_law(history: list[Message]) -> None:
    assert pairs(repair(history))


@given(HISTORIES)
def test_a_repaired_history_is_fit(history: list[Message]) -> None:
    repaired = repair(history)
    ids = [call.id for message in repaired for call in message.tool_calls]

    assert inspect(repaired) == []
    assert repair(repaired) == repaired
    assert len(ids) == len(set(ids))
    assert all(message.content for message in repaired)


@given(HISTORIES)
def test_repairing_changes_nothing_that_it_was_given(history: list[Message]) -> None:
    before = [message.model_copy(deep=True) for message in history]

    repair(history)

    assert history == before


@given(HISTORIES)
def test_a_history_has_issues_when_repairing_it_changes_it(history: list[Message]) -> None:
    assert (repair(history) == history) == (inspect(history) == [])


@given(HISTORIES, MESSAGES)
def test_what_a_user_said_is_never_dropped(history: list[Any], last: Message) -> None:
    def said(messages: list[Message]) -> list[str]:
        return [message.text for message in messages if message.text.strip() == "x"]

    assert said(repair([*history, last])) == said([*repair(history), *repair([last])])
