from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

import loops as ai
from loops.errors import InvalidRequest, SetupError
from loops.kit import LLM, Limits, Session, build_tools, default_loop, make_provider
from loops.kit.toolbox import BRAVE_KEY, NATIVE
from loops.kit.turn import Turn
from loops.providers.scripted import scripted
from loops.runtime import active_scope
from loops.tools import tool
from tests.kit.loop_talks import CALL, asking, kept, of, others, roles, texts
from tests.kit.providers import ScriptedProvider
from tests.kit.weather import WEATHER, weather
from tests.loops.providers.service import Answer, serving


class Source:
    """A server that offers nothing."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def discover(self) -> list[dict[str, Any]]:
        return []

    def tool(self) -> Any:
        @tool(name=f"mcp_{self.name}")
        async def through() -> str:
            """Do nothing."""
            return ""

        return through


async def told_to(llm: LLM, **fields: Any) -> dict[str, Any]:
    """Return what a loop is told of the agent."""
    told: dict[str, Any] = {}

    async def own(**options: Any) -> AsyncIterator[Any]:
        told.update(options)
        yield ""

    _ = [each async for each in llm.model("a/b").loop(own).run(context=asking(**fields))]
    return told


WORDS: list[tuple[Callable[[LLM], LLM], str, Any]] = [
    (lambda llm: llm.system("Be kind."), "system", "Be kind."),
    (lambda llm: llm.tools([WEATHER]), "tools", [WEATHER]),
    (lambda llm: llm.allowed_tools(["Editor"]), "allowed_tools", ["Editor"]),
    (lambda llm: llm.max_tokens(9), "max_tokens", 9),
    (lambda llm: llm.context(99), "context_window", 99),
    (lambda llm: llm.bash_timeout(9.0), "bash_timeout", 9.0),
    (lambda llm: llm.base_url("http://x"), "base_url", "http://x"),
    (lambda llm: llm.api_key("k"), "api_key", "k"),
    (lambda llm: llm.headers({"a": "b"}), "headers", {"a": "b"}),
    (lambda llm: llm.extra_body({"a": 1}), "extra_body", {"a": 1}),
    (lambda llm: llm.thinking("high"), "thinking", "high"),
    (lambda llm: llm.vision(enabled=False), "vision", False),
    (lambda llm: llm.web_search("native"), "web_search", "native"),
    (lambda llm: llm.titles(), "titles", True),
    (lambda llm: llm.limits(steps=3), "limits", Limits(steps=3)),
    (lambda llm: llm.on("weather", weather), "handlers", {"weather": weather}),
]


@pytest.mark.parametrize(("say", "name", "value"), WORDS, ids=[each[1] for each in WORDS])
async def test_each_word_gives_a_new_agent_and_leaves_the_old_one(
    say: Callable[[LLM], LLM], name: str, value: Any
) -> None:
    llm = LLM()
    before = await told_to(llm)

    after = await told_to(say(llm))

    assert after[name] == value
    assert before.get(name) != value
    again = await told_to(llm)
    assert {each: again[each] for each in again if each != "context"} == {
        each: before[each] for each in before if each != "context"
    }


async def test_what_nobody_says_is_as_usual() -> None:
    told = await told_to(LLM())

    unsaid = ("max_tokens", "context_window", "price", "base_url", "api_key", "headers", "tools")
    assert [told[name] for name in unsaid] == [None] * 7
    assert (told["system"], told["thinking"], told["vision"]) == ("", "adaptive", True)
    assert (told["allowed_tools"], told["handlers"], told["auto"]) == ([], {}, True)


async def test_tools_replace_and_servers_and_handlers_add_up() -> None:
    one, other = Source("one"), Source("other")
    llm = LLM().tools([WEATHER]).tools([]).allowed_tools(["Bash"]).allowed_tools(["Editor"])
    llm = llm.mcp(one).mcp(other).on("a", weather).on("b", weather)

    told = await told_to(llm)

    assert told["tools"] == []
    assert told["allowed_tools"] == ["Editor"]
    assert told["mcp"] == [one, other]
    assert sorted(told["handlers"]) == ["a", "b"]


async def test_what_is_given_is_copied() -> None:
    tools, headers = [WEATHER], {"a": "b"}
    llm = LLM().tools(tools).headers(headers)

    tools.clear()
    headers.clear()

    told = await told_to(llm)
    assert (told["tools"], told["headers"]) == ([WEATHER], {"a": "b"})


async def test_headers_and_fields_are_taken_back_by_none() -> None:
    told = await told_to(
        LLM().headers({"a": "b"}).headers(None).extra_body({"a": 1}).extra_body({})
    )

    assert (told["headers"], told["extra_body"]) == (None, None)


async def test_prices_are_said_by_name() -> None:
    told = await told_to(LLM().price(input=1.0, cache_read=0.1))

    assert told["price"] == {"input": 1.0, "output": 0.0, "cache_read": 0.1, "cache_write": 0.0}
    with pytest.raises(TypeError):
        LLM().price(1.0)


async def test_a_person_can_only_take_tools_away() -> None:
    context = asking()
    context.disabled_tools = ["Bash", "WebFetch"]
    told: list[Any] = []

    async def own(*, allowed_tools: list[str], **_: Any) -> AsyncIterator[Any]:
        told.extend(allowed_tools)
        yield ""

    llm = LLM().model("a/b").allowed_tools(["Bash", "Editor"]).loop(own)
    _ = [each async for each in llm.run(context=context)]

    assert told == ["Editor"]


async def test_what_the_person_has_said_reaches_the_loop() -> None:
    told = await told_to(LLM(), approvals=["a"], declined=["b"], auto=False)

    assert (told["approvals"], told["declined"], told["auto"]) == (("a",), ("b",), False)


async def test_an_agent_without_a_model_says_so_when_it_is_read() -> None:
    events = LLM().run(context=asking())

    with pytest.raises(SetupError, match="the agent has no model"):
        await anext(events)
    with pytest.raises(SetupError, match="the agent has no model"):
        LLM().provider()


@pytest.mark.parametrize(
    ("name", "handler"), [("two words", weather), ("t", "text"), ("t", lambda: "nothing")]
)
def test_a_handler_that_cannot_be_called_is_refused_at_once(name: str, handler: Any) -> None:
    with pytest.raises(SetupError):
        LLM().on(name, handler)


async def test_a_loop_of_ones_own_is_asked_and_its_turn_taken_out() -> None:
    context = asking("Hello?")
    turn = Turn([{"type": "text", "text": "Hi."}], "end_turn")

    async def own(*, context: Any, **_: Any) -> AsyncIterator[Any]:
        session = await Session.open(context)
        await session.add_user(context.messages.raw[-1]["content"])
        yield {"type": "status", "status": "x"}
        yield turn
        yield turn
        yield "Hi."
        await session.checkpoint()

    events = [each async for each in LLM().model("a/b").loop(own).run(context=context)]

    assert events == [{"type": "status", "status": "x"}, "Hi."]
    assert roles(await kept(context)) == ["user", "assistant"]


async def test_a_loop_around_the_default_one_passes_on_all_that_it_is_told() -> None:
    async def around(**options: Any) -> AsyncIterator[Any]:
        async for event in default_loop(**options):
            yield event
        yield "!"

    provider = ScriptedProvider([[CALL], "Fine."])
    llm = LLM().model(provider).tools([WEATHER]).on("weather", weather).loop(around)

    events = [each async for each in llm.run(context=asking())]

    assert texts(events) == "sunny in RomeFine.!"


async def test_what_a_loop_raises_reaches_the_reader() -> None:
    async def broken(**_: Any) -> AsyncIterator[Any]:
        yield "One."
        raise ZeroDivisionError

    events = LLM().model("a/b").loop(broken).run(context=asking())

    assert await anext(events) == "One."
    with pytest.raises(ZeroDivisionError):
        await anext(events)


async def test_the_surroundings_are_the_loops_and_not_its_readers() -> None:
    context = asking()
    seen: list[Any] = []

    async def own(**_: Any) -> AsyncIterator[Any]:
        try:
            seen.append(active_scope())
            yield "One."
        finally:
            seen.append(active_scope())

    events = LLM().model("a/b").loop(own).run(context=context)
    await anext(events)
    outside = active_scope()
    await events.aclose()

    assert outside is None
    assert [scope.context for scope in seen] == [context, context]
    assert others() == set()


@pytest.mark.parametrize("vendor", ["openai", "anthropic"])
async def test_the_address_the_key_and_the_headers_are_the_programs(vendor: str) -> None:
    async with serving(Answer(status=400)) as service:
        llm = LLM().model(f"{vendor}/x").base_url(service.url).api_key("secret-key")
        events = llm.headers({"X-Trace": "7"}).run(context=asking())

        with pytest.raises(InvalidRequest):
            _ = [each async for each in events]

    [asked] = service.asked
    assert asked.headers["x-trace"] == "7"
    assert "secret-key" in str(asked.headers)
    assert asked.body["model"] == "x"


async def test_the_fields_of_ones_own_are_sent_and_go_first() -> None:
    async with serving(Answer(status=400)) as service:
        llm = LLM().model("openai/x").base_url(service.url).api_key("secret-key").max_tokens(7)
        events = llm.extra_body({"seed": 3, "model": "y"}).run(context=asking())

        with pytest.raises(InvalidRequest):
            _ = [each async for each in events]

    [asked] = service.asked
    assert (asked.body["seed"], asked.body["model"]) == (3, "y")
    assert asked.body["max_tokens"] == 7


@pytest.mark.parametrize(
    ("model", "words"),
    [("nothing", "vendor/model"), ("acme/x", "no provider is registered for the vendor 'acme'")],
)
def test_a_model_that_there_is_not_is_refused(model: str, words: str) -> None:
    with pytest.raises(SetupError, match=words):
        make_provider(model)


def test_a_connection_that_is_none_is_refused() -> None:
    with pytest.raises(SetupError, match="not with 'proxy'"):
        make_provider("openai/x", proxy="http://x")
    with pytest.raises(SetupError, match="reached in its own way"):
        make_provider(scripted("x"), base_url="http://x")


def test_an_agent_tells_its_tools_to_an_app() -> None:
    llm = LLM().tools([WEATHER]).on("weather", weather).allowed_tools(["Editor"]).mcp(Source("m"))

    assert [each.name for each in llm.agent_tools()] == ["read", "edit", "mcp_m", "weather"]
    assert isinstance(ai.App(agents={"chat": llm.model(scripted("x"))}), ai.App)


async def test_a_picture_is_a_line_to_a_model_that_sees_none() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    said = [{"type": "text", "text": "See."}, {"type": "image", "source": source}]
    provider = ScriptedProvider(["I see nothing."])
    context = asking({"role": "user", "content": said})

    _ = [each async for each in LLM().model(provider).vision(enabled=False).run(context=context)]

    [asked] = provider.asked
    assert [each["type"] for each in asked["messages"][0]["content"]] == ["text", "text"]
    assert (await kept(context))[0]["content"] == said


def names(tools: list[dict[str, Any]]) -> list[str]:
    """Return what the tools are called."""
    return [each["name"] for each in tools]


def test_tools_are_those_that_are_allowed_in_their_order() -> None:
    assert build_tools([], []) == []
    assert names(build_tools(["WebFetch", "Editor", "Nothing", "Bash"], [WEATHER])) == [
        *("web_fetch", "read", "edit", "bash"),
        "weather",
    ]
    assert all("cache_control" not in each for each in build_tools(["Editor"], [WEATHER]))


def test_tools_of_ones_own_take_one_form() -> None:
    @tool
    async def ready(city: str) -> str:
        """Say it."""
        return city

    schema = {"type": "object", "properties": {}}
    typed = {"type": "computer_20250124", "name": "computer"}
    given = [{"name": "a", "inputSchema": schema}, {"name": "b"}, typed, ready]

    first, second, third, fourth = build_tools([], given)

    described = {"type": "custom", "description": ""}
    assert first == {**described, "name": "a", "input_schema": schema}
    assert second == {**described, "name": "b", "input_schema": {"type": "object"}}
    assert third == typed
    assert (fourth["name"], fourth["description"]) == ("ready", "Say it.")


@pytest.mark.parametrize(
    ("vendor", "mode", "key", "offered"),
    [
        (None, "brave", "k", ["web_search", "web_fetch"]),
        ("anthropic", "brave", "k", ["web_search", "web_fetch"]),
        ("acme", "brave", "k", ["web_search", "web_fetch"]),
        ("acme", "brave", None, ["web_search", "web_fetch"]),
        ("anthropic", "brave", None, [NATIVE]),
        (None, "native", "k", [NATIVE]),
        ("acme", "native", "k", []),
        ("anthropic", lambda query, count: [], None, ["web_search", "web_fetch"]),
    ],
)
def test_who_searches_hangs_on_the_model_and_the_key(
    monkeypatch: pytest.MonkeyPatch, vendor: str | None, mode: Any, key: str | None, offered: Any
) -> None:
    monkeypatch.delenv(BRAVE_KEY, raising=False)
    if key is not None:
        monkeypatch.setenv(BRAVE_KEY, key)

    tools = build_tools(["WebSearch"], [], vendor=vendor, web_search=mode)

    assert tools == offered or names(tools) == offered


async def test_a_search_of_ones_own_answers_the_model(tmp_path: Path) -> None:
    asked: list[Any] = []

    def search(query: str, count: int) -> list[dict[str, str]]:
        asked.append(query)
        return [{"title": "Loops", "url": "https://example.org", "snippet": "All of them."}]

    block = {"type": "tool_use", "id": "s", "name": "web_search", "input": {"query": "loops"}}
    context = asking(workspace=tmp_path)
    llm = LLM().model(ScriptedProvider([[block], "Found."])).allowed_tools(["WebSearch"])

    events = [e async for e in llm.web_search(search).run(context=context)]

    assert asked == ["loops"]
    assert "All of them." in str((await kept(context))[2])
    assert [each["tool_name"] for each in of(events, "step") if "tool_name" in each] == [
        "web_search"
    ]
