"""`python -m tests.gateway.load`: many streams at once, while a worker is killed and replaced.

Half of the requests are streamed Messages with a call that a callback answers, so two rounds; half
are streamed chat completions. One API process and two run workers serve them. One worker is killed
in the middle, without a warning, and another takes its place some seconds later.

What has to hold: each request ends with its whole answer or with an error of its own protocol, none
hangs, and no plan was made twice. The exit code says whether it did.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from bench.callers import HOST, KEY, Caller, Request
from bench.gateway_requests import CHAT, MESSAGES, MODELS, request
from bench.measuring import allow_many_files, quantile, show
from tests.fleet import Fleet, Member
from tests.gateway.counting import FILE
from tests.gateway.verdicts import WHOLE, WRONG, judged
from tests.waiting import wait_until
from worker.embedded import start_server

LIMIT = 120.0
LEASE = "2s"
REPLACED_AFTER = 3.0
HUNG = "hung"

KINDS = (
    request(MESSAGES, streams=True, calls=True),
    request(CHAT, streams=True, calls=False),
)


@dataclass(frozen=True, slots=True)
class Told:
    """What came of one request."""

    kind: str
    verdict: str
    took: float

    @property
    def came(self) -> str:
        """What came, without what is said of it."""
        return self.verdict.partition(" (")[0].partition(WRONG)[0] or "wrong"

    @property
    def details(self) -> str:
        """What is said of it."""
        return self.verdict.removeprefix(self.came)


@dataclass(frozen=True, slots=True)
class Place:
    """What serves the requests."""

    fleet: Fleet
    worker: Member
    """The one that is killed."""
    port: int
    notes: Path
    slots: int

    def plans(self) -> Counter[str]:
        """Return how often a plan was made for each round of each request."""
        return Counter(self.notes.read_text().splitlines() if self.notes.exists() else ())


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def port_of(member: Member) -> int:
    """Return the port that stands at the end of its line."""
    [line] = [line for line in member.lines if " ready: " in line]
    return int(line.rstrip("/").rpartition(":")[2])


def configuration(upstream: int) -> str:
    base = f"http://{HOST}:{upstream}"
    models = {
        MODELS[MESSAGES]: {"model": "anthropic/scripted", "api_base": base},
        MODELS[CHAT]: {"model": "openai/scripted", "api_base": f"{base}/v1"},
    }
    listed = [
        {"model_name": name, "params": {**told, "api_key": "none"}} for name, told in models.items()
    ]
    return yaml.safe_dump({"model_list": listed, "callbacks": ["tests.gateway.counting.lookup"]})


@contextmanager
def open_place(requests: int, pause: float) -> Generator[Place]:
    """Start server, upstream, API and two workers."""
    with tempfile.TemporaryDirectory(prefix="loopmill-load-") as name:
        folder = Path(name)
        server = start_server(folder / "server")
        settings = {
            "LOOPMILL_CONFIG": str(folder / "config.yaml"),
            "LOOPMILL_LEASE": LEASE,
            "LOOPMILL_API_KEYS": KEY,
            FILE: str(folder / "notes"),
        }
        fleet = Fleet(server.url, app="bench.agents:app", environment=settings)
        try:
            upstream = fleet.start("bench.drivers.gateway_upstream", "--pause", str(pause))
            fleet.wait(upstream)
            (folder / "config.yaml").write_text(configuration(port_of(upstream)))
            slots = requests // 2 + 1
            worker, _ = (open_worker(fleet, slots) for _ in range(2))
            api = fleet.start("api", "api", "--port", "0")
            fleet.wait(api)
            yield Place(fleet, worker, port_of(api), folder / "notes", slots)
        finally:
            fleet.close()
            server.stop()


def open_worker(fleet: Fleet, slots: int) -> Member:
    return fleet.worker("runs", "--concurrency", str(slots))


async def ask(port: int, asked: Request, number: int) -> Told:
    """Make one request, and wait for its end as long as it may take."""
    tag = f"tag-{number:08}"
    began = time.perf_counter()
    caller = await Caller.connect(port)
    try:
        async with asyncio.timeout(LIMIT):
            answer = await caller.ask(asked.encoded(tag))
            verdict = judged(asked, answer, tag)
    except TimeoutError:
        verdict = HUNG
    except ConnectionError as error:
        verdict = f"{WRONG}{error}"
    finally:
        caller.close()
    return Told(asked.name, verdict, time.perf_counter() - began)


async def ask_all(port: int, requests: int) -> list[Told]:
    """Make all requests at once."""
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(ask(port, KINDS[number % len(KINDS)], number))
            for number in range(requests)
        ]
    return [task.result() for task in tasks]


async def disturb(place: Place, requests: int) -> None:
    """Kill a worker when a part of the plans was made, and start another one after a while."""
    few = max(1, requests // 5)
    await wait_until(lambda: len(place.plans()) >= few, for_=f"{few} plans")
    place.worker.kill()
    say(f"a worker was killed after {len(place.plans())} plans")
    await asyncio.sleep(REPLACED_AFTER)
    await asyncio.to_thread(open_worker, place.fleet, place.slots)
    say("another one took its place")


async def load(place: Place, requests: int) -> list[Told]:
    """Make the requests, with the disturbance in the middle of them."""
    async with asyncio.TaskGroup() as group:
        group.create_task(disturb(place, requests))
        asked = group.create_task(ask_all(place.port, requests))
    return asked.result()


def report(told: list[Told], plans: Counter[str], seconds: float) -> bool:
    """Print what came of the requests, and say whether all is as it has to be."""
    rows: list[list[object]] = [["", "what came", "requests", "p50 s", "p99 s", "for instance"]]
    for kind, came in sorted({(t.kind, t.came) for t in told}):
        alike = [t for t in told if (t.kind, t.came) == (kind, came)]
        times = [round(quantile([t.took for t in alike], share), 2) for share in (0.5, 0.99)]
        rows.append([kind, came, len(alike), *times, alike[0].details[:200]])
    show(f"{len(told)} requests in {seconds:.1f} s", rows)
    twice = {round_: count for round_, count in plans.items() if count > 1}
    say(f"plans made: {plans.total()}; made more than once: {twice or 'none'}")
    bad = [t for t in told if t.verdict == HUNG or t.verdict.startswith(WRONG)]
    whole = sum(t.verdict == WHOLE for t in told)
    say(f"whole: {whole}, errors: {len(told) - whole - len(bad)}, wrong or hung: {len(bad)}")
    return not bad and not twice


def main() -> int:
    """Do it, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.gateway.load")
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--pause", type=float, default=0.1, help="seconds between two frames")
    given = parser.parse_args()
    allow_many_files()
    with open_place(given.requests, given.pause) as place:
        began = time.perf_counter()
        told = asyncio.run(load(place, given.requests))
        is_well = report(told, place.plans(), time.perf_counter() - began)
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
