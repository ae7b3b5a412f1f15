"""A little MCP server for the tests: it speaks stdio, or HTTP at each `PORT:KIND` it is given.

Its tools come in pages of three. It notes each call in the file that MCP_NOTES names.
"""

import asyncio
import base64
import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolRequestParams,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ListToolsResult,
    PaginatedRequestParams,
    ResourceLink,
    TextContent,
    TextResourceContents,
    Tool,
)

PAGE = 3
PIXEL = base64.b64encode(b"\x89PNG and so on").decode()
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
NAMES = ("echo", "add", "look", "weather.today", "weather today", "fail", "sleep", "die", "secret")


async def list_tools(context: Any, params: PaginatedRequestParams | None) -> ListToolsResult:
    start = int(params.cursor) if params and params.cursor else 0
    page = NAMES[start : start + PAGE]
    more = str(start + PAGE) if start + PAGE < len(NAMES) else None
    tools = [Tool(name=name, description=f"Does {name}.", input_schema=SCHEMA) for name in page]
    return ListToolsResult(tools=tools, next_cursor=more)


async def call_tool(context: Any, params: CallToolRequestParams) -> CallToolResult:
    note(params.name)
    given = params.arguments or {}
    match params.name:
        case "echo":
            return said(str(given["text"]), f"from {os.getpid()}")
        case "add":
            return CallToolResult(content=[], structured_content={"sum": given["a"] + given["b"]})
        case "look":
            return CallToolResult(content=things())
        case "sleep":
            await asyncio.sleep(given["seconds"])
            return said("slept")
        case "die":
            sys.stderr.write("I have had enough\n")
            sys.stderr.flush()
            os._exit(3)
        case "secret":
            return said(f"{given['text']} is wrong", is_error=True)
        case _:
            return said(f"no {params.name} today", is_error=True)


def said(*texts: str, is_error: bool = False) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text) for text in texts], is_error=is_error)


def things() -> list[Any]:
    note = TextResourceContents(uri="file:///note.txt", text="a note")
    blob = BlobResourceContents(uri="file:///a.zip", mime_type="application/zip", blob="UEs=")
    return [
        TextContent(text="see"),
        ImageContent(data=PIXEL, mime_type="image/png"),
        ImageContent(data="PHN2Zz4=", mime_type="image/svg+xml"),
        AudioContent(data="UklGRg==", mime_type="audio/wav"),
        EmbeddedResource(resource=note),
        EmbeddedResource(resource=blob),
        ResourceLink(name="more", uri="file:///more.txt"),
    ]


def note(name: str) -> None:
    if path := os.environ.get("MCP_NOTES"):
        with Path(path).open("a", encoding="utf-8") as notes:
            notes.write(f"{name}\n")


SERVER: Server[Any] = Server("little", on_list_tools=list_tools, on_call_tool=call_tool)


def server() -> Server[Any]:
    return Server("little", on_list_tools=list_tools, on_call_tool=call_tool)


async def speak() -> None:
    made = server()
    async with stdio_server() as (read, write):
        await made.run(read, write, made.create_initialization_options())


async def listen(ports: list[str]) -> None:
    async with anyio.create_task_group() as group:
        for each in ports:
            port, kind = each.split(":")
            app = KINDS[kind](server().streamable_http_app())
            config = uvicorn.Config(app, port=int(port), log_level="warning", ws="none")
            group.start_soon(uvicorn.Server(config).serve)


class Elderly:
    """The server as one of the older kind: it knows sessions, and forgets them at `/forget`."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._known: set[bytes] = set()
        self._forgotten: set[bytes] = set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", ()))
        session = headers.get(b"mcp-session-id", b"")
        if headers.get(b"mcp-method") == b"server/discover":
            await answer(send, 400, b"what is that?")
        elif session in self._forgotten:
            await answer(send, 404, b"who are you?")
        elif scope.get("path") == "/forget":
            self._forgotten |= self._known
            await answer(send, 200, str(len(self._forgotten)).encode())
        else:
            self._known |= {session} - {b""}
            await self._app(scope, receive, send)


class Guarded:
    """The server behind a door that opens for a token, and tells of a wrong one."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        given = dict(scope.get("headers", ())).get(b"authorization", b"")
        if scope["type"] == "http" and not given:
            await answer(send, 401, b"no")
        elif scope["type"] == "http" and given != b"Bearer open-sesame":
            error = {"code": -32001, "message": f"{given.decode()} is wrong"}
            await answer(
                send, 401, json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
            )
        else:
            await self._app(scope, receive, send)


async def answer(send: Any, status: int, body: bytes) -> None:
    kind = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": kind})
    await send({"type": "http.response.body", "body": body})


KINDS = {"elderly": Elderly, "guarded": Guarded, "plain": lambda app: app}


if __name__ == "__main__":
    asyncio.run(listen(sys.argv[1:]) if sys.argv[1:] else speak())
