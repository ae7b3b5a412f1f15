"""Server-sent events, read from bytes as they come: right for any chunking, and pure.

The rules are those of WHATWG's HTML standard, "Interpreting an event stream": a line ends with CR,
LF or both, an event with an empty line; what the stream breaks off with is no event. Bytes are cut
before they are decoded, since no character of UTF-8 has a CR or LF in it.
"""

from typing import NamedTuple

from loops.errors import Unavailable

LONGEST = 32 * 1024 * 1024
"""How many bytes an event may have: what a service sends must not fill the memory."""

_BOM = b"\xef\xbb\xbf"


class Frame(NamedTuple):
    """One event: its name, empty where it has none, and its data as it came."""

    name: bytes
    data: bytes


class SseParser:
    """Cuts a stream of bytes into events."""

    def __init__(self) -> None:
        self._tail: list[bytes] = []
        self._name = b""
        self._data: list[bytes] = []
        self._size = 0
        self._has_begun = False
        self._ends_with_cr = False

    def feed(self, chunk: bytes) -> list[Frame]:
        """Return the events that the chunk completes.

        Raises:
            Unavailable: When an event is longer than any that makes sense.
        """
        chunk = self._normal(chunk)
        self._size += len(chunk)
        self._tail.append(chunk)
        frames: list[Frame] = []
        if b"\n" in chunk:
            lines = b"".join(self._tail).split(b"\n")
            self._tail = [lines.pop()]
            if not self._has_begun:
                self._has_begun = True
                lines[0] = lines[0].removeprefix(_BOM)
            for line in lines:
                if line:
                    self._take(line)
                else:
                    self._finish(frames)
        if self._size > LONGEST:
            raise Unavailable(f"the service sent an event of more than {LONGEST} bytes")
        return frames

    def _normal(self, chunk: bytes) -> bytes:
        """Return the chunk with LF for each end of a line; a CR and its LF may come apart."""
        if self._ends_with_cr and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._ends_with_cr = False
        if b"\r" not in chunk:
            return chunk
        self._ends_with_cr = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
        elif name == b"event":
            self._name = value.removeprefix(b" ")

    def _finish(self, frames: list[Frame]) -> None:
        if self._data:
            frames.append(Frame(self._name, b"\n".join(self._data)))
            self._data = []
        self._name, self._size = b"", len(self._tail[0])
