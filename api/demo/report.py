"""From what was found in each file to one ranked report: a pure function of the tools' results."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

MOST_GROUPS = 12
"""How many groups the report shows; the others are counted."""


@dataclass(slots=True)
class Group:
    """All lines of a folder that match one expression."""

    expression: str
    title: str = ""
    example: str = ""
    first: str | None = None
    last: str | None = None
    files: dict[str, int] = field(default_factory=dict[str, int])
    busiest: Mapping[str, Any] | None = None
    """The minute with the most lines, in the files that were looked at twice."""

    @property
    def count(self) -> int:
        """How many lines match."""
        return sum(self.files.values())

    def take(self, file: str, kind: Mapping[str, Any]) -> None:
        """Add what one file holds; a second look at the same file replaces the first."""
        self.files[file] = kind["count"]
        self.title = self.title or kind.get("title", "")
        if kind["first"] is not None and (self.first is None or kind["first"] < self.first):
            self.first, self.example = kind["first"], kind["example"]
        self.example = self.example or kind["example"]
        self.last = max(filter(None, (self.last, kind["last"])), default=None)
        busiest = kind.get("busiest")
        if busiest and (self.busiest is None or busiest["count"] > self.busiest["count"]):
            self.busiest = {**busiest, "file": file}


def rank(
    scans: Iterable[Mapping[str, Any]], looks: Iterable[Mapping[str, Any]] = ()
) -> list[Group]:
    """Merge what scans and second looks found, the largest group first."""
    groups: dict[str, Group] = {}
    for found in (*scans, *looks):
        for kind in found["kinds"]:
            if kind["count"]:
                group = groups.setdefault(kind["expression"], Group(kind["expression"]))
                group.take(found["file"], kind)
    return sorted(groups.values(), key=lambda group: (-group.count, group.expression))


def report_of(
    folder: str,
    scans: list[Mapping[str, Any]],
    looks: list[Mapping[str, Any]],
    unread: Mapping[str, str],
    *,
    left_out: int = 0,
) -> dict[str, Any]:
    """Return the report as JSON would have it.

    `unread` says why a file could not be read, `left_out` how many were not even tried.
    """
    groups = rank(scans, looks)
    shown, others = groups[:MOST_GROUPS], groups[MOST_GROUPS:]
    return {
        "folder": folder,
        "files": len(scans),
        "lines": sum(scan["lines"] for scan in scans),
        "bytes": sum(scan["bytes"] for scan in scans),
        "groups": [_as_json(group) for group in shown],
        "others": {"groups": len(others), "lines": sum(group.count for group in others)},
        "unread": dict(unread),
        "left_out": left_out,
    }


def _as_json(group: Group) -> dict[str, Any]:
    return {
        "title": group.title,
        "count": group.count,
        "expression": group.expression,
        "first": group.first,
        "last": group.last,
        "busiest": group.busiest,
        "files": dict(sorted(group.files.items(), key=lambda each: (-each[1], each[0]))),
        "example": group.example,
    }


def write(report: Mapping[str, Any]) -> str:
    """Write the report for people, with the same as JSON in a block at its end."""
    groups = report["groups"]
    block = json.dumps(report, ensure_ascii=False, separators=(",", ":"))
    parts = [_head(report), *(_paragraph(place, group) for place, group in enumerate(groups, 1))]
    if report["others"]["groups"]:
        parts.append(_others(report["others"]))
    parts += [f"Could not read {file}: {reason}" for file, reason in report["unread"].items()]
    return "\n\n".join([*parts, f"```json\n{block}\n```"])


def read(text: str) -> dict[str, Any] | None:
    """Return the JSON at the end of a report's text, or None when there is none."""
    _, fence, block = text.rpartition("```json\n")
    body, end, _ = block.rpartition("\n```")
    if not (fence and end):
        return None
    report: dict[str, Any] = json.loads(body)
    return report


def headline(report: Mapping[str, Any]) -> str:
    """Say in one line what was read and what was found."""
    groups, others = report["groups"], report["others"]
    errors = sum(group["count"] for group in groups) + others["lines"]
    kinds = _counted(len(groups) + others["groups"], "kind")
    read_in = f"{_counted(report['lines'], 'line')} of {_counted(report['files'], 'file')}"
    if report["left_out"]:
        read_in += f" ({_counted(report['left_out'], 'more file')} left out)"
    if not groups:
        return f"No errors in {read_in}"
    return f"{_counted(errors, 'error')} of {kinds} in {read_in}"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _head(report: Mapping[str, Any]) -> str:
    return f"Triage of {report['folder']}: {headline(report)}."


def _paragraph(place: int, group: Mapping[str, Any]) -> str:
    files = [f"{name} {count:,}" for name, count in group["files"].items()]
    more = f" and {_counted(len(files) - 3, 'more file')}" if len(files) > 3 else ""
    lines = [
        f"{place}. {group['count']:,} × {group['title']}",
        f"   {_when(group)}in {', '.join(files[:3])}{more}",
        f"   grep -E {shlex.quote(group['expression'])}",
        f"   {group['example']}",
    ]
    return "\n".join(lines)


def _when(group: Mapping[str, Any]) -> str:
    if group["first"] is None:
        return ""
    return f"{group['first']} to {group['last']}{_most(group['busiest'])} "


def _most(busiest: Mapping[str, Any] | None) -> str:
    if busiest is None:
        return ""
    return f" (most at {busiest['minute'][11:]}: {busiest['count']} in {busiest['file']})"


def _others(others: Mapping[str, Any]) -> str:
    return (
        f"And {_counted(others['lines'], 'error')} of {_counted(others['groups'], 'rarer kind')}."
    )
