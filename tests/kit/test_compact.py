import asyncio
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.blocks import Raw
from loops.errors import RunLeft
from loops.history import inspect
from loops.kit.compact import (
    CONTINUED,
    DROPPED,
    SMALL,
    STILL_KNOWN,
    Summary,
    compact,
    is_smaller,
    summarise,
    told,
)
from loops.kit.estimate import tokens_of
from loops.kit.ledger import HEADING, ledger
from loops.kit.marker import head_length, head_of
from loops.kit.provider import Provider
from loops.kit.stubs import OLD_RESULT
from loops.kit.summing import ASK, LEFT_OUT, SYSTEM
from loops.kit.turn import Turn
from loops.tasks import Owner
from loops.testing import wait_until
from tests.kit.histories import HISTORIES, answers, asks, call, says, user
from tests.kit.providers import ScriptedProvider

WORDS = "word " * 400
"""500 tokens."""
REPLY = "<analysis>first they, then we</analysis>\n<summary>\nThey want tea.\n</summary>"
TALK = [user(f"1 {WORDS}"), says(f"2 {WORDS}"), user(f"3 {WORDS}"), says("4"), user("5")]
"""Of which the last message is kept, where that is enough."""


def asked_in(provider: ScriptedProvider) -> Any:
    """The content of the one request's last message."""
    [asked] = provider.asked
    return asked["messages"][-1]["content"]


async def test_the_old_part_becomes_a_summary_and_the_rest_stays() -> None:
    provider = ScriptedProvider([REPLY])

    compacted = await compact(provider, TALK, 5, 1_234)

    assert compacted == [*head_of(f"{CONTINUED}\n\nThey want tea."), *TALK[4:]]
    assert compacted[2] is TALK[4]
    assert is_smaller(compacted, TALK)
    assert [each["role"] for each in compacted] == ["user", "assistant", "user"]


async def test_without_a_request_the_model_is_asked_with_no_tools() -> None:
    provider: ScriptedProvider = ScriptedProvider([REPLY])
    conforming: Provider = provider

    await compact(conforming, TALK, 5, 1_234)

    [asked] = provider.asked
    assert asked["messages"] == [*TALK[:4], user(ASK)]
    assert (asked["system"], asked["tools"], asked["max_tokens"]) == (SYSTEM, [], 1_234)


async def test_the_model_is_asked_with_all_that_the_loop_asks_with() -> None:
    request = {
        "system": "You brew.",
        "tools": [{"name": "kettle"}],
        "mcp_servers": [{"url": "x"}],
        "thinking": "low",
        "extra_body": {"k": 1},
        "session": "chat",
    }
    provider = ScriptedProvider([REPLY])

    await compact(provider, TALK, 5, 1_234, {**request, "max_tokens": 1, "messages": []})

    [asked] = provider.asked
    assert {key: asked[key] for key in request} == request
    assert asked["max_tokens"] == 1_234
    assert asked["messages"][:-1] == TALK[:4]


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (REPLY, "They want tea."),
        ("They want tea.", "They want tea."),
        ("<analysis>so</analysis>They want tea.", "They want tea."),
        ("<summary>They want <b>tea</b>", "They want <b>tea</b>"),
        ("<analysis>so</analysis><summary>They want", "They want"),
        ("<analysis>they want te", "they want te"),
        ("<analysis>a <summary> b</analysis><summary>tea</summary> more", "tea"),
        ([{"type": "text", "text": "<summary>tea</summary>"}, call("a")], "tea"),
        ([{"type": "thinking", "thinking": "?"}, {"type": "text", "text": "tea"}], "tea"),
        (Turn([{"type": "text", "text": "<summary>tea"}], "max_tokens"), "tea"),
    ],
)
async def test_the_summary_is_found_in_the_reply(reply: Any, text: str) -> None:
    summary = await summarise(ScriptedProvider([reply]), TALK, max_tokens=9)

    assert (summary.text, summary.failure) == (text, None)
    assert summary.turn is not None


