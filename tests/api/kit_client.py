"""A client of the kit's dialect, written from its rules: it looks at lines of `data` alone."""

import json
from typing import Any

from tests.api.reading import read

Part = dict[str, Any]

DONE = "[DONE]"


def lines_of(body: bytes) -> list[str]:
    """The data of each frame, as a client finds it that takes any break for the end of a line."""
    lines = body.decode().splitlines()
    return [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]


def parts_of(body: bytes) -> list[Part]:
    """What a whole stream tells between its opening and its end."""
    opening, *lines, last = lines_of(body)
    assert json.loads(opening)["type"] == "chat_id"
    assert last == DONE
    assert DONE not in lines
    return [json.loads(line) for line in lines]


def placed(body: bytes) -> list[tuple[int, Part]]:
    """The parts of a stream, each with the position from which one goes on after its event."""
    found: list[tuple[int, Part]] = []
    waiting: list[Part] = []
    for frame in body.split(b"\n\n"):
        waiting += [json.loads(line) for line in lines_of(frame) if line != DONE]
        if frame.startswith(b"id: "):
            position = int(frame.split(b"\n")[0].removeprefix(b"id: "))
            # The opening is no event of the run.
            found += [(position, part) for part in waiting if part["type"] != "chat_id"]
            waiting = []
    return found


def folded(told: list[tuple[int, Part]]) -> list[Part]:
    """What the client shows in the end."""
    kept: list[tuple[int, Part]] = []
    for position, part in told:
        if part["type"] == "reset":
            kept = [each for each in kept if each[0] <= part["after"]]
        elif part["type"] == "snapshot":
            kept = [(position, each) for each in part["parts"]] if "parts" in part else kept
        else:
            kept.append((position, part))
    shown: list[Part] = []
    for _, part in kept:
        _show(shown, part)
    return shown


def _show(shown: list[Part], part: Part) -> None:
    kind = part["type"]
    steps = [each for each in shown if each["type"] == "step"]
    step = next((each for each in steps if each["id"] == part.get("id")), None)
    if kind == "step_arg" and step is not None:
        step["args"] = step.get("args", "") + part["delta"]
    elif kind == "step" and step is not None:
        step.update(part)
    elif kind in {"text", "thinking"} and shown and shown[-1]["type"] == kind:
        shown[-1] = {**shown[-1], kind: shown[-1][kind] + part[kind]}
    elif kind not in {"ping", "step_arg"}:
        shown.append(dict(part))


def last_id(body: bytes) -> str:
    """The position that a browser has after the stream."""
    return read(body).last_id
