"""The pace of providers, on fakeredis and on the real server: who may ask, and who waits."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

import httpx
import orjson
import pytest

from loops.errors import Overloaded, RateLimited
from loops.messages import Message, Messages, Usage
from loops.model import Limits, ModelPort, ModelRequest, ToolSpec
from loops.providers.scripted import scripted
from loops.reply import ModelEvent, StreamEnd, StreamStart, TextDelta, TextStart
from loops.tasks import Owner
from tests.waiting import wait_until
from tests.worker.workshop import KEYS
from worker.link import Link
from worker.looking import ModelView, look_at_models, server_time
from worker.pace import Pace, Patience, tokens_of

REQUEST = ModelRequest("m", tuple(Messages.of("hello there, how are you?")))
SAYS: list[ModelEvent] = [StreamStart("m"), TextStart(0), TextDelta(0, "hi")]
USAGE = Usage(input_tokens=20, output_tokens=12, cache_read_tokens=900, cache_write_tokens=10)
END = StreamEnd("end_turn", usage=USAGE)
MINUTE = 60_000


@dataclass
class Service:
    """A model that answers as it is told, one list an asking, the last one again and again."""

    answers: list[list[ModelEvent | Exception]] = field(default_factory=lambda: [[*SAYS, END]])
    limits: Limits = field(default_factory=Limits)
    account: str = "acme:k"
    name: str = "acme/m"
    asked: int = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer."""
        del request
        self.asked += 1
        for event in self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]:
            if isinstance(event, Exception):
                raise event
            yield event


def limited(seconds: float | None = None) -> RateLimited:
    after = None if seconds is None else timedelta(seconds=seconds)
    return RateLimited("slow down", retry_after=after, status=429)


@pytest.fixture
def pace(any_link: Link) -> Pace:
    return Pace(any_link, KEYS, patience=timedelta(minutes=1))


async def read(port: ModelPort) -> list[ModelEvent]:
    return [event async for event in port.stream(REQUEST)]


async def admitted(link: Link, service: Service, takes: int = 1) -> int:
    """Let one more go, or return how many ms it would have to wait."""
    names = [KEYS.account(service.account), KEYS.window(service.account, service.name)]
    limits = service.limits
    member = orjson.dumps([service.account, service.name])
    arguments = [member, limits.requests or 0, limits.tokens or 0, takes]
    wait, _, _ = await link.run("admit", [*names, KEYS.providers], arguments)
    return int(wait)


async def now(link: Link) -> int:
    return await server_time(link)


async def view(link: Link) -> ModelView:
    [seen] = await look_at_models(link, KEYS)
    return seen


async def test_a_model_without_limits_is_asked_as_it_is(pace: Pace):
    model = scripted("hi")

    assert pace.over(model) is model


async def test_what_was_asked_of_a_model_is_counted(pace: Pace, any_link: Link):
    paced = pace.over(Service())
    for _ in range(3):
        assert await read(paced) == [*SAYS, END]

    seen = await view(any_link)
    assert (seen.account, seen.model) == ("acme:k", "acme/m")
    assert (seen.requests, seen.tokens) == (3, 3 * 42)
    assert (seen.paused, seen.limited) == (timedelta(0), 0)


async def test_no_more_requests_are_let_go_than_a_minute_allows(pace: Pace, any_link: Link):
    service = Service(limits=Limits(requests=3))
    for _ in range(3):
        await read(pace.over(service))

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await read(pace.over(service))

    assert MINUTE * 0.9 < await admitted(any_link, service) <= MINUTE + 1000
    assert service.asked == 3


@pytest.mark.parametrize(("age", "is_let_go"), [(62, True), (61, True), (59, False), (0, False)])
async def test_a_request_counts_for_a_minute(any_link: Link, age: int, is_let_go: bool):
    service = Service(limits=Limits(requests=1))
    before = await now(any_link)
    second = before // 1000 - age
    window = KEYS.window(service.account, service.name)
    await any_link.command("HSET", window, f"r{second}", 1, f"t{second}", 5)
    await any_link.command("PEXPIRE", window, MINUTE)

    wait = await admitted(any_link, service)

    assert (wait == 0) is is_let_go
    # The machine may be busy: the server's own clock says when it was asked.
    free, after = (second + 61) * 1000, await now(any_link)
    assert is_let_go or free - after <= wait <= free - before


async def test_a_model_that_nobody_asks_any_more_is_forgotten(any_link: Link):
    old = await now(any_link) - 86_400_001
    await any_link.command("ZADD", KEYS.providers, old, orjson.dumps(["acme:k", "acme/old"]))

    await admitted(any_link, Service())

    assert [seen.model for seen in await look_at_models(any_link, KEYS)] == ["acme/m"]
    assert await any_link.command("ZCARD", KEYS.providers) == 1


