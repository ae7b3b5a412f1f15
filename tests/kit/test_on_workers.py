"""Loops of the kit on workers: what is a job, what is asked once, what a resumed run repeats."""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import loops as ai
from loops.approval import approval_key
from loops.errors import Overloaded, RateLimited, Unauthorized
from loops.kit import LLM, MCP, ToolContext, Turn
from loops.kit.summing import ASK
from loops.model import ModelRequest
from loops.providers.scripted import Reply, call, call_with, in_turn, scripted, text, until
from loops.question import Answer
from loops.reply import ModelEvent, StreamStart, TextDelta, TextStart
from tests.kit.providers import ScriptedProvider
from tests.kit.weather import forecaster
from tests.waiting import wait_until
from tests.worker.driving import TENANT, Ended, Mill, milling
from worker.calls import RunPlace
from worker.event_log import LogEvent
from worker.link import Link
from worker.run_record import RunStatus

SERVER = Path(__file__).with_name("mcp_server.py")
SOON = timedelta(milliseconds=20)


class Post:
    """Sends letters, counts them, and holds them back until its gate is open."""

    def __init__(self) -> None:
        self.sent: Counter[str] = Counter()
        self.gate = asyncio.Event()

    async def send(self, inp: dict[str, Any], ctx: ToolContext) -> str:
        """Send a letter: this must not happen twice."""
        self.sent[inp["to"]] += 1
        if inp["to"] == "bob":
            await self.gate.wait()
        return f"sent to {inp['to']}"

    def agent(self, reply: Reply | Any, **options: Any) -> LLM:
        """Return an agent that sends letters by this script."""
        tool = {"name": "send", "input_schema": {"type": "object"}}
        return LLM().model(scripted(reply)).tools([tool]).on("send", self.send, **options)


LETTERS = in_turn([text("First. "), call("send", to="ann")], [call("send", to="bob")], "All sent.")


def custom(ended: Ended, name: str, **fields: Any) -> list[dict[str, Any]]:
    values = [data["value"] for data in ended.of(f"custom.{name}")]
    return [each for each in values if fields.items() <= each.items()]


def shown_text(events: list[LogEvent]) -> str:
    """Return the text of a log as a reader folds it: without what was voided later."""
    shown: list[LogEvent] = []
    for event in events:
        if event.type == "turn.reset":
            shown = [one for one in shown if one.seq <= event.data["after"]]
        shown.append(event)
    return "".join(one.data["text"] for one in shown if one.type == "text.delta")


def yields(ended: Ended) -> Counter[str]:
    """Return how often each event of the loop stands in the log, by what it says."""
    return Counter(
        f"{event.turn} {event.data}" for event in ended.events if "custom." in event.type
    )


async def test_handlers_and_built_in_tools_are_jobs(link: Link, tmp_path: Path) -> None:
    write = call("edit", path="a.txt", command="create", file_text="sun\n")
    calls = [call("weather", city="Rome")], [write], [call("read", path="a.txt")]
    llm = forecaster(in_turn(*map(list, calls), "Sunny.")).allowed_tools(["Editor"])

    async with milling(link, {"agent": llm}, data=tmp_path) as mill:
        ended = await mill.through()
        tool_worker = mill.workers[1].worker_id

    assert [data["name"] for data in ended.of("tool.queued")] == ["weather", "edit", "read"]
    started = [(data["worker"], data["pid"]) for data in ended.of("tool.started")]
    assert started == [(tool_worker, os.getpid())] * 3
    folder = tmp_path / "workspaces" / TENANT / ended.run.session_id
    assert (folder / "a.txt").read_text() == "sun\n"
    assert "sun" in str(ended.results[2])


async def test_a_tool_that_needs_approval_parks_the_run_until_it_is_granted(link: Link) -> None:
    post = Post()
    llm = post.agent(in_turn([call("send", to="ann")], "Sent."), require_approval=True)

    async with milling(link, {"agent": llm}, park_after=SOON) as mill:
        place = await mill.submit()
        await mill.until(place, "run.waiting")
        assert post.sent == {}
        await answer(mill, place, granted=True)
        ended = await mill.ended(place)

    assert (ended.run.output, post.sent) == ("Sent.", {"ann": 1})
    [card] = custom(ended, "ui", action="confirm")
    assert (card["tool"], card["args"]) == ("send", {"to": "ann"})
    [hook] = ended.of("hook.opened")
    assert card["label"] == hook["label"]
    assert ended.types.count("run.resumed") == 1


