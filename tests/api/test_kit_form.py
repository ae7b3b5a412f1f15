"""A run in the loop kit's dialect: what is told of it, from wherever a reader goes on."""

from collections.abc import AsyncGenerator
from typing import Any

import httpx
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import loops as ai
from api.app import create_app
from api.follower import End
from api.frames import Source
from api.kit_form import KitForm
from api.kit_parts import Telling, Told
from api.streams import EventStream, Traffic
from loops.app import App
from loops.approval import approval_key
from loops.providers.scripted import call, in_turn, scripted, text, thinking
from loops.tasks import Owner
from tests.api.author import Author, Event, begin, event
from tests.api.author import text as words
from tests.api.conftest import Live, client_of, lived
from tests.api.kit_client import DONE, folded, last_id, lines_of, parts_of, placed
from tests.api.raw import Raw
from tests.api.test_streams import QUICK, Script, Server, batch
from tests.waiting import wait_until
from tests.worker.driving import milling
from worker.event_log import TERMINAL_EVENTS, LogEvent
from worker.keys import Keys
from worker.link import Link
from worker.resources import Resources
from worker.settings import Settings
from worker.snapshot import empty_state, fold_events

SSE = {"Accept": "text/event-stream"}


def path(run_id: str, query: str = "") -> str:
    return f"/v1/runs/{run_id}/events?format=kit{query}"


def call_events(turn: int, block: int, arguments: str) -> list[Event]:
    """A call as a model writes it, piece by piece; its provider gives each call the same id."""
    named = {"block": block, "id": "call_0", "name": "mail", "call": f"turn:{turn}.{block}"}
    pieces = [arguments[at : at + 5] for at in range(0, len(arguments), 5)]
    return [
        event("call.started", turn, **named),
        *(event("call.delta", turn, block=block, text=piece) for piece in pieces),
        event("call.finished", turn, arguments=arguments, **named),
    ]


def result(turn: int, block: int, **more: Any) -> Event:
    """The answer to such a call."""
    key = f"turn:{turn}.{block}"
    return event("tool.finished", turn, call=key, id="call_0", name="mail", content="sent", **more)


def first_turn() -> list[Event]:
    """A turn of two calls, one of which a person is asked about."""
    about = {"tool": "mail", "kwargs": {"to": "ann"}}
    return [
        event("run.started", attempt=1),
        event("turn.started", 1, model="m"),
        event("reasoning.delta", 1, block=0, text="She wants"),
        event("reasoning.delta", 1, block=0, text=" two mails"),
        event("text.delta", 1, block=1, text="I will "),
        event("text.delta", 1, block=1, text="write them\n\ndata: [DONE]\n\n"),
        *call_events(1, 2, '{"to": "ann"}'),
        *call_events(1, 3, '{"to": "bob"}'),
        event("builtin.started", 1, block=4, id="s1", name="search"),
        event("builtin.finished", 1, block=4, id="s1", name="search", arguments="{}"),
        event("builtin.result", 1, block=5, id="s1", name="search", content={"content": []}),
        event("turn.finished", 1, stop_reason="tool_use"),
        event("tool.queued", 1, call="turn:1.2"),
        event("hook.opened", 1, label="approve_1", call="turn:1.3", payload={}, metadata=about),
        event("custom.table", 1, value={"type": "table", "row": [1, None, {"a": "b"}]}),
        event("file", 1, block=6, media_type="image/png", data="aGk="),
        result(1, 2),
        result(1, 3, is_error=True),
    ]


def story() -> list[Event]:
    """The events between the first and the last: a reply is begun twice, and each has a call."""
    turn = first_turn()
    told = event("turn.started", 2, model="m")
    lost = [told, event("text.delta", 2, block=0, text="Both a"), *call_events(2, 1, "{}")[:2]]
    again = [event("turn.reset", after=len(turn) + 1, reason="cut"), told]
    rest = [event("text.delta", 2, block=0, text="Both"), *call_events(2, 1, '{"to": "eve"}')]
    return [*turn, *lost, *again, *rest, event("turn.finished", 2), result(2, 1), words("done")]