@pytest.mark.parametrize(
    ("reply", "failure"),
    [
        ("", "Incomplete: the model gave no text"),
        (" \n", "Incomplete: the model gave no text"),
        ("<analysis>so</analysis>", "Incomplete: the model gave no text"),
        ("<summary> </summary>", "Incomplete: the model gave no text"),
        ([call("a")], "Incomplete: the model called tools"),
        ([{"type": "text", "text": "Let me look."}, call("a")], "Incomplete: the model called"),
        (Turn([{"type": "text", "text": "No."}], "refusal"), "Refused: the model declined"),
        (ValueError("boom"), "ValueError: boom"),
        (TimeoutError("of the line"), "TimeoutError: of the line"),
    ],
)
async def test_without_a_summary_the_old_part_is_dropped(
    reply: Any, failure: str, caplog: pytest.LogCaptureFixture
) -> None:
    provider = ScriptedProvider([reply, reply])

    summary = await summarise(provider, TALK[:4], max_tokens=9)
    compacted = await compact(provider, TALK, 5, 9)

    assert summary.text is None
    assert (summary.failure or "").startswith(failure)
    assert (summary.turn is None) == isinstance(reply, Exception)
    assert compacted == [*head_of(f"{CONTINUED}\n\n{DROPPED}"), *TALK[4:]]
    assert is_smaller(compacted, TALK)
    assert failure in caplog.text


class Endless(ScriptedProvider):
    """Says a word, and then nothing more."""

    is_closed = False

    async def stream(self, **keywords: Any) -> Any:
        try:
            yield "well"
            self.asked.append(keywords)
            await asyncio.Event().wait()
        finally:
            self.is_closed = True


async def test_a_model_that_takes_too_long_is_left() -> None:
    provider = Endless([])

    summary = await summarise(provider, TALK, max_tokens=9, limit=timedelta(milliseconds=20))

    assert summary == Summary(None, "Timeout: it took longer than 0:00:00.020000", None)
    assert provider.is_closed


async def test_a_cancelled_summary_is_cancelled() -> None:
    owner, provider = Owner(), Endless([])
    task = owner.start(compact(provider, TALK, 5, 9), name="compact")
    await wait_until(lambda: provider.asked != [], for_="the model to be asked")

    await owner.close()

    assert task.cancelled()
    assert provider.is_closed


async def test_a_run_that_is_owned_no_more_is_left() -> None:
    def leave(_: dict[str, Any]) -> str:
        raise RunLeft

    with pytest.raises(RunLeft):
        await compact(ScriptedProvider([leave]), TALK, 5, 9)


class Restarted(ScriptedProvider):
    """Begins its text twice, as after a line that broke, and fails when all is said."""

    async def stream(self, **keywords: Any) -> Any:
        yield "<summary>They wa"
        yield "<summary>They want tea."
        yield Turn([{"type": "text", "text": "<summary>They want tea."}], "end_turn", input=7)
        if self.model == "failing":
            raise ConnectionError("too late")


async def test_the_turn_says_what_the_text_is_and_what_it_cost() -> None:
    summary = await summarise(Restarted([]), TALK, max_tokens=9)
    failed = await summarise(Restarted([], "failing"), TALK, max_tokens=9)

    assert summary.text == "They want tea."
    assert failed.failure == "ConnectionError: too late"
    assert failed.turn is not None
    assert failed.turn.input == 7


async def test_a_stream_without_a_turn_is_read_by_its_text() -> None:
    class Turnless(ScriptedProvider):
        async def stream(self, **keywords: Any) -> Any:
            yield {"type": "thinking", "thinking": "hm"}
            yield "<summary>They "
            yield "want tea.</summary>"

    assert await summarise(Turnless([]), TALK, max_tokens=9) == Summary("They want tea.")


@pytest.mark.parametrize(
    "history",
    [
        [],
        [user(WORDS * 20)],
        [user("1"), says("2"), user(WORDS * 20)],
        [user("1"), asks("a"), answers("a", content=WORDS * 20)],
    ],
)
async def test_where_nothing_would_be_gained_no_model_is_asked(history: list[Raw]) -> None:
    provider = ScriptedProvider([])

    compacted = await compact(provider, history, 100, 9)

    assert compacted == history
    assert not is_smaller(compacted, history)
    assert provider.asked == []


