"""Health and figures, and what can be seen of agents, queues and workers."""

from datetime import timedelta

import httpx
import orjson
import pytest

from api.app import Api
from api.desk import Office
from tests.api.author import begin
from tests.api.conftest import AGENTS
from worker.resources import Resources


async def register(resources: Resources, queue: str, worker_id: str, *, lives: bool = True) -> None:
    """A worker that serves the queue, as it says of itself at each renewal."""
    link, keys = resources.link, resources.keys
    seconds, _ = await link.command("TIME")
    ends = (int(seconds) + (60 if lives else -60)) * 1000
    record = orjson.dumps({"pid": 42, "host": "here"})
    await link.command("SADD", keys.queues, queue)
    await link.command("ZADD", keys.workers(queue), ends, worker_id)
    await link.command("SET", keys.worker(worker_id), record, "EX", 60)


async def test_an_idle_system_is_ready(client: httpx.AsyncClient) -> None:
    assert (await client.get("/readyz")).status_code == 200


async def test_a_queue_with_jobs_and_no_worker_is_not_ready(
    client: httpx.AsyncClient, resources: Resources
) -> None:
    await begin(resources)
    await register(resources, "runs", "dead", lives=False)

    without = await client.get("/readyz")
    await register(resources, "runs", "alive")

    assert (without.status_code, without.json()["code"]) == (503, "no_worker")
    assert "runs" in without.json()["detail"]
    assert (await client.get("/readyz")).status_code == 200


@pytest.mark.parametrize(("queue", "status"), [("gpuu", 200), ("tools", 503), ("runs:batch", 503)])
async def test_only_the_queues_of_every_fleet_make_it_not_ready(
    client: httpx.AsyncClient, resources: Resources, queue: str, status: int
) -> None:
    await resources.queue.enqueue(queue, "f", job_id="t/job")
    await resources.link.command("PEXPIRE", "arq:job:t/job", 100_000)

    assert (await client.get("/readyz")).status_code == status

    figures = (await client.get("/metrics")).text
    assert f'loopmill_queue_workers{{queue="{queue}"}} 0' in figures
    (shown,) = (await client.get("/v1/queues")).json()["queues"]
    assert (shown["name"], shown["depth"], shown["workers"]) == (queue, 1, 0)


async def test_a_server_that_stops_is_not_ready(client: httpx.AsyncClient, office: Office) -> None:
    office.hub.close()

    answer = await client.get("/readyz")

    assert (answer.status_code, answer.json()["code"]) == (503, "stopping")
    assert (await client.get("/healthz")).status_code == 200


async def test_queues_show_how_they_stand(client: httpx.AsyncClient, resources: Resources) -> None:
    for _ in range(3):
        await begin(resources)
    await resources.queue.enqueue("tools", "f", delay=timedelta(hours=1), job_id="t/later")
    await resources.link.command("PEXPIRE", "arq:job:t/later", 100_000)
    await register(resources, "runs", "one")

    runs, tools = (await client.get("/v1/queues")).json()["queues"]

    assert runs.pop("oldest") >= 0
    assert runs == {"name": "runs", "depth": 3, "delayed": 0, "claimed": 0, "workers": 1}
    assert (tools["name"], tools["depth"], tools["delayed"], tools["oldest"]) == ("tools", 0, 1, 0)


async def test_a_claimed_job_is_no_waiting_one(
    client: httpx.AsyncClient, resources: Resources
) -> None:
    await begin(resources)
    link, keys = resources.link, resources.keys
    queue, workers = keys.queue("runs"), keys.workers("runs")
    await link.run("claim", [queue.queue, workers], ["w", 60_000, 1, 5, "1", 0, 5])

    (runs,) = (await client.get("/v1/queues")).json()["queues"]

    assert (runs["depth"], runs["claimed"], runs["delayed"]) == (0, 1, 0)


async def test_workers_show_what_they_say_of_themselves(
    client: httpx.AsyncClient, resources: Resources
) -> None:
    await register(resources, "runs", "one")
    await register(resources, "tools", "one")
    await register(resources, "tools", "two")
    await register(resources, "tools", "dead", lives=False)

    workers = (await client.get("/v1/workers")).json()["workers"]

    assert workers == [
        {"id": "one", "queues": ["runs", "tools"], "pid": 42, "host": "here"},
        {"id": "two", "queues": ["tools"], "pid": 42, "host": "here"},
    ]


async def test_agents_are_listed(client: httpx.AsyncClient) -> None:
    agents = (await client.get("/v1/agents")).json()["agents"]

    assert [agent["name"] for agent in agents] == sorted(AGENTS.agents)


async def test_figures_are_lines_that_prometheus_reads(
    client: httpx.AsyncClient, resources: Resources, office: Office
) -> None:
    author = await begin(resources)
    await author.settle()
    headers = {"Accept": "text/event-stream"}
    await client.get(f"/v1/runs/{author.run_id}/events", headers=headers)

    answer = await client.get("/metrics")

    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
    values = {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}
    assert values['loopmill_queue_depth{queue="runs"}'] == 0
    assert values["loopmill_stream_readers"] == 0
    assert values["loopmill_stream_writes_total"] == office.traffic.writes == 1
    assert values["loopmill_stream_bytes_total"] > 100


async def test_draining_an_application_lets_nobody_follow_any_more(
    client: httpx.AsyncClient, app: Api, resources: Resources
) -> None:
    author = await begin(resources)
    path, headers = f"/v1/runs/{author.run_id}/events", {"Accept": "text/event-stream"}

    app.drain()

    answer = await client.get(path, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (503, "stopping")
    assert (await client.get(path)).status_code == 503


async def test_figures_tell_how_the_limits_of_providers_stand(
    client: httpx.AsyncClient, resources: Resources
) -> None:
    link, keys = resources.link, resources.keys
    names = [keys.account("acme/k"), keys.window("acme/k", 'acme/"m"'), keys.providers]
    member = orjson.dumps(["acme/k", 'acme/"m"'])
    _, now, _ = await link.run("admit", names, [member, 0, 0, 70])
    await link.run("pause_account", names[:1], [30_000, now])

    figures = (await client.get("/metrics")).text

    model = 'account="acme/k",model="acme/\\"m\\""'
    assert f"loopmill_provider_requests{{{model}}} 1\n" in figures
    assert f"loopmill_provider_tokens{{{model}}} 70\n" in figures
    assert 'loopmill_provider_limited_total{account="acme/k"} 1\n' in figures
    [paused] = [line for line in figures.splitlines() if line.startswith("loopmill_provider_pau")]
    assert 20 < float(paused.rpartition(" ")[2]) <= 30
