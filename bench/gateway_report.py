"""What the gateway's figures say: what is added to a request, ours beside the other's, the tables.

A ratio is of each at its best, whatever number of workers and connections that takes: both have the
whole of the same machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .gateway_requests import CALLED, PLAIN
from .measuring import show

OURS, PEER, DIRECT = "Loopmill", "LiteLLM", "direct"
ONE = "1"
"""One worker, or one connection."""

Found = Mapping[str, Any]
"""By gateway, workers, request and connections."""


def compared(found: Found) -> dict[str, Any]:
    """Return what each gateway adds, and the ratios of those that were measured."""
    added = {name: _added(found, name) for name in (OURS, PEER) if name in found}
    told: dict[str, Any] = {"added_ms": added}
    if OURS in found:
        told["worst_added_ms"] = max(max(each.values()) for each in added[OURS].values())
    if OURS in found and PEER in found:
        told["ratios"] = _ratios(found)
    return told


def _added(found: Found, name: str) -> dict[str, dict[str, float]]:
    """Return what a gateway with one worker adds to a request and to its first byte, p50."""
    idle = {request.name: found[name][ONE][request.name][ONE] for request in PLAIN}
    direct = {request.name: found[DIRECT][ONE][request.name][ONE] for request in PLAIN}
    return {
        asked: {
            "whole": round(figures["p50_ms"] - direct[asked]["p50_ms"], 3),
            "first_byte": round(figures["first_p50_ms"] - direct[asked]["first_p50_ms"], 3),
        }
        for asked, figures in idle.items()
    }


def best(found: Found, name: str, asked: str) -> float:
    """Return the most answers a second that a gateway has given to a request."""
    return max(
        each["per_second"] for workers in found[name].values() for each in workers[asked].values()
    )


def _ratios(found: Found) -> dict[str, Any]:
    names = [request.name for request in (*PLAIN, *CALLED)]
    at_best = {asked: best(found, OURS, asked) / best(found, PEER, asked) for asked in names}
    return {
        "whole": _least(at_best, (each.name for each in PLAIN if not each.body.get("stream"))),
        "streamed": _least(at_best, (each.name for each in PLAIN if each.body.get("stream"))),
        "callback": _least(at_best, (each.name for each in CALLED)),
        "at_best": {asked: round(ratio, 2) for asked, ratio in at_best.items()},
        "same_workers": {
            workers: {asked: _same(found, workers, asked) for asked in names}
            for workers in found[OURS]
        },
    }


def _least(ratios: Mapping[str, float], names: Iterable[str]) -> float:
    return round(min(ratios[name] for name in names), 2)


def _same(found: Found, workers: str, asked: str) -> dict[str, float]:
    """Return the ratios where both have so many workers, by connections."""
    ours, peer = found[OURS][workers][asked], found[PEER][workers][asked]
    return {
        at_once: round(ours[at_once]["per_second"] / peer[at_once]["per_second"], 2)
        for at_once in ours
    }


def report(figures: Mapping[str, Any]) -> None:
    """Print what was measured."""
    gateways: Mapping[str, Any] = figures["gateways"]
    show("a single request, idle, one worker (ms)", _idle(gateways, figures["added_ms"]))
    show("answers a second, by connections", _many(gateways))
    if "ratios" in figures:
        rows = [[asked, ratio] for asked, ratio in figures["ratios"]["at_best"].items()]
        show("answers a second, each at its best", [["", "ours ÷ LiteLLM's"], *rows])


def _idle(gateways: Mapping[str, Any], added: Mapping[str, Any]) -> list[list[object]]:
    rows: list[list[object]] = [["", "", "p50", "p99", "first byte p50", "added", "… to the first"]]
    for name, gateway in gateways.items():
        for asked, by_connections in gateway["workers"][ONE].items():
            alone = by_connections[ONE]
            more = added.get(name, {}).get(asked, {})
            times = [alone["p50_ms"], alone["p99_ms"], alone["first_p50_ms"]]
            rows.append([name, asked, *times, more.get("whole"), more.get("first_byte")])
    return rows


def _many(gateways: Mapping[str, Any]) -> list[list[object]]:
    connections = next(iter(gateways[DIRECT]["workers"][ONE].values()))
    rows: list[list[object]] = [["", "workers", "", *connections]]
    for name, gateway in gateways.items():
        for workers, requests in gateway["workers"].items():
            for asked, by_connections in requests.items():
                paces = [each["per_second"] for each in by_connections.values()]
                rows.append([name, workers, asked, *paces])
    return rows
