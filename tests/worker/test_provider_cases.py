"""What goes wrong at providers in public, as durable runs see it: texts, costs, histories."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest

import loops as ai
from loops.errors import Refused
from loops.fold import UNPARSED
from tests.loops.providers import anthropic_wires as a
from tests.loops.providers import openai_wires as o
from tests.loops.providers.asking import model_at
from tests.loops.providers.openai_wires import call
from tests.loops.providers.service import Answer, serving
from tests.worker.driving import Ended, milling
from tests.worker.test_provider_failures import text_that_counts
from worker.link import Link
from worker.run_record import RunStatus

USER = {"role": "user", "content": "go"}


def says(*texts: str) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "text", "text": each} for each in texts]}


DECLINED: Mapping[str, Answer] = {
    "anthropic": Answer([a.reply(a.said(0, "I could"), stop_reason="refusal")]),
    "openai": Answer([o.reply(o.said("I could"), reason="content_filter")]),
}


@pytest.mark.parametrize("vendor", DECLINED)
async def test_what_was_said_before_a_refusal_is_shown_and_not_remembered(
    link: Link, vendor: str
) -> None:
    async with serving(DECLINED[vendor]) as service:
        agents = {"agent": ai.Agent(model=model_at(service, vendor))}
        async with milling(link, agents) as mill:
            ended = await mill.through()
            again = await mill.through(session_id=ended.run.session_id)

    assert ended.run.error is not None
    assert (ended.run.status, ended.run.error.code) == (RunStatus.FAILED, "refused")
    assert text_that_counts(ended) == "I could"
    assert again.history == [USER, USER]
    assert "I could" not in str(service.asked[1].body)
    assert len(service.asked) == 2


async def test_nor_is_it_when_the_loop_fails_of_something_else_after_it(link: Link) -> None:
    async with serving(DECLINED["anthropic"]) as service:
        model = model_at(service, "anthropic")

        async def loop(context: ai.Context) -> AsyncIterator[object]:
            context.model = model
            try:
                async for event in ai.default_loop(context):
                    yield event
            except Refused as error:
                raise LookupError("no other model is left") from error

        async with milling(link, {"agent": loop}) as mill:
            ended = await mill.through()

    assert ended.run.error is not None
    assert ended.run.error.code == "loop_failed"
    assert ended.history == [USER]


@pytest.mark.parametrize(
    ("vendor", "reason", "told"),
    [
        ("anthropic", "model_context_window_exceeded", "model_context_window_exceeded"),
        ("anthropic", "max_tokens", "max_tokens"),
        ("anthropic", "of_next_year", "of_next_year"),
        ("openai", "length", "max_tokens"),
        ("openai", "of_next_year", "of_next_year"),
    ],
)
async def test_any_other_reason_is_told_and_ends_the_run(
    link: Link, vendor: str, reason: str, told: str
) -> None:
    by_anthropic = a.reply(a.said(0, "so far"), stop_reason=reason)
    whole = by_anthropic if vendor == "anthropic" else o.reply(o.said("so far"), reason=reason)
    async with serving(Answer([whole])) as service:
        agents = {"agent": ai.Agent(model=model_at(service, vendor))}
        async with milling(link, agents) as mill:
            ended = await mill.through()

    assert (ended.run.status, ended.run.output) == (RunStatus.COMPLETED, "so far")
    assert [data["stop_reason"] for data in ended.of("turn.finished")] == [told]
    assert ended.history == [USER, says("so far")]
    assert len(service.asked) == 1


async def through(link: Link, *answers: bytes, tool: Callable[..., Any] | None = None) -> Ended:
    """Drive a run of an agent at the service to its end."""
    async with serving(*(Answer([each]) for each in answers)) as service:
        model = model_at(service, "anthropic")
        agent = ai.Agent(model=model, tools=[] if tool is None else [tool])
        async with milling(link, {"agent": agent}) as mill:
            return await mill.through()


LOST = a.started(input_tokens=700) + a.said(0, "half")


async def test_what_a_lost_try_cost_is_not_taken_for_what_the_reply_cost(link: Link) -> None:
    ended = await through(link, LOST, LOST, a.reply(a.said(0, "whole")))

    [turn] = ended.of("turn.finished")
    assert turn["usage"] == {"input_tokens": 10, "output_tokens": 20}
    assert ended.run.usage is not None
    assert (ended.run.usage["input_tokens"], ended.run.usage["output_tokens"]) == (10, 20)


async def test_what_a_cut_reply_cost_is_unknown_and_not_nothing(link: Link) -> None:
    ended = await through(link, LOST)

    [turn] = ended.of("turn.finished")
    assert (turn["stop_reason"], "usage" in turn) == ("error", False)
    assert ended.run.usage is None


async def test_a_reply_that_breaks_off_for_good_is_kept_as_far_as_it_came(link: Link) -> None:
    ended = await through(link, LOST)

    assert ended.run.error is not None
    assert (ended.run.status, ended.run.error.code) == (RunStatus.FAILED, "incomplete")
    assert (text_that_counts(ended), ended.run.output) == ("half", "half")
    assert ended.history == [USER, says("half")]
    assert len(ended.of("turn.reset")) == 2


ASKS = a.reply(a.called(0, "look", "{}"), stop_reason="tool_use")
SAYS = a.reply(a.said(0, "seen"))

POISONS: Mapping[str, tuple[Any, str]] = {
    "half a character": ("half \ud83d", "half \ufffd"),
    "the other half": ("\ude00 half", "\ufffd half"),
    "two halves": ("\ud83d\ude00", "😀"),
    "a NUL": ("a\0b", "a\ufffdb"),
    "a NUL deep in it": ({"a\0": ["b\0"]}, '{"a\ufffd":["b\ufffd"]}'),
    "half a character deep in it": ({"\ud83d": [{"b": "\ude00"}]}, '{"\ufffd":[{"b":"\ufffd"}]}'),
    "another control character": ("\x1b[31mred\x07", "\x1b[31mred\x07"),
    "bytes that are no text": (b"\xff\xfe\x00", "//4A"),
    "text of bytes that are none": (b"a\xffb".decode("utf-8", "surrogateescape"), "a\ufffdb"),
    "half a character where it is cut": ("x" * (256 * 1024 - 1) + "\ud83d\ude00y", "😀"),
}


@pytest.mark.parametrize("name", POISONS)
async def test_what_a_tool_gives_never_poisons_a_session(link: Link, name: str) -> None:
    given, told = POISONS[name]

    @ai.tool
    async def look() -> Any:
        """Look."""
        return given

    async with serving(Answer([ASKS]), Answer([SAYS])) as service:
        agent = ai.Agent(model=model_at(service, "anthropic", caches=False), tools=[look])
        async with milling(link, {"agent": agent}) as mill:
            ended = await mill.through()
            await mill.through(session_id=ended.run.session_id)

    sent = service.asked[1].body["messages"][-1]["content"][0]["content"]
    assert (ended.run.status, ended.run.output) == (RunStatus.COMPLETED, "seen")
    assert sent == told if "cut" not in name else f"{told}\n[cut: " in sent
    assert ended.results == [sent]
    assert sent in json.dumps(service.asked[2].body, ensure_ascii=False).replace("\\n", "\n") or (
        json.dumps(sent)[1:-1] in json.dumps(service.asked[2].body)
    )


@pytest.mark.parametrize("raised", ["half \ud83d", "a\0b"])
async def test_what_a_tool_raises_never_poisons_a_session(link: Link, raised: str) -> None:
    @ai.tool
    async def look() -> None:
        """Look."""
        raise ValueError(raised)

    ended = await through(link, ASKS, SAYS, tool=look)

    [result] = ended.results
    assert (ended.run.status, ended.run.output) == (RunStatus.COMPLETED, "seen")
    assert "\ufffd" in result


@pytest.mark.parametrize("said", ["half \ud83d", "a\0b"])
async def test_what_a_user_says_never_poisons_a_session(said: str) -> None:
    async with serving(Answer([SAYS])) as service:
        app = ai.App(agents={"agent": ai.Agent(model=model_at(service, "anthropic"))})
        outcome = await app.run("agent", said)

    [message] = service.asked[0].body["messages"]
    assert outcome.output == "seen"
    assert "\ufffd" in message["content"][0]["text"]


async def test_arguments_that_are_no_json_are_an_error_for_the_model_and_kept(link: Link) -> None:
    @ai.tool
    async def look() -> str:
        """Look."""
        return "never"

    asks = a.reply(a.called(0, "look", "{x:1}"), stop_reason="tool_use")

    ended = await through(link, asks, SAYS, tool=look)

    assert (ended.run.status, ended.run.output) == (RunStatus.COMPLETED, "seen")
    assert "not valid" in ended.results[0]
    assert ended.history[1]["content"][0]["input"] == {UNPARSED: "{x:1}"}
    assert [data["arguments"] for data in ended.of("call.finished")] == ["{x:1}"]


def halves(*pieces: str) -> bytes:
    chunks = [b'{"choices":[{"delta":{"content":"%b"}}]}' % each.encode() for each in pieces]
    return b"".join(map(o.data, chunks))


HALVES = o.reply(
    halves("\\ud83d", "\\ude00"), o.calls(call(0, "c", "wait", "{}")), reason="tool_calls"
)


async def test_a_character_in_two_deltas_is_the_same_for_all_and_after_a_death(link: Link) -> None:
    gate = asyncio.Event()

    @ai.tool
    async def wait() -> str:
        """Wait for the gate."""
        await gate.wait()
        return "waited"

    async with serving(Answer([HALVES]), Answer([o.reply(o.said("done"))])) as service:
        agent = ai.Agent(model=model_at(service, "openai"), tools=[wait])
        async with milling(link, {"agent": agent}) as mill:
            place = await mill.submit()
            await mill.until(place, "tool.started")
            await mill.lapse_run(place)
            await mill.until(place, "run.retrying")
            gate.set()
            ended = await mill.ended(place)

    assert (ended.run.status, text_that_counts(ended)) == (RunStatus.COMPLETED, "😀done")
    assert ended.history[1]["content"][0] == {"type": "text", "text": "😀"}
    assert service.asked[1].body["messages"][1]["content"] == "😀"
    assert len(service.asked) == 2
