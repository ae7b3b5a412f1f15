"""Who may ask the gateway: C164, one rule for all of its paths and all ways to show a key."""

from collections.abc import Iterator

import httpx
import pytest

from tests.api.deployed import (
    CHAT,
    ROUTES,
    Deployment,
    asking,
    check_is_refusal,
    check_says_nothing,
    deployed,
)
from tests.gateway.upstream import says

pytestmark = pytest.mark.gateway


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with deployed(tmp_path_factory.mktemp("gateway")) as gateway:
        yield gateway


def ask(gateway: Deployment, path: str, shown: dict[str, str], query: str = "") -> httpx.Response:
    with gateway.client(None) as client:
        headers = httpx.Headers([(name, value.encode()) for name, value in shown.items()])
        if path == "/v1/models":
            return client.get(path + query, headers=headers)
        return client.post(path + query, json=asking(path), headers=headers)


PATHS = pytest.mark.parametrize("path", [*ROUTES, "/v1/models"])

KNOWN = {
    "bearer": {"authorization": "Bearer alpha"},
    "lower case": {"authorization": "bearer alpha"},
    "x-api-key": {"x-api-key": "alpha"},
    "both": {"authorization": "Bearer alpha", "x-api-key": "alpha"},
}


@PATHS
@pytest.mark.parametrize("shown", KNOWN.values(), ids=KNOWN.keys())
def test_a_key_opens_every_path_in_every_style(
    gateway: Deployment, path: str, shown: dict[str, str]
) -> None:
    gateway.plays(says("hello"))

    assert ask(gateway, path, shown).status_code == 200


UNKNOWN = {
    "none": {},
    "unknown": {"authorization": "Bearer gamma"},
    "unknown x-api-key": {"x-api-key": "gamma"},
    "two that differ": {"authorization": "Bearer alpha", "x-api-key": "beta"},
    "one of two unknown": {"authorization": "Bearer gamma", "x-api-key": "alpha"},
    "another scheme": {"authorization": "Basic YWxwaGE="},
    "empty": {"x-api-key": ""},
    "in another script": {"x-api-key": "ключ"},
    "in a cookie": {"cookie": "x-api-key=alpha"},
    "with its tenant": {"x-api-key": "acme:alpha"},
}


@PATHS
@pytest.mark.parametrize("shown", UNKNOWN.values(), ids=UNKNOWN.keys())
def test_any_other_is_turned_away_in_the_callers_words(
    gateway: Deployment, path: str, shown: dict[str, str]
) -> None:
    gateway.plays(says("hello"))

    answer = ask(gateway, path, shown)

    is_chat = path in {CHAT, "/v1/models"}
    check_is_refusal(CHAT if is_chat else path, answer, 401, "authentication_error")
    check_says_nothing(gateway, answer)
    assert answer.headers["www-authenticate"] == "Bearer"
    assert gateway.up.asked == []


@PATHS
@pytest.mark.parametrize("name", ["api_key", "key", "x-api-key", "token", "access_token"])
@pytest.mark.parametrize("shown", [{}, KNOWN["bearer"]], ids=["alone", "beside a header"])
def test_a_key_in_the_address_is_refused(
    gateway: Deployment, path: str, name: str, shown: dict[str, str]
) -> None:
    assert ask(gateway, path, shown, f"?{name}=alpha").status_code == 401


def test_whoever_speaks_anthropics_protocol_is_refused_its_models_in_it(
    gateway: Deployment,
) -> None:
    answer = ask(gateway, "/v1/models", {"anthropic-version": "2023-06-01"})

    check_is_refusal("/v1/messages", answer, 401, "authentication_error")


def test_without_a_key_no_body_is_read(gateway: Deployment) -> None:
    with gateway.client(None) as client:
        answer = client.post(CHAT, content=b"{" * 100, headers={"content-type": "text/plain"})

    assert answer.status_code == 401


def test_a_ticket_for_a_stream_does_not_ask_a_model(gateway: Deployment) -> None:
    gateway.plays(says("hello"))
    run = ask(gateway, "/v1/messages", KNOWN["bearer"]).headers["x-request-id"]
    with gateway.client() as client:
        ticket = client.post(f"/v1/runs/{run}/ticket").json()["ticket"]

    for path in ROUTES:
        assert ask(gateway, path, {}, f"?ticket={ticket}").status_code == 401


def test_a_run_of_the_gateway_is_its_tenants_alone(gateway: Deployment) -> None:
    gateway.plays(says("hello"))
    run = ask(gateway, CHAT, KNOWN["bearer"]).headers["x-request-id"]

    with gateway.client("beta") as stranger:
        assert stranger.get(f"/v1/runs/{run}").status_code == 404
        assert stranger.get(f"/v1/runs/{run}/events").status_code == 404
