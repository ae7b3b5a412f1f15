"""The Lua scripts as files: whole, known by their digest, and understood by a server."""

import re
from hashlib import sha1

import pytest

from worker.link import Link
from worker.scripts import FOLDER, script

NAMES = sorted(path.stem for path in FOLDER.glob("*.lua"))
SHARED = sorted(path.stem for path in (FOLDER / "shared").glob("*.lua"))


def test_a_script_has_its_shared_functions_before_it_in_the_order_it_names():
    text = script("begin").text

    places = [text.index(start) for start in ("-- Shared by every script that changes a queue",)]
    places.append(text.index("-- Shared by every script that appends to a run's log"))
    places.append(text.index("-- Shared by every script that moves a run"))
    places.append(text.index("-- Begin a pass"))
    assert places == sorted(places)


def test_a_script_has_no_shared_functions_but_those_that_it_names():
    text = script("create_session").text

    assert text.endswith((FOLDER / "create_session.lua").read_text("utf-8"))
    assert "-- Shared by every script that moves a run" not in text


@pytest.mark.parametrize("name", NAMES)
def test_the_digest_is_that_under_which_a_server_keeps_the_text(name: str):
    loaded = script(name)

    assert loaded.sha == sha1(loaded.text.encode(), usedforsecurity=False).hexdigest()


def test_a_script_that_does_not_exist_is_an_error():
    with pytest.raises(FileNotFoundError):
        script("nowhere")


@pytest.mark.parametrize("name", NAMES)
def test_every_script_says_what_it_takes_and_gives(name: str):
    head = (FOLDER / f"{name}.lua").read_text("utf-8")

    assert head.startswith("-- ")
    assert re.search(r"^-- KEYS: ", head, re.MULTILINE)


@pytest.mark.parametrize("name", [*NAMES, *(f"shared/{name}" for name in SHARED)])
def test_no_script_reads_a_payload(name: str):
    """cjson changes numbers, so what is stored is never decoded in Lua."""
    assert "cjson" not in (FOLDER / f"{name}.lua").read_text("utf-8")


async def test_the_server_keeps_every_script_under_its_digest(any_link: Link):
    for name in NAMES:
        loaded = script(name)
        assert await any_link.command("SCRIPT", "LOAD", loaded.text) == loaded.sha.encode()
