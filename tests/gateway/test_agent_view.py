from typing import Any

import pytest

from loops.events import AgentEvent, RunCompleted, ToolCallResult
from loops.gateway.agent_view import AgentRounds
from loops.gateway.folds import folded
from loops.gateway.rounds import Mode, Outcome, RoundEnd, Surface
from loops.gateway.rows import BODY, Row
from loops.gateway.views import view_of
from loops.messages import Usage
from loops.reply import StreamEnd, StreamStart, TextDelta, TextEnd, TextStart, ToolEnd, ToolStart

SURFACES = list(Surface)


def rounds_of(surface: Surface, *, streams: bool = True) -> AgentRounds:
    return AgentRounds(surface, streams=streams, id="x_1", model="agent/a", created=5)


def turn(number: int, said: str, *, calls: int = 0, tokens: int = 2) -> list[AgentEvent]:
    events: list[AgentEvent] = [
        StreamStart(turn=number),
        TextStart(0, turn=number),
        TextDelta(0, said, turn=number),
        TextEnd(0, turn=number),
    ]
    for block in range(1, calls + 1):
        events.append(ToolStart(block, f"t{block}", "f", turn=number))
        events.append(ToolEnd(block, f"t{block}", "f", "{}", turn=number))
    usage = Usage(input_tokens=1, output_tokens=tokens)
    return [*events, StreamEnd(usage=usage, turn=number)]


def split(told: list[Row | RoundEnd]) -> list[tuple[list[Row], RoundEnd]]:
    rounds: list[tuple[list[Row], RoundEnd]] = []
    rows: list[Row] = []
    for each in told:
        if isinstance(each, RoundEnd):
            rounds.append((rows, each))
            rows = []
        else:
            rows.append(each)
    assert rows == []
    return rounds


def fed(agent: AgentRounds, *events: AgentEvent) -> list[tuple[list[Row], RoundEnd]]:
    told = [each for event in events for each in agent.feed(event)]
    return split([*told, *agent.close()])


def said(surface: Surface, rows: list[Row]) -> str:
    body: dict[str, Any] = folded(surface, rows)
    if surface is Surface.CHAT:
        return body["choices"][0]["message"]["content"] or ""
    return "".join(block.get("text", "") for block in body["content"])


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("streams", [True, False])
def test_each_turn_is_a_round(surface: Surface, *, streams: bool) -> None:
    answered = ToolCallResult("k", "t1", "f", "ok", turn=1)

    first, last = fed(
        rounds_of(surface, streams=streams),
        *turn(1, "let me", calls=2),
        answered,
        *turn(2, "so"),
    )

    claimed = {1, 2} if surface is Surface.MESSAGES else {0, 1}
    assert first[1] == RoundEnd(Outcome.AGAIN, frozenset(claimed))
    assert last[1] == RoundEnd(Outcome.FINAL)
    assert [said(surface, rows) for rows, _ in (first, last)] == ["let me", "so"]
    assert [name == BODY for name, _ in first[0]].count(True) == (0 if streams else 1)


def test_text_comes_live() -> None:
    agent = rounds_of(Surface.MESSAGES)

    told = [len(agent.feed(event)) for event in turn(1, "a")]

    assert told == [1, 1, 1, 1, 2]


def test_the_end_of_the_run_is_the_end_of_the_last_round() -> None:
    agent = rounds_of(Surface.CHAT)
    for event in turn(1, "a"):
        agent.feed(event)

    assert agent.feed(RunCompleted()) == [RoundEnd(Outcome.FINAL)]
    assert agent.close() == []


def test_a_run_that_ends_with_calls_is_closed() -> None:
    [(_, end)] = fed(rounds_of(Surface.MESSAGES), *turn(1, "a", calls=1))

    assert end == RoundEnd(Outcome.CLOSED, frozenset({1}))


@pytest.mark.parametrize("surface", SURFACES)
def test_text_of_no_turn_is_a_round_of_its_own(surface: Surface) -> None:
    rounds = fed(
        rounds_of(surface),
        TextDelta(0, "be"),
        TextDelta(0, "fore"),
        *turn(1, "in"),
        TextDelta(0, "behind"),
    )

    assert [said(surface, rows) for rows, _ in rounds] == ["before", "in", "behind"]
    outcomes = [end.outcome for _, end in rounds]
    assert outcomes == [Outcome.AGAIN, Outcome.AGAIN, Outcome.FINAL]


@pytest.mark.parametrize("surface", SURFACES)
def test_turns_side_by_side_are_told_one_after_the_other(surface: Surface) -> None:
    one, other = turn(1, "one", calls=1), turn(2, "two")
    mixed = [event for pair in zip(one, [*other, *other[:1]], strict=False) for event in pair]

    rounds = fed(rounds_of(surface), *mixed[:9], *one[5:], TextDelta(0, "text"))

    assert [said(surface, rows) for rows, _ in rounds] == ["one", "two", "text"]
    assert rounds[-1][1].outcome is Outcome.FINAL


@pytest.mark.parametrize("surface", SURFACES)
def test_a_run_that_says_nothing_has_an_empty_answer(surface: Surface) -> None:
    [(rows, end)] = fed(rounds_of(surface, streams=False))

    assert (said(surface, rows), end.outcome) == ("", Outcome.FINAL)


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("mode", [Mode.MERGED, Mode.HOLD])
def test_a_caller_gets_the_agents_answer_as_one(surface: Surface, mode: Mode) -> None:
    before = "let me" if surface is Surface.MESSAGES else "let me\n\n"
    wanted = f"{before}so" if mode is Mode.MERGED else "so"
    view = view_of(surface, mode)
    rounds = fed(rounds_of(surface), *turn(1, "let me", calls=1), *turn(2, "so", tokens=5))

    rows = [row for told, end in rounds for row in [*view.rows(told), *view.end(end)]]

    body = folded(surface, rows)
    name = "output_tokens" if surface is Surface.MESSAGES else "completion_tokens"
    assert (said(surface, rows), body["usage"][name]) == (wanted, 7)
    assert calls_left(surface, body) == 0


def calls_left(surface: Surface, body: Any) -> int:
    if surface is Surface.CHAT:
        return len(body["choices"][0]["message"].get("tool_calls", []))
    return sum(block["type"] == "tool_use" for block in body["content"])
