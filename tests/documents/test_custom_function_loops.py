"""The document on custom function loops: each of its blocks runs here as it is written."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import loops as ai
from loops.blocks import Raw
from loops.errors import Unauthorized
from loops.events import Custom
from loops.kit import LLM, Session, Turn, default_loop
from loops.kit.provider import Provider
from loops.kit.stores import MemorySessions
from loops.model import ModelRequest
from loops.providers.scripted import call, in_turn, scripted
from loops.reply import (
    BuiltinToolEnd,
    BuiltinToolResult,
    BuiltinToolStart,
    ModelEvent,
    StreamStart,
)
from tests.agents.runtimes import Through, in_process, on_workers
from tests.documents.function_loops import (
    Metrics,
    blocks,
    body,
    hooking,
    injecting,
    own_lines,
    replacing,
    whole,
)
from tests.kills.harness import LEASE, Moment, Stage, stage_on
from tests.kills.test_sweep import differences
from tests.loops.providers.anthropic_wires import reply, said
from tests.loops.providers.service import Answer, Service, serving
from tests.worker.driving import milling
from worker.event_log import LogEvent
from worker.link import Link

pytestmark = pytest.mark.documents

PAGE = {"title": "Loops", "url": "https://e.org/", "snippet": "all about loops"}


@pytest.fixture(params=["in process", "on workers"])
def through(request: pytest.FixtureRequest) -> Through:
    """Sees a run through, in this process and then on workers."""
    if request.param == "in process":
        return in_process
    return on_workers(request.getfixturevalue("link"))


class Searching:
    """A model whose own service searches, once."""

    name = "searching"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield the reply."""
        found = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}
        raw = {"type": "server_tool_use", "id": "srv_1", "name": "web_search"}
        yield StreamStart()
        yield BuiltinToolStart(0, "srv_1", "web_search")
        yield BuiltinToolEnd(0, "srv_1", "web_search", '{"query": "loops"}', raw)
        yield BuiltinToolResult(1, "srv_1", "web_search", found)
        async for event in scripted("Found.").stream(request):
            if not isinstance(event, StreamStart):
                yield _moved(event)


def _moved(event: ModelEvent) -> ModelEvent:
    """Let the event be about a block after those of the search."""
    if hasattr(event, "block"):
        object.__setattr__(event, "block", 2)
    return event


async def test_a_native_search_is_counted_once(through: Through) -> None:
    metrics, alerts = Metrics(), list[str]()
    agent = hooking(LLM().model(Searching()).web_search("native"), metrics, alerts)

    outcome = await through(agent)

    assert outcome.output == "Found."
    assert (metrics.counts, alerts) == ({"search": 1}, [])


async def test_a_portable_search_is_counted_once(through: Through) -> None:
    async def search(query: str, count: int) -> list[Raw]:
        return [PAGE]

    metrics, alerts = Metrics(), list[str]()
    model = scripted(in_turn([call("web_search", query="loops")], "Found."))
    llm = LLM().model(model).allowed_tools(["WebSearch"]).web_search(search)

    outcome = await through(hooking(llm, metrics, alerts))

    assert outcome.output == "Found."
    assert PAGE["url"] in str(outcome.history[2])
    assert (metrics.counts, alerts) == ({"search": 1}, [])


async def test_a_failure_is_told_to_ops(through: Through) -> None:
    metrics, alerts = Metrics(), list[str]()
    llm = LLM().model(scripted(Unauthorized("no key")))

    with suppress(Unauthorized):
        await through(hooking(llm, metrics, alerts))

    [alert] = alerts
    assert "unauthorized" in alert
    assert metrics.counts == {}


async def test_events_are_injected_around_the_loop(through: Through) -> None:
    outcome = await through(injecting(LLM().model(scripted("Fine."))))

    first, last = outcome.of(Custom)
    assert first.value == {"type": "status", "status": "Working"}
    assert last.value == {"type": "ui", "action": "suggest", "text": "Turn this into a report"}
    texts = [number for number, each in enumerate(outcome.events) if each.type == "text.delta"]
    assert outcome.events.index(first) < texts[0] <= texts[-1] < outcome.events.index(last)


@pytest.fixture
async def service(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Service]:
    """The service that the document's model is asked at, which answers twice."""
    answers = [Answer([reply(said(0, text))]) for text in ("Good day.", "And to you.")]
    async with serving(*answers) as service:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", service.url)
        yield service


Conversation = Callable[[LLM, list[str]], Awaitable[list[Raw]]]
"""Says one thing after the other in one session, and returns what it holds then."""


async def talked_here(llm: LLM, words: list[str]) -> list[Raw]:
    sessions, held = MemorySessions(), list[Raw]()
    for each in words:
        context = ai.Context(messages=[each], chat_id="c", sessions=sessions)
        async for _ in llm.run(context=context):
            pass
        held = context.messages.raw
    return held


def talked_on_workers(link: Link) -> Conversation:
    async def talked(llm: LLM, words: list[str]) -> list[Raw]:
        session_id, held = None, list[Raw]()
        async with milling(link, {"agent": llm}) as mill:
            for each in words:
                ended = await mill.through(said=each, session_id=session_id)
                session_id, held = ended.run.session_id, ended.history
        return held

    return talked