async def test_a_call_that_is_refused_is_not_made_and_the_model_is_told(link: Link) -> None:
    post = Post()
    llm = post.agent(in_turn([call("send", to="ann")], "A pity."), require_approval=True)

    async with milling(link, {"agent": llm}, park_after=SOON) as mill:
        place = await mill.submit()
        await mill.until(place, "run.waiting")
        await answer(mill, place, granted=False)
        ended = await mill.ended(place)

    assert (ended.run.output, post.sent) == ("A pity.", {})
    assert ended.history[2]["content"][0]["is_error"]


async def answer(mill: Mill, place: RunPlace, **given: Any) -> None:
    """Answer the one open hook of the run."""
    page = await mill.resources.hooks.page(TENANT)
    (hook,) = [each for each in page.hooks if each.run_id == place.run_id]
    await mill.resources.hooks.close(TENANT, hook, Answer("resolved", given))


async def test_a_resumed_run_repeats_nothing_and_says_nothing_twice(link: Link) -> None:
    calm, post = Post(), Post()
    calm.gate.set()
    async with milling(link, {"calm": calm.agent(LETTERS), "agent": post.agent(LETTERS)}) as mill:
        expected = await mill.through("calm")
        place = await mill.submit()
        await mill.until(place, "tool.started", count=2)

        await mill.lapse_run(place)
        await mill.until(place, "run.retrying")
        post.gate.set()
        ended = await mill.ended(place)

    assert (ended.run.output, ended.run.attempt) == ("All sent.", 2)
    assert post.sent == {"ann": 1, "bob": 1}
    assert yields(ended) == yields(expected)
    assert [each["role"] for each in ended.history] == ["user", "assistant"] * 3
    assert shown_text(ended.events) == shown_text(expected.events)


async def test_a_reply_that_is_cut_by_a_lost_worker_is_shown_anew(link: Link) -> None:
    gate = asyncio.Event()
    model = scripted([text("half"), until(gate), text(" whole")])

    async with milling(link, {"agent": LLM().model(model)}) as mill:
        place = await mill.submit()
        await mill.until(place, "text.delta")
        await mill.lapse_run(place)
        await mill.until(place, "run.retrying")
        gate.set()
        ended = await mill.ended(place)

    assert (ended.run.output, model.asked) == ("half whole", 2)
    assert len(ended.of("turn.reset")) == 1
    assert shown_text(ended.events) == "half whole"
    assert [each["role"] for each in ended.history] == ["user", "assistant"]


async def test_what_is_said_to_the_run_meanwhile_is_heard_at_the_next_turn(link: Link) -> None:
    post = Post()

    def heard(history: list[dict[str, Any]]) -> Any:
        people = [each["content"] for each in history if isinstance(each["content"], str)]
        return [call("send", to="bob")] if len(history) == 1 else f"heard {', '.join(people)}"

    async with milling(link, {"agent": post.agent(heard)}) as mill:
        place = await mill.submit()
        await mill.until(place, "tool.started")
        hurry = [{"role": "user", "content": "hurry"}]
        await mill.resources.runs.steer(TENANT, place.run_id, hurry)
        post.gate.set()
        ended = await mill.ended(place)

    assert ended.run.output == "heard go, hurry"
    roles = [each["role"] for each in ended.history]
    assert roles == ["user", "assistant", "user", "user", "assistant"]


async def test_what_a_cancelled_run_had_said_stays(link: Link) -> None:
    llm = LLM().model(scripted([text("The first half"), until(asyncio.Event()), text("never")]))

    async with milling(link, {"agent": llm}) as mill:
        place = await mill.submit()
        await mill.until(place, lambda log: shown_text(log) == "The first half")
        await mill.resources.runs.cancel(TENANT, place.run_id)
        ended = await mill.ended(place)

    assert ended.run.status == RunStatus.CANCELLED
    user, partial = ended.history
    assert (user["content"], partial["role"]) == ("go", "assistant")
    assert partial["content"][0]["text"].startswith("The first half")
    assert "never" not in str(ended.history)


