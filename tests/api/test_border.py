"""Who is let in, and what they see: every route, every way to show a key, every tenant."""

import re
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
from pydantic import SecretStr
from starlette.routing import Route

from api.app import ROUTERS, STREAMS, Api, create_app
from tests.api.author import Author, begin, text
from tests.api.conftest import AGENTS, client_of, lived
from worker.resources import Resources
from worker.settings import Settings

KEYS = (SecretStr("acme:alpha"), SecretStr("globex:beta"))
OPEN = {"/healthz", "/readyz"}
PAGE = "https://app.example.com"
NAMED = re.compile(r"\(\?P<(\w+)>.*\)")


@pytest.fixture
async def locked(redis_url: str) -> AsyncIterator[Api]:
    """An API with the keys of two tenants, and one page that may call it."""
    url = SecretStr(redis_url)
    settings = Settings(redis_url=url, namespace="t", api_keys=KEYS, cors_origins=(PAGE,))
    async with lived(create_app(settings, app=AGENTS)) as app:
        yield app


@pytest.fixture
async def stranger(locked: Api) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(locked) as client:
        yield client


@pytest.fixture
async def acme(resources: Resources) -> Author:
    """A run of the tenant `acme`."""
    author = await begin(resources, tenant="acme", session_id="ses_acme")
    await author.append(text("a secret of acme"))
    return author


def routes(run_id: str, session_id: str = "ses_acme") -> Iterator[tuple[str, str]]:
    """Every method and path that the application has."""
    found = [(route.method, NAMED.sub(r"{\1}", path)) for path, route in STREAMS.items()]
    for router in ROUTERS:
        for route in router.routes:
            assert isinstance(route, Route)
            path = route.path.replace(":path}", "}")
            found += [(method, path) for method in sorted(route.methods or ())]
    for method, path in found:
        named = path.replace("{run_id}", run_id).replace("{session_id}", session_id)
        yield method, named.replace("{label}", "ship")


def test_the_matrix_holds_all_routes() -> None:
    assert len(list(routes("run_1"))) >= 21


ALPHA: dict[str, dict[str, str]] = {
    "bearer": {"Authorization": "Bearer alpha"},
    "x-api-key": {"x-api-key": "alpha"},
    "both": {"Authorization": "Bearer alpha", "x-api-key": "alpha"},
}
REFUSED: dict[str, dict[str, str | bytes]] = {
    "nothing": {},
    "an unknown key": {"Authorization": "Bearer gamma"},
    "an unknown x-api-key": {"x-api-key": "gamma"},
    "two that differ": {"Authorization": "Bearer alpha", "x-api-key": "beta"},
    "another scheme": {"Authorization": "Basic YWxwaGE="},
    "no text at all": {"x-api-key": b"\xff\xfe"},
    "a key in another script": {"Authorization": "Bearer ключ".encode()},
}


@pytest.mark.parametrize("shown", REFUSED.values(), ids=REFUSED.keys())
async def test_no_route_answers_without_a_known_key(
    locked: Api, acme: Author, shown: dict[str, str | bytes]
) -> None:
    bodies = set[bytes]()
    async with client_of(locked) as client:
        for method, path in routes(acme.run_id):
            if path not in OPEN:
                answer = await client.request(method, path, headers=httpx.Headers(shown))
                assert answer.status_code == 401, f"{method} {path}"
                assert answer.headers["www-authenticate"] == "Bearer"
                bodies.add(answer.content)

    forms = 3  # problem JSON, and the errors of two protocols
    assert len({body for body in bodies if body}) == forms, "the answer tells nothing of the route"


async def test_a_path_that_does_not_exist_asks_for_a_key_too(stranger: httpx.AsyncClient) -> None:
    assert (await stranger.get("/v1/secrets")).status_code == 401
    assert (await stranger.get("/metrics")).status_code == 401
    assert (await stranger.get("/v1/openapi.json")).status_code == 401


async def test_health_is_open_to_everybody(stranger: httpx.AsyncClient) -> None:
    assert (await stranger.get("/healthz")).status_code == 200
    assert (await stranger.get("/readyz")).status_code == 200


@pytest.mark.parametrize("shown", ALPHA.values(), ids=ALPHA.keys())
async def test_every_style_of_a_key_opens_its_tenants_runs(
    stranger: httpx.AsyncClient, acme: Author, shown: dict[str, str]
) -> None:
    run = await stranger.get(f"/v1/runs/{acme.run_id}", headers=shown)
    events = await stranger.get(f"/v1/runs/{acme.run_id}/events", headers=shown)

    assert run.json()["id"] == acme.run_id
    assert "a secret of acme" in events.text


