"""The official SDKs as clients: read a reply in each way that they offer, and tell how long.

Nothing of ours is imported here, and the clients are kept over all replies, as their users do.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

ASKED: Any = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}

Reads = dict[str, Callable[[], Awaitable[int]]]
"""By the way of reading: what reads one reply and gives the number of its deltas."""


def anthropic(url: str) -> Reads:
    from anthropic import Anthropic, AsyncAnthropic  # noqa: PLC0415  # environments differ

    client = AsyncAnthropic(api_key="none", base_url=url)
    alone = AsyncAnthropic(api_key="none", base_url=f"{url}/alone")
    blocking = Anthropic(api_key="none", base_url=url)
    asked = {**ASKED, "max_tokens": 10}

    async def events(client: AsyncAnthropic = client) -> int:
        stream = await client.messages.create(**asked, stream=True)
        return sum([event.type == "content_block_delta" async for event in stream])

    async def in_a_thread() -> int:
        stream = blocking.messages.create(**asked, stream=True)
        return sum(event.type == "content_block_delta" for event in stream)

    async def message() -> int:
        async with client.messages.stream(**asked) as stream:
            deltas = sum([event.type == "content_block_delta" async for event in stream])
            await stream.get_final_message()
        return deltas

    return {
        "events": events,
        "blocking": in_a_thread,
        "alone": lambda: events(alone),
        "message": message,
    }


def openai(url: str) -> Reads:
    from openai import AsyncOpenAI, OpenAI  # noqa: PLC0415  # environments differ

    client = AsyncOpenAI(api_key="none", base_url=f"{url}/v1")
    alone = AsyncOpenAI(api_key="none", base_url=f"{url}/alone/v1")
    blocking = OpenAI(api_key="none", base_url=f"{url}/v1")

    def has_text(chunk: Any) -> bool:
        return bool(chunk.choices and chunk.choices[0].delta.content)

    async def events(client: AsyncOpenAI = client) -> int:
        stream = await client.chat.completions.create(**ASKED, stream=True)
        return sum([has_text(chunk) async for chunk in stream])

    async def in_a_thread() -> int:
        return sum(map(has_text, blocking.chat.completions.create(**ASKED, stream=True)))

    async def message() -> int:
        async with client.chat.completions.stream(**ASKED) as stream:
            deltas = sum([event.type == "content.delta" async for event in stream])
            await stream.get_final_completion()
        return deltas

    return {
        "events": events,
        "blocking": in_a_thread,
        "alone": lambda: events(alone),
        "message": message,
    }


async def timed(reads: Reads, patience: float) -> dict[str, list[dict[str, float]]]:
    """Read replies in each way for so many seconds, after one that does not count."""
    found: dict[str, list[dict[str, float]]] = {}
    for way, read in reads.items():
        await read()
        found[way] = []
        until = time.perf_counter() + patience
        while (began := time.perf_counter()) < until or not found[way]:
            cpu = time.process_time()
            deltas = await read()
            spent = time.process_time() - cpu
            seconds = time.perf_counter() - began
            found[way].append({"deltas": deltas, "seconds": seconds, "cpu": spent})
    return found


if __name__ == "__main__":
    kind, url, patience = sys.argv[1:]
    reads = {"anthropic": anthropic, "openai": openai}[kind](url)
    print(json.dumps(asyncio.run(timed(reads, float(patience)))))
