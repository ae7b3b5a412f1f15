"""Finds an object by the path `module.name`: in a folder first, then among what is installed.

A module of the folder is registered under its name, as an import would do it: it runs once,
and whoever imports it gets the same.
"""

import re
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from importlib import import_module, invalidate_caches
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType

from loops.errors import SetupError
from loops.guard import Raised, describe, outcome_of_call
from loops.naming import did_you_mean

_PATH = re.compile(r"[^\s./\\:]+(?:\.[^\s./\\:]+)+")


def find_object(path: str, label: str, folder: Path | None) -> tuple[ModuleType, object]:
    """Return what stands at the path, with its module.

    Args:
        path: `module.name`; the module's name may have dots.
        label: What the path is called in an error.
        folder: Where modules are looked for first; the modules beside one can be imported by it.

    Raises:
        SetupError: When there is no such module or name, or the module raises.
        KeyboardInterrupt: When the user does not want to wait for it.
    """
    if _PATH.fullmatch(path) is None:
        raise SetupError(f"{label} is no path: write module.name, as in my_module.my_callback")
    module_name, _, name = path.rpartition(".")
    home = None if folder is None else folder.resolve()
    module = outcome_of_call(partial(_imported, module_name, home))
    if isinstance(module, Raised):
        raise _failure(module.error, label, module_name, home) from module.error
    value = outcome_of_call(partial(getattr, module, name))
    if isinstance(value, Raised):
        public = [each for each in vars(module) if not each.startswith("_")]
        near = did_you_mean(name, public) or "; add it, or mend the name"
        raise SetupError(f"{label}: the module {module_name!r} has no {name!r}{near}")
    return module, value


def _failure(error: BaseException, label: str, name: str, folder: Path | None) -> SetupError:
    if isinstance(error, KeyboardInterrupt):
        raise error
    if isinstance(error, SetupError):
        return SetupError(f"{label}: {error}")
    if not isinstance(error, ModuleNotFoundError):
        return SetupError(f"{label}: the module {name!r} raises {describe(error)}")
    missing = error.name or name
    if name != missing and not name.startswith(f"{missing}."):
        return SetupError(f"{label}: the module {name!r} imports {missing!r}, which is not there")
    files = [] if folder is None else [each.stem for each in folder.glob("*.py")]
    near = did_you_mean(name, files)
    place = f"neither in {folder} nor among what is installed" if folder else "to be imported"
    return SetupError(f"{label}: there is no module {missing!r}, {place}{near}")


def _imported(name: str, folder: Path | None) -> ModuleType:
    file = None if folder is None else _file_of(name, folder)
    if folder is None or file is None:
        return import_module(name)
    with _importable(folder):
        _begin(name.partition(".")[0], folder)
        module = import_module(name)
    own = getattr(module, "__file__", None)
    if own is None or not file.samefile(own):
        raise SetupError(
            f"{file.name} lies beside the configuration, but {name!r} is {own or 'built in'} "
            "already; rename the file"
        )
    return module


def _file_of(name: str, folder: Path) -> Path | None:
    place = folder.joinpath(*name.split("."))
    files = (place / "__init__.py", place.with_name(f"{place.name}.py"))
    return next((file for file in files if file.is_file()), None)


@contextmanager
def _importable(folder: Path) -> Generator[None]:
    """Let what lies in the folder be imported while the block runs, after what is installed."""
    invalidate_caches()
    here = str(folder)
    if here in sys.path:
        yield
        return
    sys.path.append(here)
    try:
        yield
    finally:
        sys.path.remove(here)


def _begin(name: str, folder: Path) -> None:
    """Import a module from the folder though another of its name is installed, once."""
    spec = None if name in sys.modules else PathFinder.find_spec(name, [str(folder)])
    if spec is None:
        return
    module = sys.modules[name] = module_from_spec(spec)
    if spec.loader is None:  # a folder of modules, with no code of its own
        return
    done = outcome_of_call(partial(spec.loader.exec_module, module))
    if isinstance(done, Raised):
        sys.modules.pop(name, None)
        raise done.error
