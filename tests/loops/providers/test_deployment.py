"""Models as they are configured: prices, limits of length and time; vendors by their names."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from loops.errors import SetupError, Timeout
from loops.messages import Messages, Usage
from loops.model import (
    Limits,
    MeteredPort,
    ModelPort,
    ModelRequest,
    make_port,
    register_provider,
    resolve_model,
)
from loops.providers.deployment import DeployedModel, Deployment, Price
from loops.providers.exchange import new_client
from loops.providers.scripted import scripted
from loops.providers.shipped import SHIPPED, sharing
from loops.providers.vendors import VENDORS
from loops.reply import ModelEvent
from tests.loops.providers import openai_wires as o
from tests.loops.providers.service import Answer, serving

REQUEST = ModelRequest("m", tuple(Messages.of("hi")))


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        (Usage(input_tokens=1_000_000), 3.0),
        (Usage(output_tokens=100_000), 1.5),
        (Usage(cache_read_tokens=10, cache_write_tokens=100), (10 * 0.3 + 100 * 3.75) / 1e6),
        (Usage(), 0.0),
    ],
    ids=["asked", "written", "cache", "nothing told"],
)
def test_a_price_is_for_a_million_tokens(usage: Usage, cost: float) -> None:
    price = Price(input=3, output=15, cache_read=0.3, cache_write=3.75)

    assert price.of(usage) == pytest.approx(cost)


def test_what_is_cached_costs_as_other_input_where_nobody_said() -> None:
    usage = Usage(input_tokens=10, cache_read_tokens=90, cache_write_tokens=900)

    assert Price(input=1000).of(usage) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "address",
    [
        "ftp://h/v1",
        "h/v1",
        "http://h/v1?api-version=2024",
        "http://h/v1#there",
        "http://h:99999/v1",
        "http://bob:canary@h/v1",
        "bob:canary@h:1/v1",
        "http://h/v1?key=canary",
        "http://[",
    ],
)
def test_an_address_that_cannot_work_is_refused_and_no_password_shown(address: str) -> None:
    with pytest.raises(SetupError, match="an address") as refused:
        make_port("vllm/x", base_url=address)

    assert "canary" not in str(refused.value)
    assert "canary" not in repr(Deployment("vllm/x", base_url=address))


async def test_a_reply_that_takes_too_long_as_a_whole_is_a_timeout() -> None:
    chunks = [o.chunk({"role": "assistant"}), *[o.said("word ")] * 1000]
    async with serving(Answer(chunks, pause=0.01)) as service:
        deployed = DeployedModel(
            Deployment(
                "openai/m",
                base_url=f"{service.url}/v1",
                api_key="k",
                timeout=timedelta(milliseconds=200),
            )
        )
        with pytest.raises(Timeout, match="'openai/m' took longer") as raised:
            async for _ in deployed.stream(REQUEST):
                pass

    assert raised.value.retryable


async def test_a_limit_of_the_request_goes_before_the_configured_one() -> None:
    async with serving(Answer([o.reply(o.said("x"))])) as service:
        deployed = DeployedModel(
            Deployment("ollama/m", base_url=f"{service.url}/v1", max_tokens=5, price=Price(1, 1))
        )
        for request in (REQUEST, replace(REQUEST, max_tokens=9)):
            async for _ in deployed.stream(request):
                pass

    assert [asked.body["max_tokens"] for asked in service.asked] == [5, 9]
    assert "authorization" not in service.asked[0].headers


def test_accounts_are_told_apart_and_tell_nothing_of_their_keys() -> None:
    ports = [
        make_port("openai/a", api_key="sk-canary"),
        make_port("openai/b", api_key="sk-canary"),
        make_port("openai/a", api_key="sk-other"),
        make_port("openai/a", api_key="sk-canary", base_url="http://127.0.0.1:9/v1"),
        make_port("anthropic/a", api_key="sk-canary"),
    ]

    accounts = [port.account for port in ports if isinstance(port, MeteredPort)]

    assert accounts[0] == accounts[1]
    assert len(set(accounts)) == 4
    assert "canary" not in f"{accounts}{ports!r}"


@pytest.mark.parametrize("vendor", sorted(VENDORS))
def test_each_vendor_has_a_key_of_its_own(vendor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = VENDORS[vendor]
    for each in VENDORS.values():
        for name in filter(None, (each.key, each.address)):
            monkeypatch.delenv(name, raising=False)
    if not place.base_url:
        with pytest.raises(SetupError, match=f"'{vendor}/x' needs an address: set {place.address}"):
            make_port(f"{vendor}/x")
        return
    if place.key:
        with pytest.raises(SetupError, match=f"'{vendor}/x' needs a key: set {place.key}"):
            make_port(f"{vendor}/x")
        monkeypatch.setenv(place.key, "k")

    port = make_port(f"{vendor}/x")

    assert isinstance(port, MeteredPort)
    assert (port.name, port.limits) == (f"{vendor}/x", Limits())
    assert port.account.startswith(f"{vendor}:")


async def test_a_vendors_key_goes_to_no_address_but_the_vendors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    async with serving(Answer([o.reply(o.said("x"))])) as service:
        url = f"{service.url}/v1"
        given = make_port("openai/x", base_url=url)
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        for port in (given, make_port("openai/x")):
            async for _ in port.stream(REQUEST):
                pass

    told = [asked.headers.get("authorization") for asked in service.asked]
    assert told == [None, "Bearer sk-canary"]


def test_a_provider_of_ones_own_that_takes_no_address_says_so() -> None:
    def factory(name: str) -> Own:
        del name
        return Own()

    register_provider("own", factory)

    assert make_port("own/x").name == "own/x"
    with pytest.raises(SetupError, match=r"'own' cannot be made for 'own/x'.*base_url"):
        DeployedModel(Deployment("own/x", base_url="http://127.0.0.1:9"))


async def test_replies_of_shipped_providers_share_connections() -> None:
    async with serving(Answer([o.reply(o.said("x"))])) as service, new_client() as client:
        with sharing(client):
            ports = [make_port("vllm/x", base_url=f"{service.url}/v1") for _ in range(3)]
        for port in ports:
            async for _ in port.stream(REQUEST):
                pass

    assert (len(service.asked), service.connections) == (3, 1)


async def test_a_provider_that_was_registered_anew_stays_as_it_is() -> None:
    mine = scripted("hi", name="mine")

    def factory(name: str) -> ModelPort:
        del name
        return mine

    register_provider("openai", factory)

    async with new_client() as client:
        with sharing(client):
            assert make_port("openai/x") is mine
        assert make_port("openai/x") is mine
        register_provider("openai", SHIPPED["openai"])


async def test_what_a_service_wants_remembered_is_forgotten() -> None:
    answer = Answer([o.reply(o.said("x"))], headers={"set-cookie": "who=canary"})
    async with serving(answer) as service, new_client() as client:
        with sharing(client):
            port = make_port("vllm/x", base_url=f"{service.url}/v1")
        for _ in range(2):
            async for _ in port.stream(REQUEST):
                pass

    assert [asked.headers.get("cookie") for asked in service.asked] == [None, None]


class Own:
    """A port of one's own whose provider counts."""

    name = "own/x"

    def __init__(self, account: Any = "own:k", limits: Any = Limits(7, 8)) -> None:  # noqa: B008 - it is frozen
        self.account = account
        self.limits = limits

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        return scripted("hi").stream(request)


@pytest.mark.parametrize(
    ("told", "kept"),
    [(Limits(), Limits(7, 8)), (Limits(3), Limits(3, 8)), (Limits(None, 9), Limits(7, 9))],
)
def test_limits_that_the_configuration_does_not_name_stay_the_ports_own(
    told: Limits, kept: Limits
) -> None:
    def factory(name: str) -> Own:
        del name
        return Own()

    register_provider("own", factory)

    deployed = DeployedModel(Deployment("own/x", limits=told))

    assert (deployed.limits, deployed.account) == (kept, "own:k")


@pytest.mark.parametrize(
    ("port", "said"),
    [
        (Own(account=None), "account"),
        (Own(account=""), "account"),
        (Own(account="a\ud800"), "account"),
        (Own(limits=None), "limits"),
        (Own(limits=Limits(True)), "limits"),
        (Own(limits=Limits(0)), "limits"),
        (Own(limits={"requests": 1}), "limits"),
    ],
)
def test_a_port_whose_limits_are_none_is_refused(port: Own, said: str) -> None:
    with pytest.raises(SetupError, match=f"the {said} of the model port 'own/x'"):
        resolve_model(port)
