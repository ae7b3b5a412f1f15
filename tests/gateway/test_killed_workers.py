"""Workers that are killed in the middle of a call: no plan is made twice, and no caller hangs."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from loops.gateway.rounds import Surface
from tests.fleet import Fleet, Member
from tests.gateway.killable import FOREVER, NOTES
from tests.gateway.rounds_in_process import ASKS, CHAT, FOUND, MESSAGES, body_of
from tests.gateway.served import playing
from tests.gateway.upstream import Asked, Told, Upstream
from tests.gateway.whole import PATHS, frames_of
from worker.embedded import start_server

pytestmark = pytest.mark.gateway

CONFIGURATION = """
model_list:
- model_name: claude
  params: {{model: anthropic/x, api_base: "{url}", api_key: test-key}}
- model_name: gpt
  params: {{model: openai/x, api_base: "{url}/v1", api_key: test-key}}
callbacks: [tests.gateway.killable.killable]
"""

MODEL = {MESSAGES: "claude", CHAT: "gpt"}


@dataclass
class Stage:
    """An API process, two workers, and the provider that kills them."""

    url: str
    notes: Path
    fleet: Fleet
    up: Upstream

    def plans(self, said: str) -> list[int]:
        """Return the processes that have made a plan for what was asked."""
        lines = self.notes.read_text().splitlines() if self.notes.exists() else []
        return [int(line.split()[0]) for line in lines if line.endswith(said)]

    def man(self) -> None:
        """See to it that two workers serve."""
        workers = [each for each in self.fleet.members[1:] if each.is_alive]
        new = [self.fleet.start("worker", "runs") for _ in range(2 - len(workers))]
        for member in new:
            self.fleet.wait(member)


def url_of(api: Member) -> str:
    return next(line for line in api.lines if " ready: " in line).split()[-1]


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("killed")
    server, notes = start_server(folder, durable=False), folder / "notes"
    with playing() as up:
        (folder / "config.yaml").write_text(CONFIGURATION.format(url=up.url))
        environment = {
            "LOOPMILL_CONFIG": str(folder / "config.yaml"),
            "LOOPMILL_LEASE": "1s",
            NOTES: str(notes),
        }
        with closing(Fleet(server.url, app="examples.hello:app", environment=environment)) as fleet:
            api = fleet.start("api", "api", "--port", "0")
            stage = Stage("", notes, fleet, up)
            stage.man()
            fleet.wait(api)
            stage.url = url_of(api)
            yield stage
    server.stop()


@pytest.fixture
def stage(deployment: Stage) -> Stage:
    deployment.man()
    return deployment


@contextmanager
def killing(stage: Stage, said: str) -> Iterator[None]:
    """Kill the worker that begins to plan, as soon as it does, while the block runs."""
    pause, over = 0.01, threading.Event()

    def kill() -> None:
        while not (makers := stage.plans(said)):
            if over.wait(pause):
                return
        os.kill(makers[0], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def ask(stage: Stage, surface: Surface, said: str, mode: str, *, stream: bool) -> httpx.Response:
    body = body_of(surface, stream=stream) | {"model": MODEL[surface]}
    body["messages"] = [{"role": "user", "content": said}]
    headers = {"x-loopmill-streaming": mode}
    return httpx.post(f"{stage.url}{PATHS[surface]}", json=body, headers=headers, timeout=20)


@pytest.mark.parametrize(
    ("surface", "mode", "stream"),
    [(MESSAGES, "compatible", True), (MESSAGES, "merged", True), (CHAT, "hold", False)],
)
def test_a_worker_that_dies_after_a_plan_is_followed_by_one_that_makes_none(
    stage: Stage, surface: Surface, mode: str, stream: bool
) -> None:
    said, killed = f"go {uuid4()}", list[int]()

    def script(asked: Asked) -> Told:
        if not [each for each in asked.body["messages"] if each["role"] == "assistant"]:
            return ASKS
        if not killed:
            killed.append(stage.plans(said)[-1])
            os.kill(killed[0], signal.SIGKILL)
            raise ConnectionError("its caller is dead")
        return FOUND

    stage.up.script = script
    answer = ask(stage, surface, said, mode, stream=stream)

    assert (answer.status_code, len(killed)) == (200, 1)
    assert "ound" in answer.text
    assert '"error"' not in answer.text
    assert stage.plans(said) == killed


@pytest.mark.parametrize("surface", [MESSAGES, CHAT])
@pytest.mark.parametrize("stream", [True, False])
def test_a_worker_that_dies_in_a_builder_ends_the_call_and_nobody_builds_again(
    stage: Stage, surface: Surface, stream: bool
) -> None:
    said = f"{FOREVER} {uuid4()}"
    stage.up.script = lambda _: ASKS

    with httpx.Client(timeout=20) as client:
        body = body_of(surface, stream=stream) | {"model": MODEL[surface]}
        body["messages"] = [{"role": "user", "content": said}]
        url, headers = f"{stage.url}{PATHS[surface]}", {"x-loopmill-streaming": "merged"}
        began = time.monotonic()
        with killing(stage, said), client.stream("POST", url, json=body, headers=headers) as came:
            text = "".join(came.iter_text())

    assert time.monotonic() - began < 15
    assert came.status_code == (200 if stream else 500)
    assert "was lost" in text
    shown = [data for _, data in frames_of(text)] if stream else [text]
    assert '"error"' in shown[-2 if stream and surface is CHAT else -1]
    assert len(stage.plans(said)) == 1