async def test_tokens_are_counted_as_thought_and_then_as_told(pace: Pace, any_link: Link):
    service = Service(limits=Limits(tokens=100))
    thought = tokens_of(REQUEST)

    await read(pace.over(service))

    assert (await view(any_link)).tokens == 42
    assert await admitted(any_link, service, 100 - 42 - thought) == 0
    assert await admitted(any_link, service, 100) > 0


async def test_a_request_that_is_larger_than_a_minute_goes_when_nothing_else_does(
    pace: Pace, any_link: Link
):
    service = Service(limits=Limits(tokens=1))

    await read(pace.over(service))

    assert service.asked == 1
    assert await admitted(any_link, service) > 0


async def test_models_of_one_key_are_counted_apart_and_paused_together(pace: Pace, any_link: Link):
    small, large = (Service(limits=Limits(requests=1), name=name) for name in ("a/s", "a/l"))
    for service in (small, large):
        await read(pace.over(service))
    assert await admitted(any_link, Service(name="a/other")) == 0

    await any_link.run("pause_account", [KEYS.account("acme:k")], [5000, await now(any_link)])

    for service in (small, large, Service(name="a/other")):
        assert 4000 < await admitted(any_link, service) <= 5000
    assert await admitted(any_link, Service(account="acme:other")) == 0


async def test_a_request_that_was_turned_away_is_made_again_when_the_pause_is_over(
    pace: Pace, any_link: Link
):
    service = Service([[StreamStart("m"), limited(0.3)], [*SAYS, END]])
    began = await now(any_link)

    events = await read(pace.over(service))

    assert events == [*SAYS, END]
    assert service.asked == 2
    assert await now(any_link) - began >= 300
    assert (await view(any_link)).limited == 1


async def is_turned_away(link: Link) -> bool:
    return any(seen.limited for seen in await look_at_models(link, KEYS))


async def test_nobody_asks_while_a_key_is_paused(pace: Pace, any_link: Link):
    first, others = Service([[limited(0.3)], [*SAYS, END]]), Service()
    owner = Owner()
    waiting = owner.start(read(pace.over(first)), name="first")
    await wait_until(partial(is_turned_away, any_link), for_="the first to be turned away")

    reading = [owner.start(read(pace.over(others)), name="other") for _ in range(5)]
    is_paused = (await view(any_link)).paused > timedelta(0)
    asked = others.asked
    await owner.join()

    assert (is_paused, asked, others.asked) == (True, 0, 5)
    assert all(task.result() == [*SAYS, END] for task in (waiting, *reading))


async def test_after_a_pause_those_who_waited_come_back_by_and_by(any_link: Link):
    service = Service()
    account = KEYS.account("acme:k")
    await any_link.command("HSET", account, "until", await now(any_link), "given", 0)
    await any_link.command("PEXPIRE", account, MINUTE)

    at_once = [await admitted(any_link, service) for _ in range(3)]

    assert at_once[:2] == [0, 0]
    assert 0 < at_once[2] <= 1000


async def test_many_who_are_turned_away_at_once_are_one_piece_of_news(any_link: Link):
    account, admitted = KEYS.account("acme:k"), await now(any_link)
    first = await any_link.run("pause_account", [account], ["", admitted])
    again = [await any_link.run("pause_account", [account], ["", admitted]) for _ in range(5)]

    assert first == 250
    assert max(again) <= 250
    assert await any_link.command("HMGET", account, "strikes", "limited") == [b"0", b"6"]


async def test_a_provider_that_goes_on_turning_away_is_left_alone_for_longer(any_link: Link):
    account = KEYS.account("acme:k")
    pauses = list[int]()
    for _ in range(5):
        await any_link.command("HSET", account, "until", await now(any_link) - 1)
        told = ["", await now(any_link)]
        pauses.append(await any_link.run("pause_account", [account], told))

    assert pauses == [250, 500, 1000, 2000, 4000]


async def test_a_request_that_is_turned_away_for_too_long_fails(any_link: Link):
    pace = Pace(any_link, KEYS, patience=timedelta(0))
    service = Service([[limited(0)]])

    with pytest.raises(RateLimited, match="slow down"):
        await read(pace.over(service))

    assert service.asked == 1


async def test_a_turn_is_turned_away_for_no_longer_than_it_may_however_often_it_asks(
    any_link: Link,
):
    pace = Pace(any_link, KEYS, patience=timedelta(milliseconds=300))
    service = Service([[limited(0.1)]])
    paced = pace.over(service)
    began = await now(any_link)
    for _ in range(2):
        with pytest.raises(RateLimited):
            await read(paced)

    assert await now(any_link) - began < 5000
    assert service.asked <= 4


async def test_a_reply_that_is_turned_away_in_its_middle_is_not_begun_again(pace: Pace):
    service = Service([[*SAYS, limited(0)], [*SAYS, END]])

    with pytest.raises(RateLimited):
        await read(pace.over(service))

    assert service.asked == 1


