"""The law of views: a stream, folded, is the plain body of the same rounds and mode."""

from collections.abc import Sequence
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from loops.gateway.bodies import calls_in
from loops.gateway.folds import folded
from loops.gateway.plain_view import plain_body
from loops.gateway.rounds import Mode, Outcome, Round, RoundEnd, Surface
from loops.gateway.rows import Row
from loops.gateway.views import view_of
from tests.gateway.frames import call, chat_call, chatted, event, says, streamed, thinks

Told = tuple[list[Row], RoundEnd]

ONE_MESSAGE = st.sampled_from([Mode.MERGED, Mode.HOLD])

names = st.sampled_from(["ours", "theirs", "others"])
pieces = st.lists(st.sampled_from(["a", "é", "\U0001f600", ""]), max_size=4)
blocks = st.one_of(
    st.builds(lambda said: lambda at: says(at, *said), pieces),
    st.builds(lambda said: lambda at: thinks(at, said), st.sampled_from(["hm", ""])),
    st.builds(
        lambda name, key, q: lambda at: call(at, name, key=key, q=q),
        *(names, st.sampled_from(["x", "y"]), st.integers(0, 1)),
    ),
)


def message_rows(made: Sequence[Any], cost: int) -> list[Row]:
    told = [make(at) for at, make in enumerate(made)]
    asks = any('"tool_use"' in data for rows in told for _, data in rows)
    reason = "tool_use" if asks else "end_turn"
    delta = {"stop_reason": reason, "stop_sequence": None}
    rows = streamed(*told, delta=delta, usage={"output_tokens": cost, "deep": {"n": cost}})
    return [rows[0], event("ping"), *rows[1:]]


def chat_rows(said: list[str], called: list[tuple[str, int]], cost: int) -> list[Row]:
    calls = [
        {**chat_call(at, name, f'{{"q": {q}}}'), "id": f"c{at}"}
        for at, (name, q) in enumerate(called)
    ]
    return chatted(*said, calls=calls, tokens=cost)


costs = st.integers(1, 9)
messages = st.builds(message_rows, st.lists(blocks, max_size=4), costs)
chats = st.builds(
    chat_rows, pieces, st.lists(st.tuples(names, st.integers(0, 1)), max_size=3), costs
)


def with_ends(surface: Surface, replies: list[list[Row]], outcome: Outcome) -> list[Told]:
    """Let every call of the name `ours` be taken up, and the last round end as is said."""
    told: list[Told] = []
    for at, rows in enumerate(replies, 1):
        calls = calls_in(surface, folded(surface, rows))
        claimed = frozenset(each.place for each in calls if each.name == "ours")
        end = RoundEnd(outcome if at == len(replies) else Outcome.AGAIN, claimed)
        told.append((rows, RoundEnd(Outcome.FINAL) if end.outcome is Outcome.FINAL else end))
    return told


def seen(surface: Surface, mode: Mode, rounds: list[Told], size: int) -> list[Row]:
    view = view_of(surface, mode)
    rows: list[Row] = []
    for told, end in rounds:
        for at in range(0, len(told), size):
            rows += view.rows(told[at : at + size])
        rows += view.end(end)
    return rows


def plain(surface: Surface, mode: Mode, rounds: list[Told]) -> Any:
    bodies = [Round(folded(surface, rows), end) for rows, end in rounds]
    return plain_body(surface, bodies, mode)


endings = st.sampled_from([Outcome.FINAL, Outcome.CLOSED])
sizes = st.integers(1, 7)


@settings(max_examples=40, deadline=None)
@given(st.lists(messages, min_size=1, max_size=3), endings, ONE_MESSAGE, sizes)
def test_a_folded_stream_of_messages_is_the_plain_body(
    replies: list[list[Row]], outcome: Outcome, mode: Mode, size: int
) -> None:
    rounds = with_ends(Surface.MESSAGES, replies, outcome)

    stream = folded(Surface.MESSAGES, seen(Surface.MESSAGES, mode, rounds, size))
    body = plain(Surface.MESSAGES, mode, rounds)

    if mode is Mode.MERGED and len(rounds) == 1:
        # The body of a lone round is untouched; its stream tells the calls last.
        body["content"] = sorted(body["content"], key=lambda each: each["type"] == "tool_use")
    assert stream == body