async def test_a_key_in_the_address_is_refused(stranger: httpx.AsyncClient, acme: Author) -> None:
    for name in ("api_key", "key", "access_token", "token"):
        bare = await stranger.get(f"/v1/runs/{acme.run_id}?{name}=alpha")
        beside = await stranger.get(f"/v1/runs/{acme.run_id}?{name}=alpha", headers=ALPHA["bearer"])
        assert (bare.status_code, beside.status_code) == (401, 401)


@pytest.mark.parametrize("style", ALPHA)
async def test_what_is_anothers_is_answered_as_what_is_not_there(
    locked: Api, acme: Author, style: str
) -> None:
    beta = {name: value.replace("alpha", "beta") for name, value in ALPHA[style].items()}
    content = {"Content-Type": "application/json"}
    unknown = "run_" + "0" * 32
    async with client_of(locked, **beta, **content) as client:
        foreign = list(routes(acme.run_id))
        nothing = list(routes(unknown, "ses_unknown"))
        for (method, path), (_, other) in zip(foreign, nothing, strict=True):
            if path == other or method == "HEAD":
                continue
            one = await client.request(method, path, content=b"{}")
            two = await client.request(method, other, content=b"{}")
            assert one.status_code == 404, f"{method} {path}"
            assert (one.status_code, one.content) == (two.status_code, two.content)
    assert not (await acme.resources.runs.load("acme", acme.run_id)).is_settled


async def test_a_stream_of_anothers_is_404_with_any_cursor(
    stranger: httpx.AsyncClient, acme: Author
) -> None:
    headers = {"Authorization": "Bearer beta", "Accept": "text/event-stream"}
    for cursor in ("0", "1", "2", "99"):
        answer = await stranger.get(
            f"/v1/runs/{acme.run_id}/events", headers={**headers, "Last-Event-ID": cursor}
        )
        assert answer.status_code == 404
        assert "secret" not in answer.text


async def test_lists_hold_the_callers_own_alone(stranger: httpx.AsyncClient, acme: Author) -> None:
    beta = {"x-api-key": "beta"}

    assert (await stranger.get("/v1/runs", headers=beta)).json()["runs"] == []
    assert (await stranger.get("/v1/sessions", headers=beta)).json()["sessions"] == []
    before = await stranger.get(f"/v1/runs?before={acme.run_id}", headers=beta)
    assert before.status_code == 404


async def test_a_session_id_of_another_tenant_is_a_session_of_ones_own(
    stranger: httpx.AsyncClient, acme: Author
) -> None:
    body = {"agent": "echo", "input": "hi", "session_id": acme.session_id}
    answer = await stranger.post("/v1/runs", json=body, headers={"x-api-key": "beta"})

    assert answer.status_code == 202
    sessions = acme.resources.sessions
    assert await sessions.runs("acme", acme.session_id) == [acme.run_id]


async def test_idempotency_keys_are_each_tenants_own(stranger: httpx.AsyncClient) -> None:
    body = {"agent": "echo", "input": "hi"}
    ids = set[str]()
    for key in ("alpha", "beta", "alpha"):
        headers = {"x-api-key": key, "Idempotency-Key": "same"}
        ids.add((await stranger.post("/v1/runs", json=body, headers=headers)).json()["id"])

    assert len(ids) == 2


IDS = ["zzz", "run_*", "run_{a}", "run:a", "a" * 65, "%0A", "run_1%00", "..", "run_%F0%9F%98%80"]


@pytest.mark.parametrize("run_id", IDS)
async def test_an_id_that_cannot_be_one_is_unknown_like_any_other(
    stranger: httpx.AsyncClient, run_id: str
) -> None:
    unknown = await stranger.get("/v1/runs/run_" + "0" * 32, headers=ALPHA["bearer"])
    answer = await stranger.get(f"/v1/runs/{run_id}", headers=ALPHA["bearer"])

    assert answer.status_code == 404
    assert answer.json()["retryable"] is False
    if run_id != "..":
        assert answer.content == unknown.content