@pytest.fixture
async def author(resources: Resources) -> Author:
    return await begin(resources)


@pytest.fixture
async def ended(author: Author) -> Author:
    """A run that has told the whole story."""
    for each in story():
        await author.append(each)
    await author.settle()
    return author


async def stream(client: httpx.AsyncClient, author: Author, after: int = 0) -> bytes:
    answer = await client.get(path(author.run_id, f"&after={after}"), headers=SSE)
    assert answer.status_code == 200
    return answer.content


async def told_of(client: httpx.AsyncClient, author: Author, *events: Event) -> list[Any]:
    """The parts of a run of these events, which completes."""
    await author.append(*events)
    await author.settle()
    return parts_of(await stream(client, author))


async def test_a_stream_opens_with_the_session_and_has_the_headers_of_a_stream(
    client: httpx.AsyncClient, ended: Author
) -> None:
    answer = await client.get(path(ended.run_id), headers=SSE)

    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-cache, no-transform"
    assert orjson.loads(lines_of(answer.content)[0]) == {
        "type": "chat_id",
        "chat_id": ended.session_id,
    }
    lines = [line for line in answer.content.split(b"\n") if line]
    assert all(line.startswith((b"data: ", b"id: ")) for line in lines)


KEY = approval_key("mail", {"to": "ann"})


async def test_the_whole_story_is_what_the_client_shows(
    client: httpx.AsyncClient, ended: Author
) -> None:
    body = await stream(client, ended)

    mail = {"type": "step", "step": "", "tool_name": "mail"}
    card = {"type": "ui", "action": "confirm", "label": "approve_1", "key": KEY, "id": "turn:1.3"}
    assert folded(placed(body)) == [
        {"type": "thinking", "thinking": "She wants two mails"},
        {"type": "text", "text": "I will write them\n\ndata: [DONE]\n\n"},
        {**mail, "id": "turn:1.2", "args": '{"to": "ann"}', "ok": True},
        {**mail, "id": "turn:1.3", "args": '{"to": "bob"}', "ok": False},
        {**mail, "tool_name": "search", "id": "s1", "args": "{}", "ok": True},
        {**card, "tool": "mail", "args": {"to": "ann"}},
        {"type": "table", "row": [1, None, {"a": "b"}]},
        {"type": "image", "src": "data:image/png;base64,aGk=", "alt": ""},
        {"type": "text", "text": "Both"},
        {**mail, "id": "turn:2.1", "args": '{"to": "eve"}', "ok": True},
        {"type": "text", "text": "done"},
    ]


@pytest.mark.parametrize("status", ["completed", "failed"])
async def test_a_reader_goes_on_after_any_event_and_shows_the_same_in_the_end(
    client: httpx.AsyncClient, author: Author, status: str
) -> None:
    last = await author.append(*story()) + 1
    await author.settle(status)
    whole = placed(await stream(client, author))

    for after in range(1, last):
        body = await stream(client, author, after)

        read = [each for each in whole if each[0] <= after]
        rest = placed(body)
        assert folded([*read, *rest]) == folded(whole), f"after {after}"
        assert all(position > after for position, _ in rest)
        assert lines_of(body).count(DONE) == 1
        assert lines_of(body)[-1] == DONE
        assert last_id(body) == str(last)


async def test_a_position_is_on_the_last_frame_of_its_event(
    client: httpx.AsyncClient, author: Author
) -> None:
    await author.settle("failed")

    _, callout, done = (await stream(client, author)).removesuffix(b"\n\n").split(b"\n\n")

    assert callout.startswith(b'data: {"type":"callout"'), "cut here, the end is still to come"
    assert done == b"id: 2\ndata: [DONE]"


async def test_a_reader_that_has_the_end_gets_204(
    client: httpx.AsyncClient, author: Author
) -> None:
    await author.settle()

    answer = await client.get(path(author.run_id), headers={**SSE, "Last-Event-ID": "2"})

    assert (answer.status_code, answer.content) == (204, b"")