async def test_a_summary_longer_than_what_it_sums_up_is_no_gain() -> None:
    history = [user(WORDS), says(WORDS), user(WORDS * 4)]

    assert await compact(ScriptedProvider([WORDS * 3]), history, 5, 9) == history


async def test_a_short_history_gets_fewer_messages() -> None:
    short = [user("1"), says("2"), user("3"), says("4"), user("5")]

    compacted = await compact(ScriptedProvider([REPLY]), short, 1, 9)

    assert compacted[2:] == [user("5")]
    assert is_smaller(compacted, short)


async def test_a_summary_is_summed_up_with_what_came_after_it() -> None:
    first = told(Summary("They want tea."), [asks("a", name="read", path="tea.md")])
    history = [*head_of(first), *TALK[:2], asks("b", name="edit", path="cup.md"), answers("b")]
    provider = ScriptedProvider(["They want milk."])

    compacted = await compact(provider, [*history, *TALK[2:]], 5, 9)

    files = "Files touched so far: tea.md, cup.md"
    assert compacted == [*head_of(f"{CONTINUED}\n\nThey want milk.\n\n{files}"), TALK[4]]
    assert provider.asked[0]["messages"][0] == user(first)


async def test_an_earlier_summary_outlives_newer_ones_that_fail() -> None:
    history = [*head_of(f"{CONTINUED}\n\nThey want tea.\n\n{HEADING}tea.md"), *TALK]
    provider = ScriptedProvider([ValueError("boom"), ValueError("again")])

    once = await compact(provider, history, 5, 9)
    twice = await compact(provider, [*once, *TALK], 5, 9)

    known = f"{STILL_KNOWN}\n\nThey want tea.\n\n{HEADING}tea.md"
    assert once == [*head_of(f"{CONTINUED}\n\n{DROPPED}\n\n{known}"), TALK[4]]
    assert twice == once


async def test_a_summary_alone_is_not_summed_up() -> None:
    history = [*head_of(WORDS * 5), user(WORDS * 9)]

    assert await compact(ScriptedProvider([]), history, 1, 9) == history


async def test_the_question_joins_results_at_the_end_of_the_old_part() -> None:
    provider = ScriptedProvider([REPLY])
    history = [user(WORDS * 6), asks("a"), answers("a", content=WORDS), asks("b"), answers("b")]

    compacted = await compact(provider, history, 1, 9)

    assert asked_in(provider) == [
        *answers("a", content=WORDS)["content"],
        {"type": "text", "text": ASK},
    ]
    assert compacted[2:] == history[3:]


async def test_a_history_that_begins_with_a_reply_is_asked_about_from_a_user() -> None:
    provider = ScriptedProvider([REPLY])

    await summarise(provider, [says("1"), user("2")], max_tokens=9)

    [asked] = provider.asked
    assert asked["messages"][:2] == [user(LEFT_OUT), says("1")]
    assert asked_in(provider) == [{"type": "text", "text": "2"}, {"type": "text", "text": ASK}]


async def test_a_broken_history_is_mended_for_the_summary() -> None:
    provider = ScriptedProvider([REPLY])

    await summarise(provider, [user("1"), asks("a"), says("2")], max_tokens=9)

    assert inspect(provider.asked[0]["messages"]) == []


async def test_a_history_that_cannot_be_read_at_all_is_a_failure() -> None:
    provider = ScriptedProvider([])

    summary = await summarise(provider, [{"role": "judge", "content": "1"}], max_tokens=9)

    assert summary.text is None
    assert (summary.failure or "").startswith("ValidationError")


ROUNDS = [
    message
    for number in range(10)
    for message in (asks(f"c{number}"), answers(f"c{number}", content=WORDS))
]


async def test_an_old_part_that_is_too_long_for_the_window_is_shown_in_stubs() -> None:
    provider = ScriptedProvider([REPLY])

    await summarise(provider, [user("1"), *ROUNDS], max_tokens=100, window=3_000)

    [asked] = provider.asked
    assert asked["messages"][:2] == [user("1"), asks("c0")]
    assert asked["messages"][2] == answers("c0", content=OLD_RESULT)
    assert tokens_of(asked["messages"]) <= 2_900


