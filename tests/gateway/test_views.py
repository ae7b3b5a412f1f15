from collections.abc import Iterable
from typing import Any

import orjson
import pytest

from loops.gateway.chat_fold import fold_chat
from loops.gateway.message_fold import fold_message
from loops.gateway.plain_view import plain_body
from loops.gateway.rounds import Mode, Outcome, Round, RoundEnd, Surface
from loops.gateway.rows import Row
from loops.gateway.views import View, view_of
from tests.gateway.frames import (
    START,
    asking,
    block,
    call,
    chat_call,
    chatted,
    choice,
    chunk,
    event,
    says,
    streamed,
    thinks,
)

MESSAGES, CHAT = Surface.MESSAGES, Surface.CHAT
FINAL = RoundEnd(Outcome.FINAL)
CUT = RoundEnd(Outcome.CUT)

BREAKS: Row = ("error", '{"type":"error","error":{"type":"api_error","message":"gone"}}')


def again(*claimed: int) -> RoundEnd:
    return RoundEnd(Outcome.AGAIN, frozenset(claimed))


def closed(*claimed: int) -> RoundEnd:
    return RoundEnd(Outcome.CLOSED, frozenset(claimed))


Rounds = list[tuple[list[Row], RoundEnd]]


def shown(view: View, rounds: Rounds) -> list[Row]:
    return [
        row
        for rows, end in rounds
        for row in [*(told for each in rows for told in view.rows([each])), *view.end(end)]
    ]


def content(rows: list[Row]) -> list[tuple[str, Any]]:
    """Return what the blocks say, in short."""
    names = {"text": "text", "thinking": "thinking", "tool_use": "name"}
    blocks = fold_message(rows)["content"]
    return [(each["type"], each[names[each["type"]]]) for each in blocks]


def kinds(rows: Iterable[Row]) -> list[str]:
    return [name for name, _ in rows if name != "content_block_delta"]


TURNS = asking(says(0, "a"), call(1, "ours", q=1), thinks(2, "hm"), says(3, "b"))
ANSWER = streamed(says(0, "so", "!"))


@pytest.mark.parametrize("surface", list(Surface))
def test_in_the_compatible_mode_every_row_passes_as_it_comes(surface: Surface) -> None:
    view = view_of(surface, Mode.COMPATIBLE)

    assert [view.rows([row]) for row in TURNS] == [[row] for row in TURNS]
    assert (view.end(FINAL), view.has_shown) == ([], True)


@pytest.mark.parametrize("mode", list(Mode))
def test_a_lone_round_without_calls_is_told_word_for_word(mode: Mode) -> None:
    spoken = [*ANSWER[:1], event("ping"), event("weather"), *ANSWER[1:]]
    thanks = chatted("Hel", "lo", tokens=3)

    assert shown(view_of(MESSAGES, mode), [(spoken, FINAL)]) == spoken
    told = shown(view_of(CHAT, mode), [(thanks, FINAL)])
    assert fold_chat(told) == fold_chat(thanks)


def test_the_compatible_stream_has_a_message_for_each_round() -> None:
    rows = shown(view_of(MESSAGES, Mode.COMPATIBLE), [(TURNS, again(1)), (ANSWER, FINAL)])

    assert rows == [*TURNS, *ANSWER]


def test_a_call_that_was_taken_up_is_never_the_last_thing_shown() -> None:
    rows = shown(view_of(MESSAGES, Mode.COMPATIBLE), [(asking(call(0, "ours")), closed(0))])

    last = rows[-3:]
    assert kinds(last) == ["message_start", "message_delta", "message_stop"]
    start, delta, _ = (orjson.loads(data) for _, data in last)
    assert start["message"]["id"] not in {"", "msg_1"}
    assert (start["message"]["content"], start["message"]["model"]) == ([], "m")
    assert start["message"]["usage"] == {"input_tokens": 0, "output_tokens": 0}
    assert delta["delta"]["stop_reason"] == "end_turn"


