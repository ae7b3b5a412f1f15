"""What the API says of itself: bodies, keys, streams, waits; and it is true."""

from typing import Any

import httpx
import pytest

from tests.api.test_border import routes


@pytest.fixture
async def described(client: httpx.AsyncClient) -> dict[str, Any]:
    described: dict[str, Any] = (await client.get("/v1/openapi.json")).json()
    return described


def resolved(described: dict[str, Any], operation: dict[str, Any]) -> dict[str, Any]:
    """The schema of the operation's body."""
    reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    schema: dict[str, Any] = described["components"]["schemas"][reference.rpartition("/")[2]]
    return schema


def test_the_bodies_are_described(described: dict[str, Any]) -> None:
    run, session = (described["paths"][f"/v1/{each}"]["post"] for each in ("runs", "sessions"))

    fields = resolved(described, run)
    assert fields["required"] == ["agent", "input"]
    assert {"session_id", "timeout", "metadata", "stream"} < set(fields["properties"])
    assert set(resolved(described, session)["properties"]) == {"id", "metadata"}
    assert run["requestBody"]["required"]
    assert not session["requestBody"]["required"]


def test_the_keys_are_described(described: dict[str, Any]) -> None:
    schemes = described["components"]["securitySchemes"]

    assert (schemes["bearer"]["type"], schemes["bearer"]["scheme"]) == ("http", "bearer")
    assert (schemes["apiKey"]["in"], schemes["apiKey"]["name"]) == ("header", "x-api-key")
    assert described["security"] == [{"bearer": []}, {"apiKey": []}]
    opened = [
        path
        for path, each in described["paths"].items()
        if each.get("get", {}).get("security") == []
    ]
    assert sorted(opened) == ["/healthz", "/readyz"]


def test_every_route_is_described(described: dict[str, Any]) -> None:
    paths = described["paths"]

    for method, path in routes("{run_id}", "{session_id}"):
        assert method.lower() in paths[path.replace("/ship", "/{label}")], f"{method} {path}"


def names(operation: dict[str, Any]) -> set[str]:
    return {each["name"] for each in operation["parameters"]}


def test_streams_and_waits_are_described(described: dict[str, Any]) -> None:
    paths = described["paths"]

    for whose in ("run", "session"):
        reading = paths[f"/v1/{whose}s/{{{whose}_id}}/events"]["get"]
        wanted = {f"{whose}_id", "after", "Last-Event-ID", "types", "limit", "wait"}
        assert wanted <= names(reading)
        assert set(reading["responses"]["200"]["content"]) == {
            "application/json", "text/event-stream", "application/x-ndjson",
        }  # fmt: skip
    assert "wait" in names(paths["/v1/runs/{run_id}/result"]["get"])
    assert "wait" in names(paths["/v1/runs/{run_id}/cancel"]["post"])


def references(value: object) -> set[str]:
    if isinstance(value, dict):
        own = {str(value["$ref"])} if "$ref" in value else set[str]()
        return own.union(*(references(each) for each in value.values()))
    return set[str]().union(*map(references, value)) if isinstance(value, list) else set()


def test_all_that_is_referred_to_is_there(described: dict[str, Any]) -> None:
    there = {f"#/components/schemas/{name}" for name in described["components"]["schemas"]}

    assert references(described) <= there
    assert not any("ValidationError" in name for name in there)


async def test_a_refusal_is_what_the_description_says(
    client: httpx.AsyncClient, described: dict[str, Any]
) -> None:
    answer = await client.post("/v1/runs", json={})

    default = described["paths"]["/v1/runs"]["post"]["responses"]["default"]
    assert answer.headers["content-type"] in default["content"]
    problem = described["components"]["schemas"]["Problem"]
    assert set(problem["required"]) <= set(answer.json()) <= set(problem["properties"])


ASKED = ["/v1/messages", "/v1/messages/count_tokens", "/v1/chat/completions"]


@pytest.mark.parametrize("path", ASKED)
def test_the_gateways_paths_are_described(described: dict[str, Any], path: str) -> None:
    asking = described["paths"][path]["post"]

    body = asking["requestBody"]["content"]["application/json"]["schema"]
    assert body["required"] == ["model", "messages"]
    assert names(asking) == {"X-Loopmill-Streaming", "Idempotency-Key"}
    streams = "text/event-stream" in asking["responses"]["200"]["content"]
    assert streams is not path.endswith("count_tokens")


@pytest.mark.parametrize("path", ASKED)
async def test_a_refusal_of_the_gateway_is_what_the_description_says(
    client: httpx.AsyncClient, described: dict[str, Any], path: str
) -> None:
    answer = await client.post(path, json={})

    default = described["paths"][path]["post"]["responses"]["default"]
    schema = default["content"][answer.headers["content-type"]]["schema"]["$ref"]
    failure = described["components"]["schemas"][schema.rpartition("/")[2]]
    assert answer.status_code == 400
    assert set(failure["required"]) <= set(answer.json()) <= set(failure["properties"])
    error = failure["properties"]["error"]
    assert set(error["required"]) <= set(answer.json()["error"]) <= set(error["properties"])


def test_the_list_of_models_is_refused_in_either_protocol(described: dict[str, Any]) -> None:
    listed = described["paths"]["/v1/models"]["get"]["responses"]

    failures = listed["default"]["content"]["application/json"]["schema"]["anyOf"]
    assert len(failures) == 2
    assert "200" in listed


METHODS = [
    ("DELETE", "/v1/runs", "GET, POST"),
    ("PATCH", "/v1/runs/run_1", "DELETE, GET"),
    ("GET", "/v1/runs/run_1/cancel", "POST"),
    ("POST", "/v1/runs/run_1/events", "GET"),
    ("PUT", "/v1/sessions", "GET, POST"),
    ("POST", "/healthz", "GET"),
    ("POST", "/v1/models", "GET"),
    ("POST", "/v1/openapi.json", "GET, HEAD"),
]


@pytest.mark.parametrize(("method", "path", "allowed"), METHODS)
async def test_a_method_that_a_path_does_not_have_is_405_with_those_it_has(
    client: httpx.AsyncClient, method: str, path: str, allowed: str
) -> None:
    answer = await client.request(method, path)

    assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")
    assert answer.headers["allow"] == allowed
