"""The page on the gateway: its code runs, its files are read, its tables are the program's."""

import re
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from api.gateway import BODY_LIMIT, MODES, STREAMING
from api.gateway_answer import COST, USAGE
from loops.callbacks import AgenticLoopPlan, AgenticLoopRequestPatch
from loops.gateway.methods import METHODS
from loops.gateway.settings import LONGEST_PING, GatewaySettings
from tests.api.deployed import lived
from tests.gateway.upstream import call, in_turn, says, upstream
from tests.pages import check_page, dead_links, is_file, table_in
from tests.readme import ROOT, blocks
from worker.callback_entries import CompressionSettings, GatewaySection, WebSearchSettings
from worker.configuration import Configuration, read_configuration
from worker.settings import show_duration

PAGE = ROOT / "docs" / "gateway.md"
TEXT = PAGE.read_text(encoding="utf-8")

BOLTS = in_turn(says(calls=[call("count_stock", part="bolts")]), says("There are 120 bolts."))


@pytest.mark.documents
@pytest.mark.timeout(120)
def test_every_block_runs_and_says_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lived(lambda: upstream(BOLTS)) as up:
        for vendor, url in (("ANTHROPIC", up.url), ("OPENAI", up.openai_url)):
            monkeypatch.setenv(f"{vendor}_BASE_URL", url)
            monkeypatch.setenv(f"{vendor}_API_KEY", "test-key")

        check_page(TEXT, tmp_path)

        assert len(up.requests) == 4


def test_every_file_of_yaml_is_read(tmp_path: Path) -> None:
    files = [block for block in blocks(TEXT) if block.language == "yaml"]

    for block in files:
        assert is_file(block)
        (tmp_path / block.file_name).write_text(block.body)
        assert read_configuration(tmp_path / block.file_name).model_list

    assert len(files) == 2


def keys_of(model: type[BaseModel], before: str = "") -> set[str]:
    """Return all keys that a section may have, with those of sections in it."""
    keys = set[str]()
    for name, field in model.model_fields.items():
        alias = field.validation_alias
        named = alias if isinstance(alias, str) else name
        is_list = "list" in str(field.annotation)
        inner = [each for each in (field.annotation, *get_args(field.annotation))
                 if isinstance(each, type) and issubclass(each, BaseModel)]  # fmt: skip
        path = f"{before}{named}"
        if inner and named not in LEAVES:
            keys |= keys_of(inner[0], f"{path}[]." if is_list else f"{path}.")
            keys |= {path} if named == "params" else set()
        else:
            keys.add(path)
    return keys


LEAVES = {"price", "websearch_interception_params", "compression_interception_params"}
"""Sections whose keys the page tells in another place."""


def test_every_key_of_the_file_stands_there_once() -> None:
    firsts = [row[0] for row in table_in(TEXT, "configuration")]
    named = [key for first in firsts for key in re.findall(r"`([\w.\[\]]+)`", first)]

    assert sorted(named) == sorted(keys_of(Configuration))


def test_the_defaults_are_the_programs() -> None:
    rows = {row[0].strip("`"): row[1].strip("`") for row in table_in(TEXT, "configuration")}
    told, search, pack = GatewaySettings(), WebSearchSettings(), CompressionSettings()

    assert rows["gateway.streaming"] == told.streaming.value
    for name in ("callback_timeout", "ping", "wait"):
        assert rows[f"gateway.{name}"] == show_duration(getattr(told, name))
    assert rows["callback_settings.web_search.tool_name"] == search.tool_name
    assert rows["callback_settings.compression.longest"] == str(pack.longest)
    assert rows["callback_settings.compression.trigger"] == str(pack.trigger)
    assert f"at most {show_duration(LONGEST_PING)}" in TEXT
    assert set(GatewaySection.model_fields) == {
        name.partition(".")[2] for name in rows if name.startswith("gateway.")
    }


def test_every_method_field_mode_and_header_stands_there() -> None:
    fields = {*AgenticLoopPlan.model_fields, *AgenticLoopRequestPatch.model_fields}
    headers = {STREAMING, USAGE.decode(), COST.decode()}

    missing = [name for name in (*METHODS, *fields, *MODES, *headers) if f"`{name}`" not in TEXT]
    assert missing == []
    assert f"{BODY_LIMIT // 1024 // 1024} MB" in TEXT


def test_links_lead_somewhere() -> None:
    assert dead_links(PAGE) == []