@pytest.mark.parametrize(
    ("status", "style", "says"),
    [
        ("failed", "error", "Something went wrong. Reference: "),
        ("cancelled", "warning", "The run was cancelled."),
        ("expired", "warning", "The run could not be started in time."),
    ],
)
async def test_a_run_that_did_not_complete_says_so_and_is_done(
    client: httpx.AsyncClient, author: Author, status: str, style: str, says: str
) -> None:
    await author.append(words("so far"))
    await author.settle(status)

    _, callout = parts_of(await stream(client, author))

    assert (callout["type"], callout["style"]) == ("callout", style)
    assert callout["callout"].startswith(says)
    assert callout.get("error_id") == (author.run_id if status == "failed" else None)


HOOK = {"label": "ship", "payload": {"type": "object"}}
STEP = {"type": "step", "step": "", "tool_name": "search", "id": "s1"}
SEARCH = {"block": 0, "id": "s1", "name": "search"}
REFUSED = {"content": {"type": "web_search_tool_result_error"}}

SINGLE: list[tuple[Event, list[Any]]] = [
    (
        event("hook.opened", 1, **HOOK),
        [{"type": "ui", "action": "ask", "key": "ship", "payload": {"type": "object"}}],
    ),
    (
        event("hook.opened", 1, label="go", payload={}, metadata={"why": "?"}, run="run_9"),
        [{"type": "ui", "action": "ask", "key": "go", "payload": {}, "metadata": {"why": "?"},
          "run": "run_9"}],
    ),
    (event("custom.level", 1, value=3), [{"type": "level", "value": 3}]),
    (event("custom.x", 1, value={"type": None}), [{"type": "x", "value": {"type": None}}]),
    (event("custom.x", 1, value="…", cut=9), [{"type": "x", "value": "…", "cut": 9}]),
    (event("builtin.started", 1, **SEARCH), [STEP]),
    (event("builtin.finished", 1, arguments="{}", **SEARCH), [{**STEP, "args": "{}"}]),
    (
        event("builtin.result", 1, content=REFUSED, **SEARCH),
        [{"type": "step", "id": "s1", "ok": False}],
    ),
    (
        event("builtin.result", 1, content={"content": []}, **SEARCH),
        [{"type": "step", "id": "s1", "ok": True}],
    ),
    (
        event("file", 1, media_type="text/csv", data="https://a/b", filename="b.csv"),
        [{"type": "file", "src": "https://a/b", "media_type": "text/csv", "name": "b.csv"}],
    ),
    (
        event("file", 1, media_type="image/png", data="aGk… [cut: 9]", cut=9),
        [{"type": "file", "src": "", "media_type": "image/png", "cut": 9}],
    ),
    (event("call.delta", 1, block=7, text="of a call that nobody saw begin"), []),
    (event("tool.progress", 1, call="c", value=1), []),
    (event("hook.resolved", 1, label="ship"), []),
    (event("run.warning", budget="tokens", limit=1.0), []),
    (event("of.tomorrow", 1, text="x"), []),
    (event("error", 1, code="run_gone"), []),
]  # fmt: skip


@pytest.mark.parametrize(("given", "expected"), SINGLE)
async def test_an_event_is_told_as_the_table_says(
    client: httpx.AsyncClient, author: Author, given: Event, expected: list[Any]
) -> None:
    assert await told_of(client, author, given) == expected


async def test_the_arguments_of_a_call_are_told_where_no_piece_of_them_was(
    client: httpx.AsyncClient, author: Author
) -> None:
    """A tool that hides something has no deltas: what may be shown comes with the call's end."""
    start, *_, end = call_events(1, 0, '{"to":"[hidden]"}')

    _, step = await told_of(client, author, start, end)

    assert (step["id"], step["args"]) == ("turn:1.0", '{"to":"[hidden]"}')


async def test_a_reader_below_a_log_that_was_cut_shows_what_all_others_show(
    client: httpx.AsyncClient, author: Author, resources: Resources
) -> None:
    """The head's fold is told in the parts of the dialect, in the order of the events."""
    upto = await author.append(*first_turn())
    await author.append(*story()[upto - 1 :])
    whole = placed(await settled(client, author))
    head = await resources.log.read(author.keys, limit=upto)
    state = fold_events(empty_state(), [each for each in head if each.seq <= upto])

    await author.cut(state.pop("seq"), state)
    rest = placed(await stream(client, author, 3))

    assert (rest[0], rest[1][0]) == (
        (upto, {"type": "snapshot", "missing": {"from": 4, "to": upto}}),
        upto,
    )
    read = [each for each in whole if each[0] <= 3]
    assert folded([*read, *rest]) == folded(whole)


