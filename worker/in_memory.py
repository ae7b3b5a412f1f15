"""A server in pure Python, for machines that have no other. It keeps nothing, and is slow.

It is imported where it is started: what it stands on takes a tenth of a command's start.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread

from fakeredis import TcpFakeServer


def serve(port: int) -> Callable[[], None]:
    """Serve on the port, in a thread of this process; return what ends it."""
    server = TcpFakeServer(("127.0.0.1", port))
    Thread(target=server.serve_forever, name="server in memory", daemon=True).start()

    def end() -> None:
        server.shutdown()
        server.server_close()

    return end
