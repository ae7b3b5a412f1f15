"""The official SDKs as clients: read one reply, and tell how long that took."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

MESSAGES: Any = [{"role": "user", "content": "hi"}]


async def by_anthropic(url: str) -> AsyncIterator[int]:
    from anthropic import AsyncAnthropic  # noqa: PLC0415  # environments differ

    client = AsyncAnthropic(api_key="none", base_url=url)
    while True:
        stream = await client.messages.create(
            model="m", max_tokens=10, messages=MESSAGES, stream=True
        )
        deltas = 0
        async for event in stream:
            deltas += event.type == "content_block_delta"
        yield deltas


async def by_openai(url: str) -> AsyncIterator[int]:
    from openai import AsyncOpenAI  # noqa: PLC0415  # environments differ

    client = AsyncOpenAI(api_key="none", base_url=f"{url}/v1")
    while True:
        stream = await client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        deltas = 0
        async for chunk in stream:
            deltas += bool(chunk.choices and chunk.choices[0].delta.content)
        yield deltas


async def main(kind: str, url: str, times: int) -> None:
    replies = by_anthropic(url) if kind == "anthropic" else by_openai(url)
    await anext(replies)
    found: list[dict[str, float]] = []
    for _ in range(times):
        began, cpu = time.perf_counter(), time.process_time()
        deltas = await anext(replies)
        found.append(
            {
                "deltas": deltas,
                "seconds": time.perf_counter() - began,
                "cpu": time.process_time() - cpu,
            }
        )
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