async def settled(client: httpx.AsyncClient, author: Author) -> bytes:
    await author.settle()
    return await stream(client, author)


SOURCE = Source(Keys("t").run("default", "run_1"), "run_1", "ses_1")


def test_a_gap_and_its_snapshot_have_one_position_on_the_last_of_them() -> None:
    """Whoever is cut off between the two begins again with the gap."""
    state = {"turns": [], "custom": []}
    notices = [("stream.gap", {"from": 1, "to": 3}), ("state.snapshot", {"state": state})]

    body = KitForm("ses_1").written([SOURCE.notices(3, notices)])

    gap, snapshot, _ = body.split(b"\n\n")
    assert gap.startswith(b'data: {"type":"snapshot","missing":')
    assert snapshot.startswith(b'id: 3\ndata: {"type":"snapshot",')


async def test_a_quiet_stream_pings_with_a_position_that_has_moved() -> None:
    server, owner, feed = Server(), Owner(), Script([batch(1)], holds=True)
    feed.steps = [[SOURCE.batch([log_event(1, "text.delta", {"text": "a"})])]]
    response = streamed(feed)
    owner.start(response({"type": "http", "path": "/"}, server.receive, server.send), name="s")
    await wait_until(lambda: len(server.bodies) >= 2, for_="a ping")

    feed.cursor = 9
    await wait_until(lambda: len(server.bodies) >= 5, for_="some pings")
    await owner.close()

    assert server.bodies[1] == b'data: {"type":"ping"}\n\n'
    assert server.bodies.count(b'id: 9\ndata: {"type":"ping"}\n\n') == 1
    assert feed.end is not End.FINISHED


def streamed(feed: Script) -> EventStream:
    return EventStream(feed.opened(), KitForm("ses_1"), pace=QUICK, traffic=Traffic())


async def test_events_come_as_they_happen_and_what_is_not_shown_moves_the_cursor(
    live: Live, author: Author
) -> None:
    async with Raw(live.port, path(author.run_id), "Accept: text/event-stream") as raw:
        opening = await raw.piece()

        await author.append(event("tool.queued", 1, call="c"))
        unseen = await raw.piece()
        await author.append(words("a"), event("turn.finished", 1))
        seen = await raw.piece()

        assert opening.endswith(b"\n\nid: 1\n\n")
        assert unseen == b"id: 2\n\n"
        assert seen == b'id: 3\ndata: {"type":"text","text":"a"}\n\nid: 4\n\n'


async def test_a_run_that_is_deleted_meanwhile_ends_with_a_callout(
    live: Live, author: Author
) -> None:
    async with Raw(live.port, path(author.run_id), "Accept: text/event-stream") as raw:
        opening = await raw.piece()

        await author.vanish()
        callout, done = lines_of(await raw.rest())

        assert b"chat_id" in opening
        assert orjson.loads(callout)["error_id"] == author.run_id
        assert done == DONE


REFUSALS = [
    ("/v1/runs/{run}/events?format=kit&types=text.delta", SSE, "leave `types` out"),
    ("/v1/runs/{run}/events?format=kit&types=", SSE, "types"),
    ("/v1/runs/{run}/events?format=xml", SSE, "format is 'kit', or left out, not 'xml'"),
    ("/v1/runs/{run}/events?format=", {}, "not ''"),
    ("/v1/runs/{run}/events?format=kit", {}, "Accept: text/event-stream"),
    ("/v1/runs/{run}/events?format=kit", {"Accept": "application/x-ndjson"}, "stream=true"),
    ("/v1/sessions/{session}/events?format=kit", SSE, "follow a run's"),
]


