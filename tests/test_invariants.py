"""The check after each test sees what it is for: each kind of damage is told."""

from collections.abc import Callable
from dataclasses import dataclass

import orjson
import pytest
import redis

import loops as ai
from loops.providers.scripted import call, in_turn, scripted
from tests.invariants import broken_invariants
from tests.worker.driving import TENANT, milling
from worker.keys import RunKeys
from worker.link import Link


@ai.tool
async def send(to: str) -> str:
    """Send a letter."""
    return f"sent to {to}"


@dataclass
class Standing:
    """What stands in the server: a run that has ended, another that waits for a worker."""

    client: redis.Redis
    ended: RunKeys
    queued: RunKeys
    call: str
    """The one call of the run that has ended."""

    def field(self, name: str, *, of: RunKeys | None = None) -> str:
        value = self.client.hget((of or self.queued).record, name)
        assert isinstance(value, bytes)
        return value.decode()

    def key_of(self, call: str) -> str:
        """Return the idempotency key of a call of the run that has ended."""
        return f"{self.ended.record.rpartition(':')[2]}:{call}"

    def append(self, run: RunKeys, *types: str) -> None:
        """Write to a log past its guards."""
        last = self.client.hincrby(run.record, "last_seq", len(types))
        told = orjson.dumps([{"type": each, "data": {"call": self.call}} for each in types])
        self.client.xadd(run.log, {"events": told, "attempt": "1"}, id=f"{last}-1")


@pytest.fixture
async def standing(redis_url: str, link: Link):
    agent = ai.Agent(model=scripted(in_turn([call("send", to="ann")], "done")), tools=[send])
    async with milling(link, {"agent": agent}) as mill:
        ended = await mill.through()
    queued = (await mill.submit()).run_id
    with redis.Redis.from_url(redis_url) as client:
        run = mill.resources.keys.run
        [queued_call] = ended.of("tool.queued")
        yield Standing(client, run(TENANT, ended.run.id), run(TENANT, queued), queued_call["call"])
        client.flushall()


Damage = Callable[[Standing], object]

DAMAGES: dict[str, Damage] = {
    "without a time to live": lambda s: s.client.set("t:acme:run:run_1:journal", "x"),
    "nothing will drive it": lambda s: s.client.zrem(s.field("queue_key"), s.field("job")),
    "seqs [1": lambda s: s.client.hincrby(s.ended.record, "last_seq", 1),
    "2 terminal events": lambda s: s.append(s.ended, "run.failed"),
    "without its event as the last one": lambda s: s.append(s.ended, "text.delta"),
    "failed but the log says run.completed": lambda s: s.client.hset(
        s.ended.record, "status", "failed"
    ),
    "queued with a terminal event": lambda s: s.append(s.queued, "run.failed"),
    "its job is left": lambda s: s.client.zadd(
        s.field("queue_key"), {s.field("job", of=s.ended): 1}
    ),
    "attempt above epoch": lambda s: s.client.hset(s.ended.record, "attempt", 9),
    "moved from queued to waiting": lambda s: s.append(s.queued, "run.waiting"),
    "was queued 2 times": lambda s: s.append(s.ended, "tool.queued"),
    "started 2 times": lambda s: s.append(s.ended, "tool.started"),
    "without a result": lambda s: s.client.hdel(f"{s.ended.record}:calls", f"{s.call}|result"),
    "unanswered_call": lambda s: s.client.rpop(s.field("session_key", of=s.ended) + ":messages", 2),
}


def test_what_is_whole_is_not_blamed(standing: Standing) -> None:
    assert broken_invariants(standing.client, {(standing.key_of(standing.call), "send"): 1}) == []


@pytest.mark.parametrize(("sentence", "damage"), DAMAGES.items(), ids=DAMAGES)
def test_damage_is_told(standing: Standing, sentence: str, damage: Damage) -> None:
    damage(standing)

    assert any(sentence in told for told in broken_invariants(standing.client))


def test_an_effect_without_a_start_of_its_own_is_told(standing: Standing) -> None:
    twice, unstarted = standing.key_of(standing.call), standing.key_of("turn:9.0")

    told = broken_invariants(standing.client, {(twice, "send"): 2, (unstarted, "send"): 1})

    assert told == [
        f"{twice}: 2 times 'send' in 1 starts",
        f"{unstarted}: 1 times 'send' in 0 starts",
    ]
