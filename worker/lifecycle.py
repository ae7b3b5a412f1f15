"""Whether a worker goes on or shuts down, as its jobs see it."""

import asyncio


class Lifecycle:
    """One worker's life."""

    def __init__(self) -> None:
        self._draining = asyncio.Event()

    @property
    def draining(self) -> bool:
        """Whether the worker shuts down: finish soon, or give the job back."""
        return self._draining.is_set()

    async def drained(self) -> None:
        """Wait until the worker shuts down."""
        await self._draining.wait()

    def drain(self) -> None:
        """Begin to shut down; it cannot be taken back."""
        self._draining.set()