@pytest.mark.parametrize("head", [[], head_of("so far")])
async def test_what_is_too_long_even_so_loses_its_beginning_but_not_its_summary(
    head: list[Raw],
) -> None:
    provider = ScriptedProvider([REPLY])
    talk = [each for number in range(9) for each in (user(WORDS), says(f"{number} {WORDS}"))]

    summary = await summarise(provider, [*head, *talk], max_tokens=100, window=3_000)

    [asked] = provider.asked
    kept = len(asked["messages"]) - 1 - len(head)
    assert [each["content"] for each in asked["messages"][: len(head)]] == [
        each["content"] for each in head
    ]
    assert 2 <= kept <= 4
    assert asked["messages"][-2] == talk[-1]
    assert tokens_of(asked["messages"]) <= 2_900
    assert summary.text == "They want tea."


async def test_a_message_that_fits_no_window_is_not_sent() -> None:
    summary = await summarise(
        ScriptedProvider([]), [user(WORDS * 20)], max_tokens=100, window=2_000
    )

    assert summary.failure == "ContextTooLong: not even its last part can be shown whole"


@given(HISTORIES, st.integers(0, 600), st.none() | st.integers(900, 2_000))
async def test_whatever_the_history_the_request_and_the_outcome_are_fit(
    history: list[Raw], keep: int, window: int | None
) -> None:
    provider = ScriptedProvider([REPLY])

    compacted = await compact(provider, history, keep, 50, window=window)

    assert inspect(compacted) == []
    assert compacted == history or head_length(compacted) == 2
    assert compacted == history or tokens_of(history) < SMALL or is_smaller(compacted, history)
    for asked in provider.asked:
        assert inspect(asked["messages"]) == []
        assert {asked["messages"][0]["role"], asked["messages"][-1]["role"]} == {"user"}
        assert window is None or tokens_of(asked["messages"]) <= window - 50


def files(*paths: str) -> list[Raw]:
    return [asks(f"c{number}", name="read", path=path) for number, path in enumerate(paths)]


@pytest.mark.parametrize(
    ("paths", "before", "line"),
    [
        ([], "", ""),
        ([], "no such line", ""),
        (["a", "b", "a"], "", "a, b"),
        (["b", "c"], f"so far\n\n{HEADING}a, b\nand so on", "a, b, c"),
        (["a, b.md", 'say "hi"', "and 3 more"], "", r'"a, b.md", "say \"hi\"", "and 3 more"'),
        ([], f'{HEADING}"a, b.md", c', '"a, b.md", c'),
        ([], f"{HEADING}a, , b,", "a, b"),
        ([], f'{HEADING}"broken \\x", b', '"\\"broken \\\\x\\"", b'),
        (["b"], f"{HEADING}a, and 7 more", "a, b, and 7 more"),
        (["", " "], "", ""),
    ],
)
def test_the_files_are_told_in_the_order_in_which_they_were_seen(
    paths: list[str], before: str, line: str
) -> None:
    assert ledger(files(*paths), before) == (HEADING + line if line else "")


def test_only_tools_that_read_or_change_files_are_asked_for_their_paths() -> None:
    calls = [
        asks("a", name="edit", path="a.py"),
        asks("b", name="bash", path="b.py"),
        asks("c", name="read", path=["c.py"]),
        asks("d", name="read"),
        user("Files touched so far: e.py"),
    ]

    assert ledger(calls) == f"{HEADING}a.py"


def test_of_very_many_files_only_the_number_is_told() -> None:
    line = ledger(files(*(f"{number}.py" for number in range(130))))
    longer = ledger(files("new.py"), line)

    assert line.endswith("99.py, and 30 more")
    assert longer.endswith("99.py, and 31 more")
    assert ledger(files("0.py"), line) == line


@given(st.lists(st.text(min_size=1, max_size=6), max_size=8))
def test_whatever_the_paths_the_line_is_read_again(paths: list[str]) -> None:
    line = ledger(files(*paths))

    assert ledger([], f"before\n{line}\nafter") == line
    assert "\n" not in line