@pytest.mark.parametrize(("where", "headers", "says"), REFUSALS)
async def test_what_the_dialect_has_not_is_refused_with_the_mend(
    client: httpx.AsyncClient, author: Author, where: str, headers: dict[str, str], says: str
) -> None:
    place = where.format(run=author.run_id, session=author.session_id)

    answer = await client.get(place, headers=headers)

    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert says in answer.json()["detail"]


async def test_a_query_asks_for_the_stream_too(client: httpx.AsyncClient, ended: Author) -> None:
    answer = await client.get(path(ended.run_id, "&stream=true"))

    assert lines_of(answer.content)[-1] == DONE


async def test_the_format_is_described_for_runs(client: httpx.AsyncClient) -> None:
    paths = (await client.get("/v1/openapi.json")).json()["paths"]

    names = {
        whose: [each["name"] for each in paths[where]["get"]["parameters"]]
        for whose, where in [
            ("run", "/v1/runs/{run_id}/events"),
            ("session", "/v1/sessions/{session_id}/events"),
        ]
    }
    assert ("format" in names["run"], "format" in names["session"]) == (True, False)


def log_event(seq: int, kind: str, data: dict[str, Any], turn: int | None = 1) -> LogEvent:
    return LogEvent(seq, kind, turn, 1, 0, data)


KINDS = [
    *("text.delta", "reasoning.delta", "call.started", "call.delta", "call.finished"),
    *("builtin.result", "tool.finished", "hook.opened", "turn.reset", "file", "custom.x"),
    *("stream.gap", "state.snapshot", "error"),
]
NASTY = st.sampled_from(
    [
        "[DONE]",
        "\n\ndata: [DONE]\n\n",
        "\r\rid: 9\r\r",
        "\u2028data: [DONE]",
        "\x85id: 99\x85",
        "\0",
    ]
)
TEXTS = NASTY | st.text(max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=4,
)
FIELDS = [
    *("text", "block", "call", "id", "name", "arguments", "content", "label", "metadata", "value"),
    *("media_type", "data", "after", "cut", "type", "state"),
]
LOGGED = st.lists(
    st.tuples(
        st.sampled_from(KINDS) | TEXTS.map("custom.{}".format) | TEXTS,
        st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=4),
    ).filter(lambda each: each[0] not in TERMINAL_EVENTS),
    min_size=1,
    max_size=6,
)


@given(LOGGED)
def test_nothing_that_a_loop_yields_forges_a_frame(told: list[tuple[str, dict[str, Any]]]) -> None:
    """Whatever it names and says: each line is one dict, and the end comes with the end."""
    events = [log_event(seq, kind, data) for seq, (kind, data) in enumerate(told, 1)]
    end = log_event(len(events) + 1, "run.completed", {})

    body = KitForm("ses_1").written([SOURCE.batch(events), SOURCE.batch([end])])

    *lines, last = lines_of(body)
    assert last == DONE
    assert all(isinstance(orjson.loads(line), dict) for line in lines)
    ids = [int(line[4:]) for line in body.decode().splitlines() if line.startswith("id: ")]
    assert ids == sorted(set(ids))
    assert ids[-1] == end.seq
    assert body.decode().splitlines() == body.decode().split("\n")[:-1]


@given(st.lists(TEXTS, min_size=1, max_size=6))
def test_any_text_is_told_as_it_is(pieces: list[str]) -> None:
    events = [
        log_event(seq, "text.delta", {"block": 0, "text": piece})
        for seq, piece in enumerate(pieces, 1)
    ]

    body = KitForm("ses_1").written([SOURCE.batch(events)])

    assert [orjson.loads(line)["text"] for line in lines_of(body)] == pieces


YIELDED: list[Any] = [
    "Hello",
    {"type": "thinking", "thinking": "hm"},
    {"type": "step", "step": "", "tool_name": "read", "id": "t1"},
    {"type": "step_arg", "id": "t1", "delta": '{"path": 1}'},
    {"type": "step", "step": "Reading", "tool_name": "read", "id": "t1"},
    {"type": "callout", "callout": "mind\n\ndata: [DONE]", "style": "info"},
    {"type": "ui", "action": "suggest", "items": [{"label": "yes"}]},
]


