"""What callers of the gateway are told when a provider fails: C158, on both paths."""

from collections.abc import Iterator

import httpx
import pytest

from loops.gateway.failing import KINDS
from tests.api.deployed import (
    CHAT,
    KEY,
    MESSAGES,
    PAIRS,
    Deployment,
    asking,
    check_is_refusal,
    check_says_nothing,
    deployed,
    key_of,
    rows_of,
)
from tests.gateway.upstream import Told, fails, says
from tests.loops.providers.service import Answer
from tests.waiting import wait_until

pytestmark = pytest.mark.gateway


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with deployed(tmp_path_factory.mktemp("gateway")) as gateway:
        yield gateway


STATUSES = [401, 404, 413, 500, 529]
BOTH = pytest.mark.parametrize("stream", [True, False])
EACH = pytest.mark.parametrize(("path", "model"), PAIRS)


@EACH
@BOTH
@pytest.mark.parametrize("status", STATUSES)
def test_a_refusal_has_its_status_and_the_callers_shape(
    gateway: Deployment, path: str, model: str, stream: bool, status: int
) -> None:
    kind = KINDS.get(status, "api_error") if model == "claude" else "server_error"
    gateway.plays(fails(status, kind, f"no; your key is {key_of(model)}"))

    answer = gateway.post(path, asking(path, model, stream=stream))

    check_is_refusal(path, answer, status)
    check_says_nothing(gateway, answer)
    assert "no; your key is" in answer.text
    assert answer.headers["x-request-id"].startswith("run_")


@EACH
@BOTH
def test_a_limit_says_when_to_come_again(
    gateway: Deployment, path: str, model: str, stream: bool
) -> None:
    gateway.plays(fails(429, "rate_limit_error", "slow down", retry_after="7"))
    # Each has a model of its own: a key is paused after that.
    number = PAIRS.index((path, model)) * 2 + stream

    answer = gateway.post(path, asking(path, f"limited-{number}-{model}", stream=stream))
    again = gateway.post(path, asking(path, f"limited-{number}-{model}", stream=stream))

    check_is_refusal(path, answer, 429, "rate_limit_error")
    assert answer.headers["retry-after"] == "7"
    check_is_refusal(path, again, 429, "rate_limit_error")
    assert 1 <= int(again.headers["retry-after"]) <= 7
    assert len(gateway.up.asked) == 1, "the provider is left alone meanwhile"


@EACH
@BOTH
@pytest.mark.parametrize(("name", "status"), [("slow", 504), ("dead", 502)])
def test_a_provider_that_does_not_answer_is_a_gateways_failure(
    gateway: Deployment, path: str, model: str, stream: bool, name: str, status: int
) -> None:
    gateway.plays(Answer(hangs=True, is_mute=True))

    answer = gateway.post(path, asking(path, f"{name}-{model}", stream=stream))

    kind = "server_error" if path == CHAT else {504: "timeout_error", 502: "api_error"}[status]
    check_is_refusal(path, answer, status, kind)
    check_says_nothing(gateway, answer)


def page(status: int, *chunks: bytes) -> Answer:
    return Answer(chunks, status=status, kind="text/html")


NONSENSE = {
    "a broken connection": (Answer(breaks_off=True, is_mute=True), 502),
    "a page": (page(200, b"<html>Traceback in File \"x.py\"</html>"), 502),
    "a page that fails": (page(500, b"<html>nginx at 127.0.0.1</html>"), 500),
    "no JSON": (Answer([b"not { json"], kind="application/json"), 502),
    "JSON of another thing": (Answer([b'{"novel": [1]}'], kind="application/json"), 502),
    "an empty stream": (Answer([]), 502),
}  # fmt: skip


@EACH
@BOTH
@pytest.mark.parametrize("told", NONSENSE.values(), ids=NONSENSE.keys())
def test_nonsense_is_a_gateways_failure(
    gateway: Deployment, path: str, model: str, stream: bool, told: tuple[Answer, int]
) -> None:
    answer, status = told
    gateway.plays(answer)

    refused = gateway.post(path, asking(path, model, stream=stream))

    check_is_refusal(path, refused, status)
    check_says_nothing(gateway, refused)


BREAKS = {
    "cut": says("hello there", cut_after=3),
    "ended": says("hello there", ends_after=3),
    "failed": says("hello there", error_after=3),
}


@EACH
@pytest.mark.parametrize("reply", BREAKS.values(), ids=BREAKS.keys())
def test_after_the_first_byte_the_failure_is_the_streams_last_event(
    gateway: Deployment, path: str, model: str, reply: Told
) -> None:
    gateway.plays(reply)

    answer = gateway.post(path, asking(path, model, stream=True))

    assert answer.status_code == 200
    check_says_nothing(gateway, answer)
    rows = [row for row in rows_of(answer.text) if row[1] != "[DONE]"]
    last, told = rows[-1]
    assert told["error"]["message"]
    assert (last, told.get("type")) == (("error", "error") if path == MESSAGES else ("", None))
    assert [data for _, data in rows[:-1] if "error" in data] == []
    assert "message_stop" not in answer.text


@pytest.mark.parametrize(("path", "model"), [(MESSAGES, "gpt"), (CHAT, "claude")])
def test_a_body_that_is_made_of_a_broken_stream_is_none(
    gateway: Deployment, path: str, model: str
) -> None:
    gateway.plays(says("hello there", cut_after=3))

    answer = gateway.post(path, asking(path, model))

    check_is_refusal(path, answer, 502)
    check_says_nothing(gateway, answer)


@EACH
def test_a_failure_is_not_asked_for_twice(gateway: Deployment, path: str, model: str) -> None:
    gateway.plays(fails(500))

    gateway.post(path, asking(path, model))

    assert len(gateway.up.asked) == 1, "the caller's own program tries again"


async def test_no_log_has_the_key(gateway: Deployment, caplog: pytest.LogCaptureFixture) -> None:
    gateway.plays(fails(401, "authentication_error", f"no such key: {key_of('claude')}"))

    gateway.post(MESSAGES, asking(MESSAGES))

    await wait_until(lambda: "failed" in caplog.text, for_="the worker's log")
    assert KEY not in caplog.text


def test_what_was_asked_and_answered_is_not_in_the_runs_record(gateway: Deployment) -> None:
    gateway.plays(says("the answer is a canary"))
    said: httpx.Response = gateway.post(MESSAGES, asking(MESSAGES, system="a canary too"))

    with gateway.client() as client:
        run = client.get(f"/v1/runs/{said.headers['x-request-id']}")

    assert run.status_code == 200
    assert "canary" not in run.text
