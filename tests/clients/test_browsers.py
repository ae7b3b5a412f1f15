"""A browser by ticket, Node's fetch, curl and Python: all of them see the same run."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from api.app import create_app
from api.sse import Reader
from loops.tasks import Owner
from tests.api.author import Author, begin, text
from tests.api.conftest import AGENTS, Live, served
from tests.clients.pages import Site, open_browser, open_site
from tests.waiting import wait_until
from worker.resources import open_resources
from worker.settings import Settings

pytestmark = [pytest.mark.clients, pytest.mark.timeout(60)]

HERE = Path(__file__).parent
KEY = {"x-api-key": "secret"}


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with open_site() as site:
        yield site


@pytest.fixture
def settings(redis_url: str, site: Site) -> Settings:
    """An API with a key, which one page may call."""
    return Settings(
        redis_url=SecretStr(redis_url),
        namespace="t",
        api_keys=(SecretStr("acme:secret"),),
        cors_origins=(site.origin,),
    )


@pytest.fixture
async def live(settings: Settings) -> AsyncIterator[Live]:
    async with served(create_app(settings, app=AGENTS)) as live:
        yield live


@pytest.fixture
async def author(settings: Settings) -> AsyncIterator[Author]:
    async with open_resources(settings) as resources:
        yield await begin(resources, tenant="acme")


def ids(said: dict[str, Any]) -> list[str]:
    return [event["id"] for event in said["seen"]]


async def write_with_a_break(live: Live, author: Author, is_followed: Callable[[], bool]) -> None:
    """Half of the story, a connection that is cut, and the rest."""
    await wait_until(is_followed, for_="the client to follow")
    await author.append(text("one é"), text("two\nlines"))
    await author.append(text("\u2028three 😀"))
    for follower in list(live.office.hub.followers):
        follower.close()
    await author.append(text("while nobody read"))
    await wait_until(is_followed, for_="the client to come back")
    await author.append(text("after the break"))
    await author.settle()


async def ticket_url(live: Live, author: Author) -> str:
    async with httpx.AsyncClient(base_url=live.url, headers=KEY) as client:
        issued = await client.post(f"/v1/runs/{author.run_id}/ticket")
    return f"{live.url}{issued.json()['url']}"


async def by_python(live: Live, author: Author) -> list[dict[str, str]]:
    """The whole run, read again from its beginning."""
    headers = {**KEY, "Accept": "text/event-stream"}
    async with httpx.AsyncClient(base_url=live.url, headers=headers) as client:
        answer = await client.get(f"/v1/runs/{author.run_id}/events")
    messages = Reader().feed(answer.content)
    return [{"id": each.last_id, "type": each.event, "data": each.data} for each in messages]


async def output_of(*command: str) -> bytes:
    child = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    output, _ = await child.communicate()
    assert child.returncode == 0
    return output


async def test_a_browser_follows_by_ticket_resumes_and_is_told_to_stop(
    live: Live, site: Site, author: Author, tmp_path: Path
) -> None:
    page = site.page(await ticket_url(live, author))

    async with open_browser(page, tmp_path):
        await write_with_a_break(live, author, lambda: len(live.office.hub.followers) == 1)
        async with asyncio.timeout(20):
            said = await site.said

    assert ids(said) == [str(seq) for seq in range(1, 8)], "nothing is missing, nothing twice"
    assert said["opened"] == 2
    assert said["seen"] == await by_python(live, author)


async def test_a_page_of_another_origin_sees_nothing(
    live: Live, author: Author, tmp_path: Path
) -> None:
    url = await ticket_url(live, author)
    async with open_site() as evil, open_browser(evil.page(url), tmp_path):
        async with asyncio.timeout(20):
            said = await evil.said

    assert said == {"opened": 0, "seen": []}


async def test_a_forged_ticket_is_refused_for_good(
    live: Live, site: Site, author: Author, tmp_path: Path
) -> None:
    url = await ticket_url(live, author)
    forged = url[:-1] + ("A" if url[-1] != "A" else "B")

    async with open_browser(site.page(forged), tmp_path), asyncio.timeout(20):
        said = await site.said

    assert said == {"opened": 0, "seen": []}


async def test_fetch_follows_by_header_and_resumes(live: Live, author: Author) -> None:
    url, owner = f"{live.url}/v1/runs/{author.run_id}/events", Owner()
    reading = owner.start(output_of("node", str(HERE / "fetch.mjs"), url, "secret"), name="node")

    await write_with_a_break(live, author, lambda: len(live.office.hub.followers) == 1)

    said = json.loads(await reading)
    assert ids(said) == [str(seq) for seq in range(1, 8)]
    assert said["opened"] == 2
    assert said["seen"] == await by_python(live, author)


async def test_curl_sees_the_bytes_that_python_sees(live: Live, author: Author) -> None:
    await author.append(text("one é"), text("two\nlines"))
    await author.settle()
    url = f"{live.url}/v1/runs/{author.run_id}/events"

    output = await output_of(
        "curl", "-sN", "-H", "Authorization: Bearer secret", "-H", "Accept: text/event-stream", url
    )

    messages = Reader().feed(output)
    seen = [{"id": each.last_id, "type": each.event, "data": each.data} for each in messages]
    assert seen == await by_python(live, author)
