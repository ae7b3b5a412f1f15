"""Hooks of runs on workers: whoever may answers, and the run goes on wherever there is a worker."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import loops as ai
from loops.errors import AlreadySettled, DuplicateName, HookExpired, HookGone
from loops.messages import Messages
from loops.providers.scripted import call, in_turn, scripted, text
from loops.question import Answer
from loops.tasks import Owner
from loops.testing import collect
from tests.effects import VARIABLE, count_effects, effects_in, mark
from tests.waiting import wait_until
from tests.worker.driving import TENANT, Ended, Mill, milling
from worker.calls import RunPlace
from worker.link import Link
from worker.run_record import RunStatus

GRANTED = {"granted": True}
SOON = timedelta(milliseconds=20)
UNHURRIED = timedelta(seconds=1)
"""Long enough that a busy machine is not taken for a run that waits."""


class Decision(BaseModel):
    """What the tests' hooks want to know."""

    go: bool
    note: str = ""


@ai.tool(require_approval=True)
async def pay(context: ai.ToolContext, amount: int) -> str:
    """Pay an amount."""
    mark(context, "pay")
    return f"paid {amount}"


@pytest.fixture(autouse=True)
def effects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the tools of a test leave their marks."""
    monkeypatch.setenv(VARIABLE, str(effects_in(tmp_path)))
    return effects_in(tmp_path)


def paying(*amounts: int) -> ai.Agent:
    """An agent that wants to pay these amounts, in one turn."""
    pieces = [call("pay", amount=amount) for amount in amounts]
    return ai.Agent(model=scripted(in_turn(pieces, "done")), tools=[pay])


async def asks(context: ai.Context) -> AsyncIterator[object]:
    """A loop that asks before it says something."""
    del context
    decision = await ai.hook("ship", payload=Decision, metadata={"what": "release"})
    yield decision.note


async def close(mill: Mill, place: RunPlace, label: str, answer: Any) -> None:
    """Answer as somebody outside would; an `Answer` is taken as it is."""
    hook = await mill.resources.hooks.load(TENANT, place.run_id, label)
    given = answer if isinstance(answer, Answer) else Answer("resolved", answer)
    await mill.resources.hooks.close(TENANT, hook, given)


async def asked(mill: Mill, agent: str = "agent", *, times: int = 1) -> RunPlace:
    """Submit a run, and wait until it has asked."""
    place = await mill.submit(agent)
    await mill.until(place, "hook.opened", count=times)
    return place


async def parked(mill: Mill, place: RunPlace) -> None:
    async def is_waiting() -> bool:
        return (await mill.run_of(place)).status == RunStatus.WAITING

    await wait_until(is_waiting, for_="the run to be parked")


def without_progress(ended: Ended) -> list[str]:
    """Return the types of the events that say how hooks and calls went."""
    kinds = ("hook", "tool", "run")
    return [each for each in ended.types if each.partition(".")[0] in kinds]


async def test_a_granted_call_is_carried_out_once(link: Link, effects: Path):
    async with milling(link, {"agent": paying(5)}) as mill:
        place = await asked(mill)
        await mill.until(place, "run.blocked")
        await close(mill, place, "approve_call_0", GRANTED)
        ended = await mill.ended(place)

    assert (ended.run.output, ended.results) == ("done", ["paid 5"])
    assert list(count_effects(effects).values()) == [1]
    assert without_progress(ended) == [
        *("run.queued", "run.started", "hook.opened", "run.blocked", "hook.resolved"),
        *("tool.queued", "tool.started", "tool.finished", "run.completed"),
    ]
    (opened,) = ended.of("hook.opened")
    assert opened["metadata"] == {"tool": "pay", "kwargs": {"amount": 5}}
    assert ended.of("hook.resolved") == [
        {"label": "approve_call_0", "call": opened["call"], "resolution": GRANTED}
    ]


async def test_a_call_that_is_not_granted_never_becomes_a_job(link: Link, effects: Path):
    async with milling(link, {"agent": paying(5)}) as mill:
        place = await asked(mill)
        await close(mill, place, "approve_call_0", {"granted": False, "reason": "too dear"})
        ended = await mill.ended(place)

    assert ended.results == ["Rejected: too dear"]
    assert "tool.queued" not in ended.types
    assert not count_effects(effects)


async def test_an_approval_may_change_the_arguments(link: Link):
    async with milling(link, {"agent": paying(5)}) as mill:
        place = await asked(mill)
        await close(mill, place, "approve_call_0", {**GRANTED, "arguments": {"amount": 3}})
        ended = await mill.ended(place)
        (ledger,) = await mill.resources.runs.calls(TENANT, place.run_id)

    assert ended.results == ["paid 3"]
    assert ledger.arguments == '{"amount":3}'


@pytest.mark.parametrize("answer", [GRANTED, {"granted": False}])
async def test_a_run_that_waits_long_is_left_and_goes_on_when_it_is_answered(
    link: Link, answer: dict[str, Any]
):
    async with milling(link, {"agent": paying(5)}, park_after=SOON) as mill:
        place = await asked(mill)
        await parked(mill, place)
        assert await link.command("KEYS", "arq:job:*") == []

        await close(mill, place, "approve_call_0", answer)
        ended = await mill.ended(place)

    assert (ended.run.status, ended.run.attempt) == (RunStatus.COMPLETED, 1)
    assert ended.types.count("hook.opened") == 1
    assert ended.types.count("run.blocked") == 1
    assert ended.of("run.waiting") == [{"reason": "hooks"}]


async def test_what_was_done_before_the_question_is_not_done_again_after_it(link: Link):
    sent: list[str] = []

    async def asks_late(context: ai.Context) -> AsyncIterator[object]:
        async def send() -> str:
            sent.append("mail")
            return "sent"

        yield await context.step("mail", send)
        decision = await ai.hook("ship", payload=Decision)
        yield f", {decision.note}"

    async with milling(link, {"agent": asks_late}, park_after=SOON) as mill:
        place = await asked(mill)
        await parked(mill, place)
        await close(mill, place, "ship", {"go": True, "note": "shipped"})
        ended = await mill.ended(place)

    assert ended.run.output == "sent, shipped"
    assert sent == ["mail"]


async def test_a_run_that_waits_holds_no_slot(link: Link):
    async with milling(link, {"agent": paying(5), "asks": asks}, runs=1, tools=1) as mill:
        places = [await asked(mill) for _ in range(3)]
        other = await asked(mill, "asks")
        await close(mill, other, "ship", {"go": True, "note": "on"})
        assert (await mill.ended(other)).run.output == "on"

        for place in places:
            await close(mill, place, "approve_call_0", GRANTED)
        assert [(await mill.ended(place)).run.output for place in places] == ["done"] * 3


async def test_of_two_who_answer_at_one_time_one_is_refused(link: Link, effects: Path):
    async with milling(link, {"agent": paying(5)}) as mill:
        place = await asked(mill)
        owner = Owner()
        both = [
            owner.start(close(mill, place, "approve_call_0", GRANTED), name=name) for name in "ab"
        ]
        await asyncio.wait(both)
        errors = [task.exception() for task in both]
        ended = await mill.ended(place)

    assert [type(error) for error in errors if error is not None] == [AlreadySettled]
    assert ended.results == ["paid 5"]
    assert list(count_effects(effects).values()) == [1]


@pytest.mark.parametrize("park_after", [SOON, timedelta(seconds=60)])
async def test_a_hook_that_nobody_answers_expires_and_the_run_goes_on(
    link: Link, park_after: timedelta
):
    async def hasty(context: ai.Context) -> AsyncIterator[object]:
        del context
        try:
            await ai.hook("ship", payload=Decision, expires=timedelta(milliseconds=300))
        except HookExpired as error:
            yield str(error)

    async with milling(link, {"agent": hasty}, park_after=park_after) as mill:
        place = await asked(mill)
        ended = await mill.ended(place)
        with pytest.raises(HookGone):
            await close(mill, place, "ship", {"go": True})

    assert ended.run.output == "nobody answered the hook 'ship' in time"
    assert ended.of("hook.expired") == [{"label": "ship"}]


async def test_after_its_time_nobody_can_answer_though_no_worker_has_noticed(link: Link):
    async def hasty(context: ai.Context) -> AsyncIterator[object]:
        del context
        await ai.hook("ship", payload=Decision, expires=timedelta(milliseconds=50))
        yield "never"

    async with milling(link, {"agent": hasty}) as mill:
        place = await asked(mill)
        hook = await mill.resources.hooks.load(TENANT, place.run_id, "ship")
        await asyncio.sleep(0.06)
        with pytest.raises(HookGone):
            await mill.resources.hooks.close(TENANT, hook, Answer("resolved", {"go": True}))
        ended = await mill.ended(place)

    assert ended.run.error is not None
    assert ended.run.error.code == "hook_expired"


@pytest.mark.parametrize("park_after", [SOON, timedelta(seconds=60)])
async def test_67_a_cancelled_hook_is_a_cancellation_where_it_is_awaited(
    link: Link, park_after: timedelta
):
    async def catching(context: ai.Context) -> AsyncIterator[object]:
        del context
        try:
            await ai.hook("ship", payload=Decision)
        except asyncio.CancelledError as error:
            yield f"cancelled: {error}"

    async with milling(link, {"agent": catching}, park_after=park_after) as mill:
        place = await asked(mill)
        await close(mill, place, "ship", Answer("cancelled", reason="no more"))
        ended = await mill.ended(place)

    assert ended.run.output == "cancelled: no more"
    assert ended.of("hook.cancelled") == [{"label": "ship", "reason": "no more"}]


@pytest.mark.parametrize("park_after", [SOON, timedelta(seconds=60)])
async def test_with_its_run_a_hook_is_over(link: Link, park_after: timedelta):
    async with milling(link, {"agent": paying(5)}, park_after=park_after) as mill:
        place = await asked(mill)
        await mill.resources.runs.cancel(TENANT, place.run_id)
        ended = await mill.ended(place)
        with pytest.raises(AlreadySettled):
            await close(mill, place, "approve_call_0", GRANTED)
        page = await mill.resources.hooks.page(TENANT)

    assert ended.run.status == RunStatus.CANCELLED
    assert page.hooks == []


async def test_66_71_a_loop_answers_its_own_hooks(link: Link):
    async def alone(context: ai.Context) -> AsyncIterator[object]:
        del context
        ai.resolve_hook("early", {"go": True, "note": "early"})
        yield (await ai.hook("early", payload=Decision)).note
        owner = Owner()
        later = owner.start(ai.hook("later", payload=Decision), name="later")
        registry = ai.get_hook_registry()
        await wait_until(lambda: registry.is_live("later"))
        ai.resolve_hook("later", Decision(go=True, note=" and later"))
        yield (await later).note

    async with milling(link, {"agent": alone}) as mill:
        ended = await mill.through()

    assert ended.run.output == "early and later"
    assert ended.types.count("hook.opened") == 1


async def test_two_hooks_of_one_label_are_not_open_at_one_time(link: Link):
    async def twice(context: ai.Context) -> AsyncIterator[object]:
        del context
        owner = Owner()
        one = owner.start(ai.hook("ship", payload=Decision), name="one")
        await asyncio.sleep(0)
        try:
            await ai.hook("ship", payload=Decision)
        except DuplicateName as error:
            yield str(error)
        await one

    async with milling(link, {"agent": twice}) as mill:
        place = await asked(mill)
        await close(mill, place, "ship", {"go": True})
        ended = await mill.ended(place)

    assert ended.run.output is not None
    assert ended.run.output.startswith("a hook labelled 'ship' is open already")


@pytest.mark.parametrize("when", ["asked", "answered"])
async def test_an_approval_outlives_the_worker(link: Link, effects: Path, when: str):
    async with milling(link, {"agent": paying(5)}, tools=None) as mill:
        place = await asked(mill)
        if when == "answered":
            await close(mill, place, "approve_call_0", GRANTED)
            await mill.until(place, "tool.queued")
        await mill.worker("runs")
        await mill.lapse_run(place)
        await mill.until(place, "run.retrying")
        if when == "asked":
            await close(mill, place, "approve_call_0", GRANTED)
        await mill.worker("tools")
        ended = await mill.ended(place)

    assert ended.run.output == "done"
    assert ended.types.count("hook.opened") == 1
    assert list(count_effects(effects).values()) == [1]


async def test_99_what_is_shown_again_after_a_wait_is_not_told_again(link: Link):
    replayed: list[bool] = []

    class Watching(ai.Agent):
        async def loop(self, context: ai.Context) -> AsyncIterator[ai.AgentEvent]:
            async for event in super().loop(context):
                replayed.append(event.replayed)
                yield event

    watching = Watching(model=paying(5).model, tools=[pay])
    async with milling(link, {"agent": watching}, park_after=SOON) as mill:
        place = await asked(mill)
        await parked(mill, place)
        await close(mill, place, "approve_call_0", GRANTED)
        ended = await mill.ended(place)

    assert (replayed[0], any(replayed)) == (False, True)
    assert [each.data for each in ended.events if "replayed" in str(each.data)] == []
    assert ended.types.count("call.finished") == 1


async def test_81_each_answer_of_several_lets_the_run_be_blocked_anew(link: Link):
    async with milling(link, {"agent": paying(1, 2)}, park_after=UNHURRIED) as mill:
        place = await asked(mill, times=2)
        await parked(mill, place)
        await close(mill, place, "approve_call_0", GRANTED)
        await mill.until(place, "run.blocked", count=2)
        await close(mill, place, "approve_call_1", GRANTED)
        ended = await mill.ended(place)

    assert [each["hooks"] for each in ended.of("run.blocked")] == [
        ["approve_call_0", "approve_call_1"],
        ["approve_call_1"],
    ]
    assert sorted(ended.results) == ["paid 1", "paid 2"]


async def test_a_hook_inside_of_a_tool_holds_neither_slot_nor_time(link: Link):
    @ai.tool(timeout=timedelta(milliseconds=300))
    async def careful(context: ai.ToolContext) -> str:
        decision = await ai.hook("careful", payload=Decision)
        return decision.note + context.call.name

    @ai.tool
    async def quick() -> str:
        return "quick"

    agents = {
        "agent": ai.Agent(model=scripted(in_turn([call("careful")], "done")), tools=[careful]),
        "other": ai.Agent(model=scripted(in_turn([call("quick")], "done")), tools=[quick]),
    }
    async with milling(link, agents, tools=1) as mill:
        place = await asked(mill)
        assert (await mill.through("other")).results == ["quick"]
        await asyncio.sleep(0.4)
        await close(mill, place, "careful", {"go": True, "note": "yes: "})
        ended = await mill.ended(place)

    assert ended.results == ["yes: careful"]


async def test_the_hook_of_an_agent_inside_of_a_tool_is_the_runs(link: Link):
    @ai.tool
    async def ask_the_other() -> object:
        async with paying(7).run(messages="go") as inner:
            await collect(inner)
            return inner.output

    outer = ai.Agent(
        model=scripted(in_turn([call("ask_the_other")], "done")), tools=[ask_the_other]
    )
    async with milling(link, {"agent": outer}) as mill:
        place = await asked(mill)
        await close(mill, place, "approve_call_0", GRANTED)
        ended = await mill.ended(place)

    assert ended.results == ["done"]
    assert ended.of("hook.opened")[0]["metadata"]["kwargs"] == {"amount": 7}


@pytest.mark.parametrize("park_after", [SOON, timedelta(seconds=60)])
async def test_a_run_sleeps_and_goes_on(link: Link, park_after: timedelta):
    async def sleepy(context: ai.Context) -> AsyncIterator[object]:
        before = await context.now()
        await context.sleep(0.3)
        after = await context.now()
        yield "rested" if after - before >= timedelta(seconds=0.3) else "woken"

    async with milling(link, {"agent": sleepy}, park_after=park_after) as mill:
        ended = await mill.through()
        page = await mill.resources.hooks.page(TENANT)

    assert (ended.run.output, page.hooks) == ("rested", [])
    assert ended.types.count("run.waiting") == (1 if park_after == SOON else 0)


async def test_open_hooks_are_listed_over_all_runs_oldest_first(link: Link):
    async with milling(link, {"agent": asks}, park_after=SOON) as mill:
        places = [await asked(mill) for _ in range(5)]
        first = await mill.resources.hooks.page(TENANT, limit=3)
        rest = await mill.resources.hooks.page(TENANT, after=first.next, limit=3)
        nobodys = await mill.resources.hooks.page("other")
        for place in places:
            await close(mill, place, "ship", {"go": True})
            await mill.ended(place)

    listed = [hook.run_id for hook in [*first.hooks, *rest.hooks]]
    assert listed == [place.run_id for place in places]
    assert (rest.next, nobodys.hooks) == (None, [])


async def test_what_was_granted_for_other_arguments_is_asked_again(link: Link):
    """A loop that asks for something else under its label gets no answer that was not for it."""
    amounts = iter([5, 6])

    async def fickle(context: ai.Context) -> AsyncIterator[object]:
        arguments = f'{{"amount":{next(amounts)}}}'
        wanted = ai.ToolCall(id="one", key="", name="pay", arguments=arguments)
        result = await context.resolve(wanted)()
        yield result.content

    agent = ai.Agent(tools=[pay])
    agent.loop = fickle  # type: ignore[method-assign]
    async with milling(link, {"agent": agent}) as mill:
        place = await asked(mill)
        await mill.worker("runs")
        await mill.lapse_run(place)
        await mill.until(place, "hook.opened", count=2)
        await close(mill, place, "approve_one", GRANTED)
        ended = await mill.ended(place)

    assert ended.of("hook.cancelled") == [
        {"label": "approve_one", "call": "", "reason": "superseded"}
    ]
    assert ended.run.output == "paid 6"


@ai.tool
async def note(text: str) -> str:
    """Note something."""
    return f"noted {text}"


async def half_done(mill: Mill) -> RunPlace:
    """Let a run wait for an approval when its other call is done."""
    place = await asked(mill)
    await mill.until(place, "tool.finished")
    await parked(mill, place)
    return place


@pytest.mark.parametrize("ends_by", ["cancel", "interrupt"])
async def test_a_parked_run_that_is_ended_leaves_what_it_has_done(link: Link, ends_by: str):
    pieces = [text("I will. "), call("note", text="x"), call("pay", amount=1)]
    model = scripted(in_turn(pieces, "again"))
    agent = ai.Agent(model=model, tools=[note, pay])

    async with milling(link, {"agent": agent}, park_after=SOON) as mill:
        place = await half_done(mill)
        if ends_by == "cancel":
            await mill.resources.runs.cancel(TENANT, place.run_id)
        else:
            session_id = (await mill.run_of(place)).session_id
            await mill.submit(said="stop", session_id=session_id, on_conflict="interrupt")
        ended = await mill.ended(place)

    assert ended.run.status is RunStatus.CANCELLED
    assert ended.history[0] == {"role": "user", "content": "go"}
    assert Messages.of(ended.history)[1].text == "I will. "
    done, open_ = ended.results[:2]
    assert done == "noted x"
    assert open_.startswith("cancelled: the run ended")


async def test_a_parked_run_that_is_rolled_back_leaves_nothing(link: Link):
    agent = ai.Agent(
        model=scripted(in_turn([call("note", text="x"), call("pay", amount=1)], "again")),
        tools=[note, pay],
    )

    async with milling(link, {"agent": agent}, park_after=SOON) as mill:
        place = await half_done(mill)
        session_id = (await mill.run_of(place)).session_id
        await mill.submit(said="stop", session_id=session_id, on_conflict="rollback")
        ended = await mill.ended(place)

    assert "noted x" not in str(ended.history)


async def test_a_parked_run_that_goes_on_leaves_each_message_once(link: Link):
    agent = ai.Agent(
        model=scripted(in_turn([call("note", text="x"), call("pay", amount=1)], "done")),
        tools=[note, pay],
    )

    async with milling(link, {"agent": agent}, park_after=SOON) as mill:
        place = await half_done(mill)
        await close(mill, place, "approve_call_1", GRANTED)
        ended = await mill.ended(place)

    assert [message["role"] for message in ended.history] == ["user", "assistant"] * 2


async def test_no_two_calls_of_a_run_are_approved_by_one_label(link: Link):
    model = scripted(in_turn([call("pay", amount=1)], [call("pay", amount=2)], "done"))

    async with milling(link, {"agent": ai.Agent(model=model, tools=[pay])}) as mill:
        place = await asked(mill)
        await close(mill, place, "approve_call_0", GRANTED)
        await mill.until(place, "hook.opened", count=2)
        labels = [event.data["label"] for event in await mill.log(place) if "label" in event.data]
        await close(mill, place, labels[-1], GRANTED)
        ended = await mill.ended(place)

    assert labels[0] == "approve_call_0"
    assert labels[-1].startswith("approve_turn:")
    assert ended.results == ["paid 1", "paid 2"]