@settings(max_examples=40, deadline=None)
@given(st.lists(messages, min_size=1, max_size=3), endings, ONE_MESSAGE, sizes)
def test_a_stream_of_messages_is_one_valid_message(
    replies: list[list[Row]], outcome: Outcome, mode: Mode, size: int
) -> None:
    rounds = with_ends(Surface.MESSAGES, replies, outcome)

    rows = seen(Surface.MESSAGES, mode, rounds, size)

    checked = Checker()
    for row in rows:
        checked.feed(row)
    assert checked.is_over
    if outcome is Outcome.CLOSED:
        assert '"ours"' not in "".join(data for _, data in rows)


@settings(max_examples=40, deadline=None)
@given(st.lists(messages, min_size=1, max_size=3), endings, ONE_MESSAGE)
def test_no_call_of_the_client_is_lost_and_none_of_ours_is_carried(
    replies: list[list[Row]], outcome: Outcome, mode: Mode
) -> None:
    rounds = with_ends(Surface.MESSAGES, replies, outcome)
    made = [calls_in(Surface.MESSAGES, folded(Surface.MESSAGES, rows)) for rows, _ in rounds]

    body = folded(Surface.MESSAGES, seen(Surface.MESSAGES, mode, rounds, 1))

    wanted = {each.fingerprint for calls in made for each in calls if each.name != "ours"}
    shown = {each.fingerprint for each in calls_in(Surface.MESSAGES, body) if each.name != "ours"}
    assert shown == wanted
    assert not shown or body["stop_reason"] == "tool_use"


@settings(max_examples=40, deadline=None)
@given(st.lists(chats, min_size=1, max_size=3), endings, ONE_MESSAGE, sizes)
def test_a_folded_stream_of_chunks_is_the_plain_body(
    replies: list[list[Row]], outcome: Outcome, mode: Mode, size: int
) -> None:
    rounds = with_ends(Surface.CHAT, replies, outcome)

    rows = seen(Surface.CHAT, mode, rounds, size)
    stream, body = folded(Surface.CHAT, rows), plain(Surface.CHAT, mode, rounds)

    assert said_by(stream) == said_by(body)
    assert stream["usage"] == body["usage"]
    assert stream["id"] == body["id"]


@settings(max_examples=40, deadline=None)
@given(st.lists(chats, min_size=1, max_size=3), endings, ONE_MESSAGE)
def test_a_stream_of_chunks_is_one_valid_completion(
    replies: list[list[Row]], outcome: Outcome, mode: Mode
) -> None:
    rounds = with_ends(Surface.CHAT, replies, outcome)

    rows = seen(Surface.CHAT, mode, rounds, 1)

    assert [data for _, data in rows].index("[DONE]") == len(rows) - 1
    chunks = [orjson.loads(data) for _, data in rows[:-1]]
    choices = [each["choices"][0] for each in chunks if each["choices"]]
    assert sum("role" in each["delta"] for each in choices) == 1
    assert [bool(each["finish_reason"]) for each in choices] == [False] * (len(choices) - 1) + [
        True
    ]
    assert [bool(each.get("usage")) for each in chunks] == [False] * (len(chunks) - 1) + [True]
    assert len({(each["id"], each["created"], each["model"]) for each in chunks}) == 1
    indexes = [told["index"] for each in choices for told in each["delta"].get("tool_calls", [])]
    assert sorted(set(indexes)) == list(range(len(set(indexes))))


def said_by(body: Any) -> Any:
    [choice] = body["choices"]
    message = choice["message"]
    # A server may say nothing as an empty text or as none.
    return message["content"] or "", message.get("tool_calls"), choice["finish_reason"]


FITS = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "tool_use"}


class Checker:
    """As strict as the strictest client: events in their order, one block at a time."""

    def __init__(self) -> None:
        self.has_begun = self.is_over = self.has_changed = False
        self.open: str | None = None
        self.count = 0

    def feed(self, row: Row) -> None:
        told = orjson.loads(row[1])
        assert told["type"] == row[0]
        assert not self.is_over, "nothing comes behind the end"
        match row[0]:
            case "message_start":
                assert not self.has_begun
                self.has_begun = True
            case "content_block_start":
                assert self.has_begun
                assert (self.open, told["index"]) == (None, self.count)
                self.open = told["content_block"]["type"]
            case "content_block_delta":
                assert told["index"] == self.count
                assert FITS[told["delta"]["type"]] == self.open
            case "content_block_stop":
                assert (self.open is not None, told["index"]) == (True, self.count)
                self.open, self.count = None, self.count + 1
            case "message_delta":
                assert (self.open, self.has_changed) == (None, False)
                self.has_changed = True
            case "message_stop":
                assert self.has_changed
                self.is_over = True
            case kind:
                assert kind == "ping"