@pytest.mark.parametrize(
    ("round_of", "end"),
    [
        (asking(call(0, "ours"), call(1, "theirs")), closed(0)),
        (streamed(says(0, "a")), closed()),
        (asking(call(0, "theirs")), FINAL),
    ],
    ids=["the client has a call to answer", "there is no call", "it is final"],
)
def test_nothing_is_appended_where_nothing_hangs(round_of: list[Row], end: RoundEnd) -> None:
    assert shown(view_of(MESSAGES, Mode.COMPATIBLE), [(round_of, end)]) == round_of


def test_merged_text_and_thinking_come_live_and_calls_wait() -> None:
    view = view_of(MESSAGES, Mode.MERGED)

    live = view.rows(TURNS)

    assert content(live) == [("text", "a"), ("thinking", "hm"), ("text", "b")]
    assert kinds(live).count("message_stop") == 0
    assert view.end(again(1)) == []


def test_merged_rounds_are_one_message() -> None:
    third = streamed(says(0, "end"), usage={"output_tokens": 5, "server": {"used": 2}})

    rows = shown(
        view_of(MESSAGES, Mode.MERGED),
        [(TURNS, again(1)), (asking(call(0, "ours", q=2)), again(0)), (third, FINAL)],
    )

    assert content(rows) == [("text", "a"), ("thinking", "hm"), ("text", "b"), ("text", "end")]
    names = kinds(rows)
    assert names[0] == "message_start"
    assert names[-2:] == ["message_delta", "message_stop"]
    assert names.count("message_start") == names.count("message_stop") == 1
    body = fold_message(rows)
    assert (body["id"], body["stop_reason"]) == ("msg_1", "end_turn")
    assert body["usage"]["output_tokens"] == 23
    assert (body["usage"]["input_tokens"], body["usage"]["server"]) == (21, {"used": 2})


@pytest.mark.parametrize("mode", [Mode.MERGED, Mode.HOLD])
def test_the_clients_own_call_is_carried_to_the_end(mode: Mode) -> None:
    mixed = asking(says(0, "a"), call(1, "theirs", q=1), call(2, "ours"))

    rows = shown(view_of(MESSAGES, mode), [(mixed, again(2)), (ANSWER, FINAL)])

    body = fold_message(rows)
    assert [each["type"] for each in body["content"]][-2:] == ["text", "tool_use"]
    assert body["content"][-1]["input"] == {"q": 1}
    assert body["stop_reason"] == "tool_use"


@pytest.mark.parametrize("mode", [Mode.MERGED, Mode.HOLD])
@pytest.mark.parametrize(("repeats", "count"), [({"b": 2, "a": 1}, 1), ({"a": 1}, 2)])
def test_a_call_that_is_made_again_is_shown_once(
    mode: Mode, repeats: dict[str, Any], count: int
) -> None:
    first = asking(call(0, "theirs", a=1, b=2), call(1, "ours"))
    last = asking(call(0, "theirs", key="new", **repeats))

    rows = shown(view_of(MESSAGES, mode), [(first, again(1)), (last, FINAL)])

    assert content(rows) == [("tool_use", "theirs")] * count
    assert fold_message(rows)["content"][0]["id"] == "new"


@pytest.mark.parametrize("mode", [Mode.MERGED, Mode.HOLD])
@pytest.mark.parametrize(
    ("others", "left", "reason"),
    [([], ["text"], "end_turn"), ([call(2, "theirs")], ["text", "tool_use"], "tool_use")],
)
def test_a_closed_round_has_no_call_that_was_taken_up(
    mode: Mode, others: list[list[Row]], left: list[str], reason: str
) -> None:
    rows = shown(
        view_of(MESSAGES, mode), [(asking(says(0, "a"), call(1, "ours"), *others), closed(1))]
    )

    body = fold_message(rows)
    assert [each["type"] for each in body["content"]] == left
    assert body["stop_reason"] == reason
    assert body["usage"] == {"input_tokens": 7, "output_tokens": 9, "service_tier": "standard"}


