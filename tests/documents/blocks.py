"""The code of the public documents, taken from where they lie; this project holds no copy of it."""

import os
import re
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
SETTING = "LOOPMILL_DOCUMENTS"

_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_IMPORT = re.compile(r"^(?:import|from)\s")


class DocumentsMissingError(Exception):
    """The documents are not where they were looked for."""


def documents_folder() -> Path:
    """Return the folder of the documents.

    Raises:
        DocumentsMissingError: When there is none; the text says what to set.
    """
    folder = Path(os.environ.get(SETTING) or ROOT.parent / "shared" / "seeds")
    if not folder.is_dir():
        raise DocumentsMissingError(
            f"the public documents are not at {str(folder)!r}; "
            f"set {SETTING} to the folder that holds them, or leave out the marker 'documents'"
        )
    return folder


def python_blocks(name: str) -> list[str]:
    """Return the Python blocks of the document, word for word."""
    return blocks_in(name, "python")


def blocks_in(name: str, language: str) -> list[str]:
    """Return the blocks of the document that are in the language, word for word."""
    text = (documents_folder() / name).read_text(encoding="utf-8")
    return [code for each, code in _FENCE.findall(text) if each == language]


def with_imports(block: str, imports: str) -> str:
    """Return the block with our import lines in the place of its own, and nothing else changed."""
    kept = [line for line in block.splitlines() if not _IMPORT.match(line)]
    return "\n".join([imports, *kept, ""])


def module_of(source: str, name: str) -> ModuleType:
    """Return a module that holds what the source defines."""
    module = ModuleType(name)
    exec(compile(source, name, "exec"), module.__dict__)
    return module
