"""What each tenant sees of the workers."""

import pytest
from pydantic import SecretStr

from api.app import create_app
from tests.api.conftest import AGENTS, client_of, lived
from tests.api.test_health import register
from worker.resources import Resources
from worker.settings import Settings

KEYS = (SecretStr("acme:alpha"), SecretStr("plain"), SecretStr("default:named"))


@pytest.mark.parametrize(("key", "is_told"), [("alpha", False), ("plain", True), ("named", True)])
async def test_only_the_default_tenant_learns_where_workers_run(
    redis_url: str, resources: Resources, key: str, is_told: bool
) -> None:
    await register(resources, "runs", "one")
    settings = Settings(redis_url=SecretStr(redis_url), namespace="t", api_keys=KEYS)

    async with (
        lived(create_app(settings, app=AGENTS)) as app,
        client_of(app, **{"x-api-key": key}) as client,
    ):
        workers = (await client.get("/v1/workers")).json()["workers"]

    where = {"pid": 42, "host": "here"} if is_told else {}
    assert workers == [{"id": "one", "queues": ["runs"], **where}]