async def test_other_failures_are_their_callers(pace: Pace, any_link: Link):
    with pytest.raises(Overloaded):
        await read(pace.over(Service([[Overloaded("busy")]])))

    assert (await view(any_link)).limited == 0


def test_a_picture_is_not_counted_by_its_letters():
    source = {"type": "base64", "media_type": "image/png", "data": "A" * 1_000_000}
    image = {"type": "image", "source": source}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [image]}
    messages = tuple(
        Message.from_raw({"role": "user", "content": [each]}) for each in (image, result)
    )

    assert 2000 <= tokens_of(ModelRequest("m", messages)) < 2100


def test_what_a_model_is_told_of_tools_counts_too():
    tool = ToolSpec("f", "about", {"type": "object", "title": "x" * 4000})

    assert tokens_of(ModelRequest("m", (), tools=(tool,), system="y" * 400)) >= 1100


async def test_a_provider_that_asks_for_no_pause_at_all_gets_one(any_link: Link):
    pace = Pace(any_link, KEYS, patience=timedelta(seconds=2))
    service = Service([[limited(0)]])

    with pytest.raises(RateLimited):
        await read(pace.over(service))

    assert service.asked <= 4


async def test_a_pause_that_is_longer_than_the_turn_waits_fails_it_at_once(any_link: Link):
    pace = Pace(any_link, KEYS, patience=timedelta(seconds=1))
    service = Service([[limited(60)]])
    began = await now(any_link)

    with pytest.raises(RateLimited, match="does not wait that long") as raised:
        await read(pace.over(service))

    assert service.asked == 1
    assert await now(any_link) - began < 1000
    assert raised.value.retry_after is not None


async def test_no_pause_is_longer_than_ten_minutes(any_link: Link):
    pace = Pace(any_link, KEYS, patience=timedelta(0))
    service = Service([[limited(30 * 86_400)]])

    with pytest.raises(RateLimited):
        await read(pace.over(service))

    assert (await view(any_link)).paused <= timedelta(minutes=10)


async def test_what_a_port_lets_through_of_httpx_is_a_limit_too(any_link: Link):
    pace = Pace(any_link, KEYS, patience=timedelta(minutes=1))
    request = httpx.Request("POST", "http://127.0.0.1:9")
    told = httpx.Response(429, headers={"retry-after": "1"}, request=request)
    error = httpx.HTTPStatusError("no", request=request, response=told)
    service = Service([[error], [*SAYS, END]])

    events = await read(pace.over(service))

    assert (events, service.asked) == ([*SAYS, END], 2)
    assert (await view(any_link)).limited == 1


async def test_late_refusals_let_nobody_go_again_who_has_had_a_turn(any_link: Link):
    service, account = Service(), KEYS.account("acme:k")
    ended = await now(any_link)
    await any_link.command("HSET", account, "until", ended, "given", 0)
    await any_link.command("PEXPIRE", account, MINUTE)
    at_once = [await admitted(any_link, service) for _ in range(2)]

    await any_link.run("pause_account", [account], ["", ended - 1])

    assert at_once == [0, 0]
    assert await admitted(any_link, service) > 0


async def test_what_a_long_reply_took_counts_when_it_is_told(any_link: Link):
    window, told_at = KEYS.window("acme:k", "acme/m"), await now(any_link)

    await any_link.run(
        "spend_tokens", [window, KEYS.account("acme:k")], [told_at - 70_000, 40, 1000]
    )

    service = Service(limits=Limits(tokens=1000))
    assert await admitted(any_link, service) > 0
    assert (await view(any_link)).tokens == 1000


async def test_counts_below_nothing_are_none(pace: Pace, any_link: Link):
    end = StreamEnd("end_turn", usage=Usage(input_tokens=-5000, output_tokens=12))

    await read(pace.over(Service([[*SAYS, end]])))

    assert (await view(any_link)).tokens == 12


async def test_a_provider_that_replies_in_between_is_never_left_alone_for_long(
    pace: Pace, any_link: Link
):
    service = Service([answer for _ in range(6) for answer in ([limited(0.02)], [*SAYS, END])])
    began = await now(any_link)

    for _ in range(6):
        await read(pace.over(service))

    assert service.asked == 12
    assert await now(any_link) - began < 6 * 1000


async def test_a_worker_that_asks_without_waiting_hears_of_a_pause_by_it(any_link: Link):
    first, second = (Pace(any_link, KEYS, patience=timedelta(0)) for _ in range(2))
    service = Service()
    await read(first.over(service))
    admission = await second.admit(service, REQUEST, Patience(timedelta(0)))
    await second.turned_away(service, admission, timedelta(seconds=60))

    assert await read(first.over(service)) == [*SAYS, END]

    await wait_until(lambda: service.account not in first._free, for_="the pause to be heard")
    with pytest.raises(RateLimited):
        await read(first.over(service))