async def test_a_ticket_follows_one_stream_and_does_nothing_else(
    stranger: httpx.AsyncClient, acme: Author
) -> None:
    await acme.settle()
    other = await begin(acme.resources, tenant="acme")
    issued = await stranger.post(f"/v1/runs/{acme.run_id}/ticket", headers=ALPHA["bearer"])
    ticket, url = issued.json()["ticket"], issued.json()["url"]

    stream = await stranger.get(url, headers={"Accept": "text/event-stream"})

    assert "a secret of acme" in stream.text
    for path in (f"/v1/runs/{acme.run_id}", f"/v1/runs/{other.run_id}/events", "/v1/runs"):
        assert (await stranger.get(f"{path}?ticket={ticket}")).status_code == 401
    assert (
        await stranger.post(f"/v1/runs/{acme.run_id}/cancel?ticket={ticket}")
    ).status_code == 401
    forged = await stranger.get(url[:-1] + ("A" if url[-1] != "A" else "B"))
    assert forged.status_code == 401


async def test_a_configured_page_may_follow_streams_and_no_other(
    stranger: httpx.AsyncClient, acme: Author
) -> None:
    await acme.settle()
    url = (await stranger.post(f"/v1/runs/{acme.run_id}/ticket", headers=ALPHA["bearer"])).json()[
        "url"
    ]

    ours = await stranger.get(url, headers={"Origin": PAGE})
    theirs = await stranger.get(url, headers={"Origin": "https://evil.example.com"})

    assert ours.headers["access-control-allow-origin"] == PAGE
    assert "access-control-allow-origin" not in theirs.headers
    assert "access-control-allow-credentials" not in ours.headers


PREFLIGHTS = [(PAGE, 200), ("https://evil.example.com", 400), ("null", 400)]


@pytest.mark.parametrize(("origin", "status"), PREFLIGHTS)
async def test_a_preflight_is_answered_for_configured_pages_alone(
    stranger: httpx.AsyncClient, origin: str, status: int
) -> None:
    headers = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type",
    }
    answer = await stranger.options("/v1/runs", headers=headers)

    assert answer.status_code == status
    assert answer.headers.get("access-control-allow-origin") == (PAGE if status == 200 else None)


async def test_a_refusal_can_be_read_by_a_configured_page(stranger: httpx.AsyncClient) -> None:
    answer = await stranger.get("/v1/runs", headers={"Origin": PAGE})

    assert answer.status_code == 401
    assert answer.headers["access-control-allow-origin"] == PAGE


FOREIGN = [
    ({"Host": "evil.example.com"}, 421),
    ({"Host": "127.0.0.1.evil.example.com"}, 421),
    ({"Origin": "https://evil.example.com"}, 403),
    ({"Origin": "null"}, 403),
]


@pytest.mark.parametrize(("shown", "status"), FOREIGN)
@pytest.mark.parametrize("path", ["/v1/runs", "/healthz", "/metrics", "/v1/nothing"])
async def test_without_keys_this_machine_alone_is_served(
    client: httpx.AsyncClient, shown: dict[str, str], status: int, path: str
) -> None:
    answer = await client.get(path, headers=shown)

    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"


async def test_without_keys_another_machine_is_not_served(app: Api) -> None:
    transport = httpx.ASGITransport(app, client=("192.0.2.7", 4000))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        assert (await client.get("/v1/runs")).status_code == 403


async def test_without_keys_any_credential_is_ignored(client: httpx.AsyncClient) -> None:
    shown = {"Authorization": "Bearer anything", "x-api-key": "something else"}

    assert (await client.get("/v1/runs", headers=shown)).status_code == 200


async def test_without_configured_pages_no_page_is_named(client: httpx.AsyncClient) -> None:
    answer = await client.get("/v1/runs", headers={"Origin": "http://localhost:3000"})

    assert answer.status_code == 200
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("given", ["abc-123", "x" * 65, "a b", "a\tb", "é"])
async def test_an_answer_carries_a_request_id_that_is_one(
    client: httpx.AsyncClient, given: str
) -> None:
    answer = await client.get("/healthz", headers={"X-Request-ID": given.encode()})

    found = answer.headers["x-request-id"]
    assert found == given if given == "abc-123" else found.startswith("req_")


async def test_two_deployments_on_one_redis_see_nothing_of_each_other(
    redis_url: str, acme: Author
) -> None:
    other = Settings(redis_url=SecretStr(redis_url), namespace="u", api_keys=KEYS)
    async with (
        lived(create_app(other, app=AGENTS)) as app,
        client_of(app, **ALPHA["bearer"]) as client,
    ):
        assert (await client.get(f"/v1/runs/{acme.run_id}")).status_code == 404
        assert (await client.get("/v1/runs")).json()["runs"] == []
        assert (await client.get("/v1/queues")).json()["queues"] == []
