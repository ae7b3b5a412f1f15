"""The gateway as its users have it: an API process and a worker process beside a configuration.

Their provider plays a script in a thread of its own, so that whoever asks may block.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from anyio.from_thread import start_blocking_portal

from tests.fleet import ROOT, Fleet
from tests.gateway.upstream import Called, Reply, Script, Told, Upstream, says, upstream
from tests.loops.providers.service import Asked

MODELS = """
model_list:
- model_name: claude
  litellm_params: {{model: anthropic/claude-x, api_base: "{url}", api_key: test-key}}
- model_name: gpt
  litellm_params: {{model: openai/gpt-x, api_base: "{url}/v1", api_key: test-key}}
"""
"""One model of each protocol, at one provider."""

SHAPE = {"type": "object", "properties": {"q": {"type": "string"}}}

CONFIGURATION = "config.yaml"


@dataclass(frozen=True)
class Served:
    """A gateway that is asked at a URL, and the provider behind it."""

    url: str
    folder: Path
    up: Upstream
    fleet: Fleet


def calls_each_tool(asked: Asked) -> Told:
    """Call each tool of the request once, and say in the next round that it was found."""
    if any(each["role"] == "assistant" for each in asked.body["messages"]):
        return says("found it")
    tools = [each.get("function", each)["name"] for each in asked.body.get("tools", ())]
    return says("let me look", calls=[Called(name, {"q": "x"}) for name in tools])


def calls_again(asked: Asked) -> Reply:
    """Call the first tool again and again, each time with another question."""
    rounds = [each for each in asked.body["messages"] if each["role"] == "assistant"]
    told = asked.body["tools"][0]
    called = Called(told.get("function", told)["name"], {"q": f"question {len(rounds)}"})
    return says(f"look {len(rounds)}", calls=[called])


@contextmanager
def playing(script: Script | Told = calls_each_tool) -> Iterator[Upstream]:
    """Let a provider play the script while the block runs; another may be put in its place."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(upstream(script)) as up,
    ):
        yield up


@contextmanager
def served(
    redis_url: str,
    folder: Path,
    files: Mapping[str, str],
    *,
    app: str = "examples.hello:app",
) -> Iterator[Served]:
    """Start an API and a worker beside the files; what the configuration lacks are its models."""
    with playing() as up:
        written = {**files, CONFIGURATION: MODELS.format(url=up.url) + files[CONFIGURATION]}
        for name, text in written.items():
            (folder / name).write_text(text)
        environment = {
            "LOOPMILL_CONFIG": str(folder / CONFIGURATION),
            "PYTHONPATH": f"{ROOT}:{folder}",
        }
        with closing(Fleet(redis_url, app=app, environment=environment)) as fleet:
            api = fleet.start("api", "api", "--port", "0")
            worker = fleet.start("worker", "runs")
            fleet.wait(api)
            fleet.wait(worker)
            url = next(line for line in api.lines if " ready: " in line).split()[-1]
            yield Served(url, folder, up, fleet)
