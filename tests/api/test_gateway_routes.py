"""The gateway's other routes, and requests that are sent twice under one key."""

from collections.abc import Iterator

import pytest

from tests.api.deployed import (
    CHAT,
    COUNT,
    MESSAGES,
    Deployment,
    asking,
    check_is_refusal,
    deployed,
)
from tests.gateway.upstream import says

pytestmark = pytest.mark.gateway


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with deployed(tmp_path_factory.mktemp("gateway")) as gateway:
        yield gateway


@pytest.mark.parametrize("model", ["claude", "gpt"])
def test_tokens_are_counted_by_the_provider_or_estimated(gateway: Deployment, model: str) -> None:
    gateway.plays(says(usage=(17, 0)))

    answer = gateway.post(COUNT, asking(COUNT, model))

    assert list(answer.json()) == ["input_tokens"]
    assert answer.json()["input_tokens"] == 17 or model == "gpt"
    assert len(gateway.up.asked) == (1 if model == "claude" else 0)


def test_models_are_listed_in_the_callers_shape(gateway: Deployment) -> None:
    with gateway.client() as client:
        theirs = client.get("/v1/models").json()
        ours = client.get("/v1/models", headers={"anthropic-version": "2023-06-01"}).json()

    names = [each["id"] for each in theirs["data"]]
    assert {"claude", "gpt", "agent/weather", "agent/listener"} <= set(names)
    assert (theirs["object"], theirs["data"][0]["object"]) == ("list", "model")
    assert [each["id"] for each in ours["data"]] == names
    assert (ours["first_id"], ours["last_id"], ours["has_more"]) == (names[0], names[-1], False)
    assert set(ours["data"][0]) == {"type", "id", "display_name", "created_at"}


@pytest.mark.parametrize("path", [MESSAGES, CHAT])
@pytest.mark.parametrize("stream", [True, False])
def test_the_same_request_under_the_same_key_is_done_once(
    gateway: Deployment, path: str, stream: bool
) -> None:
    key, body = f"{path} {stream}", asking(path, stream=stream)
    gateway.plays(says("hello"))
    first = gateway.post(path, body, idempotency_key=key)
    again = gateway.post(path, body, idempotency_key=key)
    other = gateway.post(path, {**body, "temperature": 0.5}, idempotency_key=key)

    assert (again.content, again.headers["x-request-id"]) == (
        first.content,
        first.headers["x-request-id"],
    )
    check_is_refusal(path, other, 409)
    assert len(gateway.up.asked) == 1


def test_a_key_of_one_tenant_is_not_anothers(gateway: Deployment) -> None:
    gateway.plays(says("hello"))
    key = {"idempotency-key": "shared"}
    answers = []
    for owner in ("alpha", "beta"):
        with gateway.client(owner) as client:
            answers.append(client.post(MESSAGES, json=asking(MESSAGES), headers=key))

    assert answers[0].headers["x-request-id"] != answers[1].headers["x-request-id"]
    assert len(gateway.up.asked) == 2