async def is_answered(mill: Mill, place: RunPlace) -> bool:
    """Say whether a call of the run has its result, and another one has begun."""
    ledger = await mill.link.command("HGETALL", f"{place.record}:calls")
    return b"|result" in b" ".join(ledger) and ledger.count(b"started") == 1


async def test_the_calls_of_a_cancelled_run_are_answered(link: Link) -> None:
    post = Post()
    batch = in_turn([call("send", to="ann"), call("send", to="bob")])

    async with milling(link, {"agent": post.agent(batch)}) as mill:
        place = await mill.submit()
        await wait_until(partial(is_answered, mill, place), for_="a result")
        await mill.resources.runs.cancel(TENANT, place.run_id)
        ended = await mill.ended(place)

    assert ended.run.status == RunStatus.CANCELLED
    assert len(ended.results) == 2
    assert ended.results[0] == "sent to ann"
    assert post.sent == {"ann": 1, "bob": 1}


async def test_the_next_run_of_a_session_goes_on_with_it(link: Link) -> None:
    def told(history: list[dict[str, Any]]) -> Any:
        return f"heard {[each['content'] for each in history if each['role'] == 'user']}"

    async with milling(link, {"agent": LLM().model(scripted(told))}) as mill:
        first = await mill.through(said="one")
        second = await mill.through(said="two", session_id=first.run.session_id)

    assert second.run.output == "heard ['one', 'two']"
    assert [each["role"] for each in second.history] == ["user", "assistant"] * 2


async def test_a_run_takes_no_more_than_its_budget(link: Link) -> None:
    post = Post()
    post.gate.set()

    async with milling(link, {"agent": post.agent(LETTERS)}) as mill:
        ended = await mill.through(budget={"turns": 2})

    assert ended.run.error is not None
    assert (ended.run.status, ended.run.error.code) == (RunStatus.FAILED, "budget_exceeded")
    assert [each["style"] for each in custom(ended, "callout")] == ["error"]
    assert post.sent == {"ann": 1, "bob": 1}


async def test_a_run_makes_no_more_steps_than_its_agent_allows(link: Link) -> None:
    post = Post()

    async with milling(link, {"agent": post.agent(LETTERS).limits(steps=1)}) as mill:
        ended = await mill.through()

    assert ended.run.error is not None
    assert (ended.run.status, ended.run.error.code) == (RunStatus.FAILED, "turn_limit_exceeded")
    assert (post.sent, ended.results) == ({"ann": 1}, ["sent to ann"])


async def test_a_provider_that_fails_at_once_is_asked_again_and_each_time_is_told(
    link: Link,
) -> None:
    failures = [RateLimited("slowly", retry_after=SOON / 2) for _ in range(2)]
    model = scripted(lambda _: failures.pop() if failures else "Here I am.")

    async with milling(link, {"agent": LLM().model(model)}) as mill:
        ended = await mill.through()

    assert (ended.run.output, model.asked, ended.run.attempt) == ("Here I am.", 3, 1)
    steps = [each["step"] for each in custom(ended, "step")]
    assert len(steps) == len(set(steps)) == 2
    assert all("retrying" in each for each in steps)
    assert [each["role"] for each in ended.history] == ["user", "assistant"]


