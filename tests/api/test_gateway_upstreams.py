"""Who chooses the provider: the configuration alone. C165, S3, T4, T5."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.deployed import (
    CHAT,
    COUNT,
    KEY,
    MESSAGES,
    PAIRS,
    Deployment,
    asking,
    check_is_refusal,
    check_says_nothing,
    deployed,
    tools_of,
)
from tests.gateway.upstream import call, in_turn, says
from tests.loops.providers.service import Answer

pytestmark = pytest.mark.gateway


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with deployed(tmp_path_factory.mktemp("gateway")) as gateway:
        yield gateway


def chosen(url: str) -> dict[str, Any]:
    """All the fields of a body by which somebody might choose whom we ask, with what, how often."""
    return {
        "api_base": url,
        "base_url": url,
        "api_key": "theirs",
        "organization": "theirs",
        "custom_llm_provider": "openai",
        "extra_headers": {"x-stolen": "yes"},
        "extra_body": {"model": "dearest"},
        "proxies": {"http": url},
        "mock_response": "made up",
        "max_agentic_loops": 1000,
        "_agentic_loop_depth": -5,
        "litellm_metadata": {"tags": ["x"]},
        "litellm_params": {"api_base": url},
    }


ALL = [*PAIRS, (COUNT, "claude")]


@pytest.mark.parametrize(("path", "model"), ALL)
@pytest.mark.parametrize("stream", [True, False])
def test_fields_that_choose_a_provider_go_nowhere(
    gateway: Deployment, path: str, model: str, stream: bool
) -> None:
    gateway.plays(says("hello"))
    fields = chosen(gateway.thief.url)

    answer = gateway.post(path, {**asking(path, model, stream=stream), **fields})

    assert answer.status_code == 200
    [asked] = gateway.up.asked
    assert set(fields).isdisjoint(asked.body)
    assert asked.body["model"] == f"{model}-x"
    assert "theirs" not in str(asked)
    assert "x-stolen" not in asked.headers
    assert gateway.thief.asked == []


HEADERS = {
    "x-api-base": "",
    "x-base-url": "",
    "x-forwarded-host": "evil.example",
    "forwarded": "host=evil.example",
    "openai-organization": "theirs",
    "openai-project": "theirs",
    "proxy-authorization": "Basic eDp5",
    "cookie": "session=theirs",
    "x-stainless-lang": "python",
}


@pytest.mark.parametrize(("path", "model"), ALL)
def test_headers_of_a_caller_stay_here(gateway: Deployment, path: str, model: str) -> None:
    gateway.plays(says("hello"))
    shown = {name: value or gateway.thief.url for name, value in HEADERS.items()}

    answer = gateway.post(path, asking(path, model), **shown)

    assert answer.status_code == 200
    [asked] = gateway.up.asked
    assert set(HEADERS).isdisjoint(asked.headers)
    assert asked.headers["host"] == gateway.address
    assert "alpha" not in str(asked.headers), "the caller's key is ours, and no provider's"
    assert gateway.thief.asked == []


def test_the_protocols_own_headers_go_to_a_provider_of_the_protocol(gateway: Deployment) -> None:
    gateway.plays(says("hello"))
    named = {"anthropic_beta": "novel-2026", "anthropic_version": "2023-06-01"}

    gateway.post(MESSAGES, asking(MESSAGES), **named)
    gateway.post(MESSAGES, asking(MESSAGES, "gpt"), **named)

    told, foreign = gateway.up.asked
    assert told.headers["anthropic-beta"] == "novel-2026"
    assert told.headers["x-api-key"].startswith(KEY)
    assert "anthropic-beta" not in foreign.headers


def test_a_body_is_passed_on_but_for_that(gateway: Deployment) -> None:
    gateway.plays(says("hello"))
    body = asking(MESSAGES, system="Be brief.", novel={"a": [1, None]}, temperature=0.5, top_k=3)

    gateway.post(MESSAGES, body)

    assert gateway.up.asked[0].body == {**body, "model": "claude-x"}


@pytest.mark.parametrize("status", [302, 307])
@pytest.mark.parametrize(("path", "model"), ALL)
@pytest.mark.parametrize("stream", [True, False])
def test_a_redirect_is_not_followed_and_the_key_goes_nowhere(
    gateway: Deployment, path: str, model: str, stream: bool, status: int
) -> None:
    away = {"location": f"{gateway.thief.url}/v1/messages"}
    gateway.plays(Answer([b"{}"], status=status, kind="application/json", headers=away))

    answer = gateway.post(path, asking(path, model, stream=stream))

    check_is_refusal(path, answer, 502)
    check_says_nothing(gateway, answer)
    assert gateway.thief.url not in answer.text
    assert "location" not in answer.headers
    assert gateway.thief.asked == []


@pytest.mark.parametrize(("path", "model"), PAIRS)
def test_every_round_goes_to_the_same_provider(gateway: Deployment, path: str, model: str) -> None:
    gateway.plays(in_turn(says(calls=[call("look_up", q="x")]), says("found it")))
    body = {**asking(path, model, **tools_of(path, "look_up")), **chosen(gateway.thief.url)}

    answer = gateway.post(path, body)

    assert answer.status_code == 200
    first, second = gateway.up.asked
    keys = {str(each.headers.get("x-api-key", each.headers.get("authorization")))
            for each in (first, second)}  # fmt: skip
    assert len(keys) == 1
    assert KEY in keys.pop()
    assert set(chosen("")).isdisjoint(second.body)


def test_a_caller_cannot_raise_how_often_a_model_is_asked(gateway: Deployment) -> None:
    counts = iter(range(100))
    gateway.plays(lambda _: says(calls=[call("look_up", q=next(counts))]))

    body = asking(CHAT, max_agentic_loops=50, **tools_of(CHAT, "look_up"))
    gateway.post(CHAT, body)

    assert len(gateway.up.asked) == 4