def test_what_is_held_is_shown_at_its_rounds_end() -> None:
    view = view_of(MESSAGES, Mode.HOLD)

    assert (view.rows(TURNS), view.end(again(1)), view.has_shown) == ([], [], False)
    assert view.rows(ANSWER) == []
    assert content(view.end(FINAL)) == [("text", "so!")]
    assert view.has_shown


def test_a_held_call_keeps_its_place_among_the_text() -> None:
    mixed = asking(call(0, "ours"), call(1, "theirs"), says(2, "a"))

    rows = shown(view_of(MESSAGES, Mode.HOLD), [(mixed, closed(0))])

    assert content(rows) == [("tool_use", "theirs"), ("text", "a")]


@pytest.mark.parametrize("mode", list(Mode))
def test_a_reply_that_breaks_off_ends_with_the_error(mode: Mode) -> None:
    broken = [*TURNS[:-2], BREAKS]
    said = [*chatted("a", calls=[chat_call(0, "ours")])[:-2], ("", '{"error":{"message":"x"}}')]

    rows = shown(view_of(MESSAGES, mode), [(TURNS, again(1)), (broken, CUT)])
    chunks = shown(view_of(CHAT, mode), [(said, CUT)])

    assert rows[-1] == BREAKS
    assert chunks[-1] == said[-1]
    if mode is Mode.HOLD:
        assert (len(rows), len(chunks)) == (1, 1)


def test_merged_chunks_are_one_completion() -> None:
    first = chatted("Let ", "me", calls=[chat_call(0, "ours")], tokens=3)
    last = chatted("so", name="c2", tokens=4)

    rows = shown(view_of(CHAT, Mode.MERGED), [(first, again(0)), (last, FINAL)])

    chunks = [orjson.loads(data) for _, data in rows[:-1]]
    assert {each["id"] for each in chunks} == {"c1"}
    deltas = [each["choices"][0] for each in chunks if each["choices"]]
    assert sum("role" in each["delta"] for each in deltas) == 1
    assert [each["finish_reason"] for each in deltas if each["finish_reason"]] == ["stop"]
    assert [data for _, data in rows].count("[DONE]") == 1
    body = fold_chat(rows)
    assert body["choices"][0]["message"] == {"role": "assistant", "content": "Let me\n\nso"}
    assert body["usage"] == {"prompt_tokens": 2, "completion_tokens": 7}


@pytest.mark.parametrize("mode", [Mode.MERGED, Mode.HOLD])
def test_calls_of_chunks_are_numbered_anew(mode: Mode) -> None:
    calls = [chat_call(0, "ours"), chat_call(1, "theirs"), chat_call(2, "others")]
    mixed = chatted(calls=calls[:2])

    rows = shown(view_of(CHAT, mode), [(mixed, again(0)), (chatted(calls=calls), closed(0))])

    body = fold_chat(rows)["choices"][0]
    names = [each["function"]["name"] for each in body["message"]["tool_calls"]]
    assert (names, body["finish_reason"]) == (["theirs", "others"], "tool_calls")
    assert '"index":1' in next(data for _, data in rows if "others" in data)


def test_a_closed_completion_has_no_call_left() -> None:
    said = chatted("a", calls=[chat_call(0, "ours")])

    for mode in (Mode.MERGED, Mode.HOLD):
        body = fold_chat(shown(view_of(CHAT, mode), [(said, closed(0))]))
        assert body["choices"][0]["message"] == {"role": "assistant", "content": "a"}
        assert body["choices"][0]["finish_reason"] == "stop"


def test_text_in_the_last_chunk_of_a_choice_is_not_lost() -> None:
    rows = [
        chunk(choice({"role": "assistant", "content": "a"}, finish_reason="length", odd=1)),
        chunk(choice({"content": "b"}, index=1, finish_reason="stop")),
    ]

    body = fold_chat(shown(view_of(CHAT, Mode.MERGED), [(rows, FINAL)]))

    first, second = body["choices"]
    assert (first["message"]["content"], first["finish_reason"], first["odd"]) == ("a", "length", 1)
    assert (second["message"]["content"], second["finish_reason"]) == ("b", "stop")


