"""Pages of documentation as programs: files are written, commands are typed, outputs compared."""

import re
import socket
from pathlib import Path

from api.children import Children
from tests.readme import Block, Reader, blocks, pattern_of

WRITTEN = frozenset({"python", "yaml"})
"""The languages whose blocks are files, named by their first line where it is a comment."""


def check_page(text: str, folder: Path) -> None:
    """See that every block of a page runs, and that what it shows is what is said."""
    with socket.socket() as probe, Children() as children:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
        probe.close()
        reader = Reader(folder, port, children)
        found = list(blocks(text))
        for block in found:
            if block.language in WRITTEN and is_file(block):
                reader.write(block)
        for block in found:
            for command, shown in block.commands if block.language == "console" else ():
                said = reader.type(command)
                assert re.fullmatch(pattern_of(shown), said), f"$ {command}\n{said}"


def is_file(block: Block) -> bool:
    """Say whether a block has a file's name."""
    return re.fullmatch(r"# [\w./-]+\.\w+", block.body.splitlines()[0]) is not None


def table_in(text: str, name: str) -> list[list[str]]:
    """Return the cells of the rows of a table that stands between marks of its name."""
    marked = text.partition(f"<!-- {name} -->\n")[2].partition(f"<!-- /{name} -->")[0]
    return [row.strip("| ").split(" | ") for row in marked.splitlines()[2:]]


def dead_links(page: Path) -> list[str]:
    """Return the links of a page to files that are not there."""
    links = re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8"))
    return [link for link in links if "://" not in link and not (page.parent / link).exists()]