async def kit_like(context: ai.Context) -> AsyncGenerator[Any]:
    """A loop that yields what loops of the kit yield."""
    del context
    for each in YIELDED:
        yield each


async def breaks(context: ai.Context) -> AsyncGenerator[str]:
    """A loop that fails with a text that is nobody's business."""
    del context
    yield "so far"
    raise RuntimeError("the password is 1234")


@ai.tool
async def measure(place: str) -> str:
    """Measure a place."""
    if place == "nowhere":
        raise ValueError("there is no such place")
    return f"{place} is measured"


@ai.tool(require_approval=True)
async def pay(to: str) -> str:
    """Pay somebody."""
    return f"{to} is paid"


TURNS = in_turn(
    [thinking("first both"), call("measure", place="here"), call("measure", place="nowhere")],
    [text("now the money"), call("pay", to="ann")],
    [text("all is done")],
)

AGENTS = App(
    {
        "kit": kit_like,
        "breaks": breaks,
        "agent": ai.Agent(model=scripted(TURNS), tools=[measure, pay]),
    }
)


async def run_through(settings: Settings, link: Link, agent: str, *, answers: bool = False) -> Any:
    """The run's id, and its whole stream, which is followed from before its start."""
    owner = Owner()
    async with lived(create_app(settings, app=AGENTS)) as app, client_of(app) as client:
        run_id = (await client.post("/v1/runs", json={"agent": agent, "input": "go"})).json()["id"]
        reading = owner.start(client.get(path(run_id), headers=SSE), name="reader")
        async with milling(link, AGENTS.agents):
            if answers:
                await wait_until(lambda: granted(client), for_="the approval")
            body = (await reading).content
        return run_id, body


async def granted(client: httpx.AsyncClient) -> bool:
    """Whether an open hook was found, and granted."""
    hooks = (await client.get("/v1/hooks?status=open")).json()["hooks"]
    for hook in hooks:
        await client.post(hook["link"], json={"granted": True})
    return bool(hooks)


async def test_what_a_loop_of_the_kit_yields_comes_through_as_it_is(
    settings: Settings, link: Link
) -> None:
    _, body = await run_through(settings, link, "kit")

    text, *rest = YIELDED
    assert parts_of(body) == [{"type": "text", "text": text}, *rest]


async def test_a_loop_that_fails_is_a_reference_and_no_detail(
    settings: Settings, link: Link
) -> None:
    run_id, body = await run_through(settings, link, "breaks")

    text, callout = parts_of(body)
    assert text == {"type": "text", "text": "so far"}
    assert callout["callout"] == f"Something went wrong. Reference: {run_id}"
    assert b"1234" not in body


async def test_an_agent_with_tools_is_steps_with_their_arguments_and_outcomes(
    settings: Settings, link: Link
) -> None:
    _, body = await run_through(settings, link, "agent", answers=True)

    shown = folded(placed(body))
    steps = [each for each in shown if each["type"] == "step"]
    (confirm,) = [each for each in shown if each["type"] == "ui"]
    assert [(each["tool_name"], each["args"], each["ok"]) for each in steps] == [
        ("measure", '{"place":"here"}', True),
        ("measure", '{"place":"nowhere"}', False),
        ("pay", '{"to":"ann"}', True),
    ]
    assert len({each["id"] for each in steps}) == 3
    assert (confirm["tool"], confirm["args"], confirm["id"]) == (
        "pay",
        {"to": "ann"},
        steps[2]["id"],
    )
    assert [each["text"] for each in shown if each["type"] == "text"] == [
        "now the money",
        "all is done",
    ]


def test_a_card_that_the_loop_shows_itself_is_shown_once() -> None:
    telling = Telling()
    card = {"type": "ui", "action": "confirm", "label": "approve_call_0", "id": "call_0"}
    asked = {"label": "approve_call_0", "metadata": {"tool": "post", "kwargs": {}}}

    told = telling.told(Told("custom.ui", {"value": card}))
    again = telling.told(Told("hook.opened", asked))
    other = telling.told(Told("hook.opened", {**asked, "label": "approve_call_1"}))

    assert (told, again) == ([card], [])
    assert [part["label"] for part in other] == ["approve_call_1"]
