"""Find an object by the path `module:name`, or say exactly why it is not there."""

import importlib

from .app import App
from .errors import SetupError
from .naming import did_you_mean


def find(path: str) -> object:
    """Return the object at `module:name`; the name may have dots.

    Raises:
        SetupError: When there is no such module or name, or the module cannot be imported; the text
            says which, and names what is near.
    """
    module_name, colon, name = path.partition(":")
    if not (colon and module_name and name):
        raise SetupError(
            f"an object is named 'module:name', for instance 'my_agents:app'; not {path!r}"
        )
    found: object = _imported(module_name, path)
    for part in name.split("."):
        if not hasattr(found, part):
            raise SetupError(f"{path!r}: {module_name!r} has no {part!r}{_near(part, found)}")
        found = getattr(found, part)
    return found


def find_app(path: str) -> App:
    """Return the app at `module:name`.

    Raises:
        SetupError: When it is not there, or is no `App`.
    """
    found = find(path)
    if not isinstance(found, App):
        raise SetupError(f"{path!r} is no ai.App, but {found!r}; name the app itself")
    return found


def _imported(module_name: str, path: str) -> object:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or module_name
        if module_name == missing or module_name.startswith(f"{missing}."):
            raise SetupError(
                f"{path!r}: there is no module {missing!r} here; "
                "start from the folder that holds it, or correct the name"
            ) from error
        raise SetupError(f"{path!r}: the module imports {missing!r}, which is not there") from error
    except ImportError as error:
        raise SetupError(f"{path!r}: the module cannot be imported: {error}") from error


def _near(name: str, owner: object) -> str:
    public = [each for each in dir(owner) if not each.startswith("_")]
    return did_you_mean(name, public)