@pytest.mark.parametrize(
    ("mode", "rows", "can"),
    [
        (Mode.COMPATIBLE, 1, False),
        (Mode.COMPATIBLE, 0, True),
        (Mode.MERGED, 1, True),
        (Mode.MERGED, 2, False),
        (Mode.HOLD, 5, True),
    ],
)
def test_a_round_begins_anew_where_nothing_of_it_was_shown(
    mode: Mode, rows: int, can: bool
) -> None:
    view = view_of(MESSAGES, mode)
    before = shown(view, [(TURNS, again(1))])
    lost = view.rows(ANSWER[:rows])

    assert view.reset() is can
    if can:
        after = shown(view, [(ANSWER, FINAL)])
        assert content([*before, *lost, *after])[-1] == ("text", "so!")


@pytest.mark.parametrize(("rows", "can"), [(1, True), (2, False)])
def test_chunks_begin_anew_where_nothing_was_said(rows: int, can: bool) -> None:
    view, said = view_of(CHAT, Mode.MERGED), chatted("so", tokens=3)
    lost = view.rows(said[:rows])

    assert view.reset() is can
    if can:
        body = fold_chat([*lost, *shown(view, [(said, FINAL)])])
        assert body["choices"][0]["message"]["content"] == "so"
        assert body["usage"]["completion_tokens"] == 3


def test_half_a_character_is_passed_on_in_another_rounds_chunks() -> None:
    """Some services cut a character in two, which not every writer of JSON can say again."""
    first = chatted("a", calls=[chat_call(0, "ours")])
    halves = chatted("HIGH", "LOW", name="c2")
    last = [
        (name, data.replace("HIGH", "\\ud83d").replace("LOW", "\\ude00")) for name, data in halves
    ]

    rows = shown(view_of(CHAT, Mode.MERGED), [(first, again(0)), (last, FINAL)])

    assert fold_chat(rows)["choices"][0]["message"]["content"] == "a\n\n\U0001f600"


def test_an_answer_that_was_given_costs_what_it_says() -> None:
    given = RoundEnd(Outcome.GIVEN)
    for mode in (Mode.MERGED, Mode.HOLD):
        rows = shown(view_of(MESSAGES, mode), [(asking(call(0, "x")), again()), (ANSWER, given)])
        assert fold_message(rows)["usage"]["output_tokens"] == 9
        assert content(rows) == [("text", "so!")]


@pytest.mark.parametrize("mode", list(Mode))
def test_the_plain_body_of_a_lone_round_is_untouched(mode: Mode) -> None:
    body = {**fold_message(TURNS), "odd": {"a": None}}

    assert plain_body(MESSAGES, [Round(body, FINAL)], mode) is body


@pytest.mark.parametrize("mode", [Mode.COMPATIBLE, Mode.HOLD])
def test_the_plain_body_is_the_last_one_with_the_cost_of_all(mode: Mode) -> None:
    rounds = [Round(fold_message(TURNS), again(1)), Round(fold_message(ANSWER), FINAL)]

    body = plain_body(MESSAGES, rounds, mode)

    assert body["content"] == [{"type": "text", "text": "so!"}]
    assert body["usage"] == {"input_tokens": 14, "output_tokens": 18, "service_tier": "standard"}


def test_the_merged_plain_body_has_the_text_of_all_rounds() -> None:
    second = fold_message(streamed(says(0, "so")))
    rounds = [Round(fold_message(TURNS), again(1)), Round({**second, "id": "msg_2"}, FINAL)]

    body = plain_body(MESSAGES, rounds, Mode.MERGED)

    assert [each["type"] for each in body["content"]] == ["text", "thinking", "text", "text"]
    assert body["id"] == START["id"]


def test_broken_arguments_of_the_clients_call_stay_as_they_were_written() -> None:
    started = {"type": "tool_use", "id": "t", "name": "theirs", "input": {}}
    half = block(0, started, {"type": "input_json_delta", "partial_json": '{"a'})

    rows = shown(view_of(MESSAGES, Mode.MERGED), [(asking(half), FINAL)])

    assert rows == asking(half)
