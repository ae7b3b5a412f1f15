"""A configuration file's sections, as YAML has them; no error shows what stands there."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import yaml

from .settings import SettingsError


def read_sections(path: Path) -> dict[str, object]:
    """Read the file.

    Raises:
        SettingsError: When it cannot be read, or holds no sections; the text says where.
    """
    try:
        told: object = yaml.load(path.read_text(encoding="utf-8"), _Loader)  # noqa: S506 - a safe one
    except OSError as error:
        raise SettingsError(
            f"LOOPMILL_CONFIG is {str(path)!r}, which cannot be read: {error}"
        ) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # Its own text shows what stands there, which may be a key.
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 1}" if mark else ""
        told = f": {error.problem}" if isinstance(error, _Twice) else ""
        raise SettingsError(f"{path} cannot be read as YAML{place}{told}") from None
    if not isinstance(told, dict | None):
        raise SettingsError(f"{path} holds no sections; begin with model_list:")
    return cast("dict[str, object]", told or {})


class _Twice(yaml.constructor.ConstructorError):
    """A name stands twice: YAML lets the last one win, and nobody would hear of the first."""


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 - the library's own
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise _Twice(None, None, f"{twice!r} stands twice; remove one", node.start_mark)
        return super().construct_mapping(node, deep=deep)