@pytest.fixture(params=["in process", "on workers"])
def talked(request: pytest.FixtureRequest) -> Conversation:
    if request.param == "in process":
        return talked_here
    return talked_on_workers(request.getfixturevalue("link"))


async def test_the_written_out_loop_keeps_what_was_said(
    talked: Conversation, service: Service
) -> None:
    held = await talked(replacing(), ["Hello.", "And now?"])

    assert [each["role"] for each in held] == ["user", "assistant"] * 2
    assert [str(each["content"]).count("Good day.") for each in held] == [0, 1, 0, 0]
    first, second = [asked.body["messages"] for asked in service.asked]
    assert [each["role"] for each in first] == ["user"]
    assert [each["role"] for each in second] == ["user", "assistant", "user"]
    assert "Good day." in str(second[1])
    assert service.asked[0].body["max_tokens"] == 8192


async def test_the_session_does_what_the_document_says(through: Through) -> None:
    long = "word " * 20_000
    history = [{"role": "user", "content": long}, {"role": "assistant", "content": long}]
    model = scripted("<summary>Two long speeches.</summary>")
    seen: list[Session] = []

    async def agent(context: ai.Context) -> AsyncIterator[str]:
        provider = LLM().model(model).provider()
        await body(blocks()[3], content="go on", provider=provider)(context)
        seen.append(await Session.open(context))
        yield "done"

    outcome = await through(agent, [*history, {"role": "user", "content": "go on"}])

    assert outcome.roles == ["user", "assistant", "user"]
    [session] = seen
    assert model.asked == 1
    assert [each["content"] for each in session.messages[::2]] == [long, "go on"]
    first, *_, last = session.context()
    assert "Two long speeches." in first["content"]
    assert last == {"role": "user", "content": "go on"}


async def test_a_provider_of_the_documents_protocol_is_asked(through: Through) -> None:
    protocol: Any = whole(blocks()[4]).Provider

    class Echo(protocol):
        model = "mine/echo"

        async def stream(
            self, *, messages, system, tools, max_tokens, mcp_servers=None, thinking=None
        ):
            yield "You said "
            yield messages[-1]["content"]
            text = f"You said {messages[-1]['content']}"
            yield Turn([{"type": "text", "text": text}], "end_turn", input=3, output=4)

        async def complete(self, *, messages, system, max_tokens):
            return "never asked"

    async def wrapped(context: ai.Context) -> AsyncIterator[Any]:
        async for event in default_loop(context=context, provider=Echo()):
            yield event

    outcomes = [await through(LLM().model(Echo()), "hi"), await through(wrapped, "hi")]

    assert [each.output for each in outcomes] == ["You said hi", "You said hi"]


def test_our_providers_have_what_the_document_names() -> None:
    theirs: Any = whole(blocks()[4]).Provider
    ours = LLM().model(scripted("x")).provider()

    for name in ("stream", "complete"):
        wanted = inspect.signature(getattr(theirs, name)).parameters
        for offered in (getattr(Provider, name), getattr(ours, name)):
            has = inspect.signature(offered).parameters
            takes_any = any(each.kind is each.VAR_KEYWORD for each in has.values())
            assert takes_any or set(wanted) - {"self"} <= set(has)
    assert isinstance(ours.model, str)


def test_nothing_but_import_lines_is_changed() -> None:
    hook, inject, replace, session, provider = blocks()

    for block in (hook, inject, session, provider):
        assert own_lines(block) == block
    kept = own_lines(replace)
    assert replace.endswith(kept.strip("\n") + "\n")
    assert kept.lstrip("\n").startswith("async def my_loop")
    removed = dedent(replace[: replace.index("async def")])
    assert removed.startswith("from ")
    assert removed.strip().endswith(")")


# -- killed in the middle


@pytest.fixture
async def stage(redis_url: str, tmp_path: Path, service: Service) -> AsyncIterator[Stage]:
    """Workers that serve the document's loops, each a process."""
    environment = {**LEASE, "ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": service.url}
    app = "tests.documents.function_loops:app"
    async with stage_on(redis_url, tmp_path, app=app, environment=environment) as stage:
        stage.man()
        yield stage


def in_mid_text(events: list[LogEvent]) -> bool:
    return events[-1].type == "text.delta"


def while_a_tool_runs(events: list[LogEvent]) -> bool:
    return events[-1].type == "tool.started"


@pytest.mark.timeout(120)
@pytest.mark.parametrize("agent", ["hooking", "injecting"])
async def test_a_hooked_loop_survives_its_workers_death(stage: Stage, agent: str) -> None:
    calm, _ = await stage.through(agent)

    for moment in (in_mid_text, while_a_tool_runs):
        stage.man()
        killed, _ = await stage.through(agent, kill_when=moment)

        assert killed.attempts == 2
        assert differences(killed, calm) == []


@pytest.mark.timeout(120)
@pytest.mark.parametrize("moment", [in_mid_text, lambda events: events[-1].type == "turn.started"])
async def test_the_written_out_loop_survives_its_workers_death(
    stage: Stage, service: Service, moment: Moment
) -> None:
    service.answers[:] = [Answer([reply(said(0, "Good ", "day."))], pause=0.05)]
    calm, _ = await stage.through("replacing")

    killed, _ = await stage.through("replacing", kill_when=moment)

    assert (killed.status, killed.attempts, killed.output) == ("completed", 2, "Good day.")
    assert differences(killed, calm) == []
