"""Server-sent events, read from bytes as they come: right for any chunking, and pure.

The rules are those of WHATWG's HTML standard, "Interpreting an event stream": a line ends with CR,
LF or both, an event with an empty line; what the stream breaks off with is no event. Bytes are cut
before they are decoded, since no character of UTF-8 has a CR or LF in it.
"""

import re

from loops.errors import Unavailable

LONGEST = 32 * 1024 * 1024
"""How many bytes an event may have: what a service sends must not fill the memory."""

_BOM = b"\xef\xbb\xbf"

_EVENT = re.compile(rb"(?:event: ?+(.*+)\n)?+data: ?+(.++)\n\n|((?:.++\n)*+)\n")
"""An event: name and data where it is written as nearly all are, or the lines of any other."""


Frame = tuple[bytes, bytes]
"""One event: its name, empty where it has none, and its data as it came. A class of its own would
take as long to make as all the rest of the cutting."""


class SseParser:
    """Cuts a stream of bytes into events."""

    def __init__(self) -> None:
        self._tail = bytearray()
        """What has come of the event that is not complete."""
        self._has_begun = False
        self._ends_with_cr = False

    def feed(self, chunk: bytes) -> list[Frame]:
        """Return the events that the chunk completes.

        Raises:
            Unavailable: When an event is longer than any that makes sense.
        """
        seen = len(self._tail)
        self._tail += self._normal(chunk) if self._ends_with_cr or b"\r" in chunk else chunk
        end = self._tail.rfind(b"\n\n", seen and seen - 1) + 2
        if end < 2:
            if len(self._tail) > LONGEST:
                raise Unavailable(f"the service sent an event of more than {LONGEST} bytes")
            return []
        found = _EVENT.findall(self._tail, 0 if self._has_begun else self._begin(), end)
        del self._tail[:end]
        return [
            frame
            for name, data, lines in found
            if (frame := (name, data) if data else _framed(lines)) is not None
        ]

    def _begin(self) -> int:
        self._has_begun = True
        return len(_BOM) if self._tail.startswith(_BOM) else 0

    def _normal(self, chunk: bytes) -> bytes:
        """Return the chunk with LF for each end of a line; a CR and its LF may come apart."""
        if self._ends_with_cr and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._ends_with_cr = False
        if b"\r" not in chunk:
            return chunk
        self._ends_with_cr = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _framed(lines: bytes) -> Frame | None:
    """Return the event of these lines; one without data is none."""
    event, data = b"", list[bytes]()
    for line in lines.split(b"\n"):
        name, _, value = line.partition(b":")
        if name == b"data":
            data.append(value.removeprefix(b" "))
        elif name == b"event":
            event = value.removeprefix(b" ")
    return (event, b"\n".join(data)) if data else None