class Breaking:
    """A model whose first reply breaks off in the middle."""

    name = "breaking"

    def __init__(self, failure: Exception) -> None:
        self.asked = 0
        self._failure = failure

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield the reply."""
        self.asked += 1
        if self.asked == 1:
            for event in (StreamStart(), TextStart(0), TextDelta(0, "The wrong wo")):
                yield event
            raise self._failure
        async for event in scripted("The right word.").stream(request):
            yield event


async def test_a_reply_that_breaks_off_is_voided_and_asked_for_again(link: Link) -> None:
    model = Breaking(Overloaded("broke off", retry_after=SOON / 2))

    async with milling(link, {"agent": LLM().model(model)}) as mill:
        ended = await mill.through()

    assert (ended.run.output, model.asked) == ("The right word.", 2)
    assert [data["reason"] for data in ended.of("turn.reset")] == ["provider_failed"]
    assert shown_text(ended.events) == "The right word."
    assert "wrong" not in str(ended.history)


async def test_the_tools_of_an_mcp_server_are_called_by_jobs(link: Link, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    environment = {"MCP_NOTES": str(notes)}
    server = MCP("little", command=sys.executable, args=[str(SERVER)], env=environment)
    llm = LLM().model(scripted(in_turn([call("little__echo", text="hello")], "Done."))).mcp(server)

    async with milling(link, {"agent": llm}) as mill:
        ended = await mill.through()
        await server.close()

    assert ended.run.output == "Done."
    assert [data["name"] for data in ended.of("tool.queued")] == ["mcp_little"]
    assert "hello" in str(ended.results[0])
    assert notes.read_text().split().count("echo") == 1
    assert [each["tool_name"] for each in custom(ended, "step") if "tool_name" in each] == [
        "little__echo"
    ]


def hooked(llm: LLM) -> Any:
    """Return an agent that is a function around another one."""

    async def around(context: ai.Context) -> AsyncIterator[Any]:
        yield {"type": "status", "status": "Working"}
        async for event in llm.run(context=context):
            yield event

    return around


async def serve(mill: Mill, llm: LLM, **options: Any) -> None:
    """Let the mill serve a function around the agent."""
    mill.app = ai.App(agents={"agent": hooked(llm)}, **options)
    await mill.worker("runs")
    await mill.worker("tools")


async def test_the_calls_of_a_function_around_an_agent_are_jobs_if_the_app_has_its_tools(
    link: Link,
) -> None:
    post = Post()
    post.gate.set()
    llm = post.agent(LETTERS)

    async with milling(link, {}, runs=None, tools=None) as mill:
        await serve(mill, llm, tools=llm.agent_tools())
        ended = await mill.through()

    assert ended.run.output == "All sent."
    assert [data["name"] for data in ended.of("tool.queued")] == ["send", "send"]
    assert post.sent == {"ann": 1, "bob": 1}


async def test_otherwise_they_are_made_inline_and_recorded(link: Link) -> None:
    post = Post()

    async with milling(link, {}, runs=None, tools=None) as mill:
        await serve(mill, post.agent(LETTERS))
        place = await mill.submit()
        await mill.until(place, lambda log: post.sent["bob"] > 0)
        await mill.lapse_run(place)
        await mill.until(place, "run.retrying")
        post.gate.set()
        ended = await mill.ended(place)

    assert (ended.run.output, ended.run.attempt) == ("All sent.", 2)
    assert ended.of("tool.queued") == []
    assert post.sent["ann"] == 1
    assert ended.results == ["sent to ann", "sent to bob"]
    assert custom(ended, "status") == [{"type": "status", "status": "Working"}]


async def test_a_provider_of_ones_own_is_asked_on_workers_too(link: Link) -> None:
    provider = ScriptedProvider(["Hello from mine."])

    async with milling(link, {"agent": LLM().model(provider).system("Be kind.")}) as mill:
        ended = await mill.through()

    assert ended.run.output == "Hello from mine."
    assert [each["system"] for each in provider.asked] == ["Be kind."]
    assert shown_text(ended.events) == "Hello from mine."


async def test_what_is_said_after_the_last_reply_is_answered_too(link: Link) -> None:
    gate = asyncio.Event()

    def heard(history: list[dict[str, Any]]) -> Any:
        people = [each["content"] for each in history if each["role"] == "user"]
        return [text("well"), until(gate)] if len(people) == 1 else f"heard {', '.join(people)}"

    async with milling(link, {"agent": LLM().model(scripted(heard))}) as mill:
        place = await mill.submit()
        await mill.until(place, "text.delta")
        await mill.resources.runs.steer(TENANT, place.run_id, [{"role": "user", "content": "so?"}])
        gate.set()
        ended = await mill.ended(place)

    assert ended.run.output == "heard go, so?"
    assert [each["role"] for each in ended.history] == ["user", "assistant"] * 2


async def test_a_run_that_is_cancelled_while_a_person_is_asked_is_valid(link: Link) -> None:
    post = Post()
    llm = post.agent(in_turn([call("send", to="ann")], "Sent."), require_approval=True)

    async with milling(link, {"agent": llm}, park_after=SOON) as mill:
        place = await mill.submit()
        await mill.until(place, "run.waiting")
        await mill.resources.runs.cancel(TENANT, place.run_id)
        ended = await mill.ended(place)

    assert (ended.run.status, post.sent) == (RunStatus.CANCELLED, {})
    assert ended.history[0] == {"role": "user", "content": "go"}


async def test_a_reply_that_fails_for_good_in_the_middle_is_kept_as_far_as_it_was_shown(
    link: Link,
) -> None:
    async with milling(link, {"agent": LLM().model(Breaking(Unauthorized("no key")))}) as mill:
        ended = await mill.through()

    assert ended.run.error is not None
    assert (ended.run.status, ended.run.error.code) == (RunStatus.FAILED, "unauthorized")
    assert [each["role"] for each in ended.history] == ["user", "assistant"]
    assert ended.history[1]["content"][0]["text"].startswith("The wrong wo")
    assert shown_text(ended.events) == "The wrong wo"


async def test_a_retry_that_is_resumed_is_told_and_made_once(link: Link) -> None:
    failures = [RateLimited("slowly", retry_after=timedelta(seconds=1))]
    model = scripted(lambda _: failures.pop() if failures else "Here I am.")

    async with milling(link, {"agent": LLM().model(model)}) as mill:
        place = await mill.submit()
        await mill.until(place, "custom.step")
        await mill.lapse_run(place)
        ended = await mill.ended(place)

    assert (ended.run.output, model.asked, ended.run.attempt) == ("Here I am.", 2, 2)
    assert len(custom(ended, "step")) == 1


async def test_calls_of_one_id_have_a_result_each(link: Link) -> None:
    post = Post()
    twins = [call_with("send", f'{{"to":"{name}"}}', call_id="x") for name in ("ann", "cem")]

    async with milling(link, {"agent": post.agent(in_turn(twins, "Sent."))}) as mill:
        ended = await mill.through()

    assert (ended.run.output, post.sent) == ("Sent.", {"ann": 1, "cem": 1})
    assert ended.results == ["sent to ann", "sent to cem"]


class Knowing:
    """A tool that keeps the context that it was called with, and tells that it is half done."""

    def __init__(self) -> None:
        self.contexts: list[ToolContext] = []

    def handler(self, inp: dict[str, Any], ctx: ToolContext) -> str:
        """Do it."""
        self.contexts.append(ctx)
        ctx.progress("half")
        return "done"

    def agent(self, **options: Any) -> LLM:
        """Return an agent that calls it once."""
        tool = {"name": "t", "input_schema": {"type": "object"}}
        llm = LLM().model(scripted(in_turn([call("t")], "ok"))).tools([tool])
        return llm.on("t", self.handler, **options)


async def test_a_handler_knows_for_whom_it_acts_and_may_tell_how_far_it_is(
    link: Link, tmp_path: Path
) -> None:
    knowing = Knowing()

    async with milling(link, {"agent": knowing.agent()}, data=tmp_path) as mill:
        ended = await mill.through()

    [ctx] = knowing.contexts
    assert (ctx.run, ctx.chat_id) == (ended.run.id, ended.run.session_id)
    assert ctx.workspace == str(tmp_path / "workspaces" / TENANT / ended.run.session_id)
    assert [data["value"] for data in ended.of("tool.progress")] == ["half"]


async def test_a_granted_key_stands_in_the_context_of_the_call(link: Link) -> None:
    knowing = Knowing()

    async with milling(link, {"agent": knowing.agent(require_approval=True)}) as mill:
        place = await mill.submit()
        await mill.until(place, "hook.opened")
        await answer(mill, place, granted=True)
        await mill.ended(place)

    [ctx] = knowing.contexts
    assert ctx.approvals == {approval_key("t", {})}


async def test_a_handler_has_its_own_time_limit(link: Link) -> None:
    async def handler(inp: dict[str, Any]) -> None:
        await asyncio.Event().wait()

    tool = {"name": "t", "input_schema": {"type": "object"}}
    llm = LLM().model(scripted(in_turn([call("t")], "ok"))).tools([tool])
    async with milling(link, {"agent": llm.on("t", handler, timeout=SOON)}) as mill:
        ended = await mill.through()

    assert ended.run.output == "ok"
    assert "ToolTimedOut" in ended.results[0]


async def test_a_worker_that_leaves_hands_its_run_on(link: Link) -> None:
    post = Post()
    async with milling(link, {"agent": post.agent(LETTERS)}) as mill:
        place = await mill.submit()
        await mill.until(place, "tool.started", count=2)
        mill.workers[0].stop()
        await mill.worker("runs")
        post.gate.set()
        ended = await mill.ended(place)

    assert (ended.run.output, post.sent) == ("All sent.", {"ann": 1, "bob": 1})
    assert max(yields(ended).values()) == 1
    assert [each["role"] for each in ended.history] == ["user", "assistant"] * 3


async def test_a_conversation_of_a_loops_own_does_not_touch_the_runs_session(link: Link) -> None:
    def reply(history: list[dict[str, Any]]) -> str:
        is_asked = ASK.splitlines()[0] in str(history)
        return "<summary>all about it</summary>" if is_asked else "aside " * 200

    aside = LLM().model(scripted(reply, delta=4_000)).context(600).max_tokens(100)

    async def agent(context: ai.Context) -> AsyncIterator[Any]:
        talk = ai.Context(messages=["one", {"role": "assistant", "content": "w " * 400}, "two"])
        async for event in aside.run(context=talk):
            assert event != "never"
        context.add({"role": "assistant", "content": [{"type": "text", "text": "so be it"}]})
        yield "so be it"

    async with milling(link, {"agent": agent}) as mill:
        first = await mill.through()
        second = await mill.through(said="more", session_id=first.run.session_id)
        names = mill.resources.keys.session(TENANT, first.run.session_id)
        markers = await link.command("LRANGE", names.markers, 0, -1)

    assert markers == []
    assert [each["role"] for each in second.history] == ["user", "assistant"] * 2


class Chatty:
    """A provider of one's own that tells what it is about, and has the letters sent."""

    model = "chatty"

    async def stream(self, *, messages: list[dict[str, Any]], **more: Any) -> AsyncIterator[Any]:
        """Yield the reply."""
        number = sum(each["role"] == "assistant" for each in messages)
        yield {"type": "status", "status": "thinking"}
        content: list[dict[str, Any]] = [{"type": "text", "text": "All sent."}]
        if number < 2:
            to = {"to": ("ann", "bob")[number]}
            content = [{"type": "tool_use", "id": f"c{number}", "name": "send", "input": to}]
        yield Turn(content, "tool_use" if number < 2 else "end_turn")

    async def complete(self, **asked: Any) -> str:
        """Return nothing: it is not asked."""
        return ""


async def test_what_a_provider_shows_besides_is_shown_once_in_each_turn(link: Link) -> None:
    post = Post()

    async with milling(link, {"agent": post.agent("x").model(Chatty())}) as mill:
        place = await mill.submit()
        await mill.until(place, "tool.started", count=2)
        await mill.lapse_run(place)
        await mill.until(place, "run.retrying")
        post.gate.set()
        ended = await mill.ended(place)

    assert (ended.run.output, post.sent) == ("All sent.", {"ann": 1, "bob": 1})
    assert [event.turn for event in ended.events if event.type == "custom.status"] == [1, 2, 3]


async def test_a_run_of_the_kit_may_be_the_child_of_another(link: Link) -> None:
    helper = LLM().model(scripted("I help."))

    async def agent(context: ai.Context) -> AsyncIterator[str]:
        yield str((await context.run_agent("helper", "one")).output)
        yield str((await context.run_agent(helper, "two")).output)

    async with milling(link, {"agent": agent, "helper": helper}) as mill:
        ended = await mill.through()

    assert ended.run.output == "I help.I help."
