"""A reader of event streams, written from the rules of the HTML standard and nothing else."""

from dataclasses import dataclass, field


@dataclass
class Standard:
    """The state of a reader: fed whole, it gives what a browser would dispatch."""

    last_id: str = ""
    events: list[tuple[str, str, str]] = field(default_factory=list)
    """Name, data and position of each event."""


def read(body: bytes) -> Standard:
    """Read a whole stream: decode, split into lines, and go through the fields."""
    decoded = body.decode("utf-8", "replace").removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")
    lines = decoded.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    state = Standard()
    name, data, position = "", "", ""
    for line in lines[:-1]:
        if line == "":
            state.last_id = position
            if data:
                state.events.append((name or "message", data.removesuffix("\n"), position))
            name, data = "", ""
            continue
        key, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if key == "event":
            name = value
        elif key == "data":
            data += value + "\n"
        elif key == "id" and "\0" not in value:
            position = value
    return state
