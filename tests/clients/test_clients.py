"""Runs are followed by clients that we did not write."""

import json
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis

from tests.processes import Place

pytestmark = pytest.mark.timeout(60)

HERE = Path(__file__).parent


def start(place: Place, agent: str = "doubler") -> str:
    answer = httpx.post(f"{place.url}/v1/runs", json={"agent": agent, "input": "go"})
    return str(answer.raise_for_status().json()["id"])


def finished(place: Place, agent: str = "doubler") -> tuple[str, list[dict[str, Any]]]:
    """A run that has ended, and its events by the page."""
    run_id = start(place, agent)
    httpx.get(f"{place.url}/v1/runs/{run_id}/result", params={"wait": 20}, timeout=30)
    page = httpx.get(f"{place.url}/v1/runs/{run_id}/events", params={"limit": 1000}).json()
    assert page["done"]
    return run_id, page["events"]


def curl(*arguments: str) -> str:
    command = ["curl", "--silent", "--show-error", "--no-buffer", "--max-time", "30", *arguments]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    return said.stdout


def lines_of(stream: str, name: str) -> list[str]:
    return [
        line.removeprefix(f"{name}: ")
        for line in stream.splitlines()
        if line.startswith(f"{name}:")
    ]


def test_curl_follows_a_run_to_its_end(place: Place) -> None:
    run_id = start(place)

    said = curl("-H", "Accept: text/event-stream", f"{place.url}/v1/runs/{run_id}/events")

    numbers = [int(number) for number in lines_of(said, "id")]
    assert numbers == list(range(1, len(numbers) + 1))
    assert lines_of(said, "event")[-1] == "run.completed"
    assert [json.loads(data)["seq"] for data in lines_of(said, "data")] == numbers


def test_curl_goes_on_after_any_event(place: Place) -> None:
    run_id, events = finished(place)
    url = f"{place.url}/v1/runs/{run_id}/events"

    rest = curl("-H", "Accept: text/event-stream", "-H", "Last-Event-ID: 5", url)

    assert [json.loads(data) for data in lines_of(rest, "data")] == events[5:]


def test_curl_gets_a_line_of_json_for_each_event(place: Place) -> None:
    run_id, events = finished(place)

    said = curl("-H", "Accept: application/x-ndjson", f"{place.url}/v1/runs/{run_id}/events")

    assert [json.loads(line) for line in said.splitlines()] == events


def node(*arguments: str) -> dict[str, Any]:
    command = ["node", "--experimental-eventsource", "--no-warnings", str(HERE / "follow.mjs")]
    said = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=40, check=False
    )
    assert said.returncode == 0, said.stderr
    answer: dict[str, Any] = json.loads(said.stdout)
    return answer


@pytest.mark.clients
def test_an_eventsource_follows_a_run(place: Place) -> None:
    run_id = start(place)

    came = node(f"{place.url}/v1/runs/{run_id}/events", "leave")

    numbers = [event["seq"] for event in came["seen"]]
    assert numbers == list(range(1, len(numbers) + 1))
    assert [event["id"] for event in came["seen"]] == [str(number) for number in numbers]
    assert came["seen"][-1]["type"] == "run.completed"


@pytest.mark.clients
def test_an_eventsource_that_stays_is_told_to_stop_and_shows_nothing_twice(place: Place) -> None:
    run_id, events = finished(place)

    came = node(f"{place.url}/v1/runs/{run_id}/events", "stay")

    assert [event["seq"] for event in came["seen"]] == [event["seq"] for event in events]
    assert came["state"] == 2


def test_any_redis_client_can_read_the_log(place: Place) -> None:
    run_id, events = finished(place)

    with redis.Redis.from_url(place.environment["LOOPMILL_REDIS_URL"]) as client:
        entries = client.xrange(f"loopmill:default:run:{run_id}:log")

    read: list[tuple[int, str, Any]] = []
    for entry_id, fields in entries:
        flushed = json.loads(fields[b"events"])
        first = int(entry_id.partition(b"-")[0]) - len(flushed) + 1
        read += [(first + n, event["type"], event["data"]) for n, event in enumerate(flushed)]
    assert read == [(event["seq"], event["type"], event["data"]) for event in events]
