"""The gateway, beside LiteLLM's proxy: `python -m bench.gateway`.

One scripted upstream, one client, everything on loopback; each gateway alone on the machine with
them, in one run. Ours is an API and one run worker or two; LiteLLM's proxy has one worker or two.

* idle: one request after the other on one connection; what a gateway adds is its p50 without that
  of the same request made to the upstream directly, and so is what it adds to the first byte.
* many: 1, 16 and 64 connections, each with one request after the other; answers in a second.
* a callback: the model calls a tool, a callback answers it, and the model is asked again.

Every answer is read, and has to be the right one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .callers import Request, ask_for_a_while
from .drivers.gateway_upstream import WORDS
from .gateway_report import compared, report
from .gateway_requests import CALLED, PLAIN
from .gateways import AT_ONCE, STARTED, open_notes, open_upstream, version
from .measuring import arguments, keep, machine, medians, run
from .processes import Processes

CONNECTIONS = (1, 16, 64)
WORKERS = (1, 2)
SECONDS = 1.5
QUICK = 0.2

SETTINGS = {
    "direct": "no gateway",
    "Loopmill": f"an API, run workers of {AT_ONCE} slots, a server: as shipped",
    "LiteLLM": "LITELLM_MODE=PRODUCTION, LITELLM_LOG=ERROR, uvicorn with uvloop, no database",
}


def versions() -> dict[str, str]:
    return {"direct": "", "Loopmill": "0.1.0", "LiteLLM": version()}


def asked(port: int, requests: Sequence[Request], *, quick: bool) -> dict[str, Any]:
    """Ask for all of these, by few and by many at once."""
    seconds = QUICK if quick else SECONDS
    return {
        request.name: {
            str(at_once): run(ask_for_a_while(port, request, at_once=at_once, seconds=seconds))
            for at_once in CONNECTIONS
        }
        for request in requests
    }


def one_round(only: str, *, quick: bool) -> dict[str, Any]:
    """Measure all of them once, in turn."""
    found: dict[str, Any] = {}
    with open_notes() as notes, Processes(notes) as processes:
        upstream = open_upstream(processes)
        found["direct"] = {"1": asked(upstream, PLAIN, quick=quick)}
        names = [name for name in STARTED if not only or name in only.split(",")]
        for workers in WORKERS:
            for requests in (PLAIN, CALLED):
                for name in names:
                    print(f"{name}, workers: {workers}, {requests[0].name} …", flush=True)
                    with STARTED[name](upstream, workers=workers, calls=requests is CALLED) as port:
                        figures = asked(port, requests, quick=quick)
                    found.setdefault(name, {}).setdefault(str(workers), {}).update(figures)
    return found


def main() -> None:
    """Measure, print and keep the figures; those of a part are no results."""
    given = arguments("gateway", rounds=1)
    rounds = [one_round(given.only, quick=given.quick) for _ in range(given.rounds)]
    found = medians(rounds)
    known = versions()
    gateways = {
        name: {"version": known[name], "settings": SETTINGS[name], "workers": found[name]}
        for name in found
    }
    figures = {**machine(), "rounds": given.rounds, "words_in_a_reply": WORDS}
    figures |= {"gateways": gateways, **compared(found)}
    report(figures)
    keep("gateway", figures, quick=given.quick or bool(given.only))


if __name__ == "__main__":
    main()
