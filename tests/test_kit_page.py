"""The page for authors of the kit's loops: its code runs, in one process and on workers."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields
from pathlib import Path

import pytest

import loops as ai
from loops.blocks import Raw
from loops.errors import SetupError
from loops.kit import LLM
from loops.kit.options import Options
from loops.providers.scripted import call, scripted
from tests.pages import check_page
from tests.readme import ROOT
from tests.worker.driving import TENANT, Mill, resources_over, settings
from worker.calls import RunPlace
from worker.link import Link
from worker.new_run import NewRun

PAGE = ROOT / "docs" / "kit.md"
TEXT = PAGE.read_text(encoding="utf-8")
PAY: Raw = {"name": "pay", "input_schema": {"type": "object"}}


@pytest.mark.documents
@pytest.mark.timeout(180)
def test_every_block_runs_and_says_what_is_shown(tmp_path: Path) -> None:
    check_page(TEXT, tmp_path)


def named_in(table: str) -> list[str]:
    """Return what the first column of one of the page's tables names."""
    rows = TEXT.partition(f"<!-- {table} -->\n")[2].partition(f"<!-- /{table} -->")[0]
    firsts = [row.split(" | ")[0] for row in rows.splitlines()[2:]]
    return [name for first in firsts for name in re.findall(r"`\.?(\w+)", first)]


def test_every_option_of_the_default_loop_stands_there_once() -> None:
    assert sorted(named_in("options")) == sorted(each.name for each in fields(Options))


def test_every_method_of_the_builder_stands_there_once() -> None:
    public = [name for name in vars(LLM) if not name.startswith("_")]

    assert sorted(named_in("methods")) == sorted(public)


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)", TEXT)

    assert links != []
    assert [link for link in links if not (PAGE.parent / link).exists()] == []


async def pay(inp: Raw) -> str:
    return "paid"


def payer() -> LLM:
    def answer(history: list[Raw]) -> object:
        content = history[-1]["content"]
        is_paid = isinstance(content, list) and content[0]["content"] == "paid"
        return "Done." if is_paid else [call("pay", euros=5)]

    llm = LLM().model(scripted(answer)).tools([PAY])  # type: ignore[arg-type]  # it gives answers
    return llm.on("pay", pay, require_approval=True, has_details=True)


async def test_without_an_app_a_run_ends_with_the_card_and_the_next_brings_the_answer() -> None:
    llm = payer()
    first = ai.Context(messages="Pay", chat_id="card")
    cards = [each async for each in llm.run(context=first) if "key" in each]
    assert [(card["action"], card["args"]) for card in cards] == [("confirm", {"euros": 5})]
    assert first.messages[-1].role == "tool"

    granted = ai.Context(messages="Yes", chat_id="card", approvals=[cards[0]["key"]])
    said = [each async for each in llm.run(context=granted) if isinstance(each, str)]

    assert "".join(said) == "Done."


@asynccontextmanager
async def serving(mill: Mill) -> AsyncIterator[None]:
    try:
        await mill.worker("runs", concurrency=1)
        await mill.worker("tools", concurrency=1)
        yield
    finally:
        await mill.close()


@pytest.mark.parametrize("is_known", [True, False])
async def test_calls_of_an_agent_in_a_function_are_jobs_if_the_app_knows_its_tools(
    link: Link, *, is_known: bool
) -> None:
    llm = payer().on("pay", pay, has_details=True)

    async def around(context: ai.Context) -> AsyncIterator[object]:
        async for event in llm.run(context=context):
            yield event

    told = settings(namespace="t")
    app = ai.App({"around": around}, tools=llm.agent_tools() if is_known else ())
    mill = Mill(link, app, told, resources_over(link, told))
    async with serving(mill):
        new = NewRun("around", ai.Messages.of("Pay").raw)
        created = await mill.resources.runs.create(TENANT, new)
        place = RunPlace(mill.resources.keys, TENANT, created.run_id)
        ended = await mill.ended(place)
        log = await mill.log(place)

    assert ended.run.output == "Done."
    assert ("tool.queued" in [event.type for event in log]) is is_known


async def no_loop(**given: object) -> None:
    """It has no yield."""


def test_what_a_builder_cannot_use_it_refuses_at_once() -> None:
    with pytest.raises(SetupError, match=r"a function, .brave. or .native."):
        LLM().web_search("google")  # type: ignore[arg-type]  # that is the point
    with pytest.raises(SetupError, match=r"dicts with a .name."):
        LLM().tools([{"nme": "pay"}])
    with pytest.raises(SetupError, match="yield"):
        LLM().loop(no_loop)  # type: ignore[arg-type]  # that is the point
