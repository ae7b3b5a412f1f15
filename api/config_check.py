"""What a configuration file comes to: its models, its callbacks, its settings; nothing is started.

The modules of the callbacks are imported, since nobody could say otherwise what they hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from loops.errors import SetupError
from loops.gateway.methods import overridden
from loops.gateway.registering import Found, silences
from worker.configuration import Configuration, ConfigurationError, read_configuration
from worker.configured_model import ModelEntry
from worker.settings import SettingsError, show_duration

from .finding import Finding


def read(path: Path | None) -> tuple[Configuration, list[Finding]]:
    """Return what of the file can be used, and what cannot."""
    if path is None:
        return Configuration(), []
    try:
        return read_configuration(path), []
    except ConfigurationError as error:
        texts = [f"{path}: {each}" for each in error.faults]
        return error.rest, [Finding("config", text, is_problem=True) for text in texts]
    except SettingsError as error:
        return Configuration(), [Finding("config", str(error), is_problem=True)]


def findings_in(
    configuration: Configuration, path: Path | None, environ: Mapping[str, str]
) -> Iterable[Finding]:
    """Yield what each section comes to."""
    for entry in configuration.model_list:
        yield _model(entry, environ)
    if path is None:
        return
    for found in configuration.found_callbacks(path.parent):
        yield from _callback(found)
    for found in configuration.found_rules(path.parent):
        yield _rule(found)
    yield Finding("gateway", _settings(configuration))


def _model(entry: ModelEntry, environ: Mapping[str, str]) -> Finding:
    try:
        port = entry.port(environ)
    except SetupError as error:
        return Finding("model", str(error), is_problem=True)
    loops = entry.params.max_agentic_loops
    limit = "" if loops is None else f", asked again {loops} times at most"
    return Finding("model", f"{entry.model_name!r}: {port.name}, {port.account}{limit}")


def _callback(found: Found) -> Iterable[Finding]:
    if found.problem is not None:
        yield Finding("callback", str(found.problem), is_problem=True)
    elif found.value is None:
        yield Finding("callback", f"{found.label} is switched off")
    else:
        cls = type(found.value)
        methods = ", ".join(overridden(found.value)) or "nothing"
        named = f"{cls.__module__}.{cls.__qualname__}"
        yield Finding("callback", f"{found.label} is a {named}, which overrides {methods}")
        for silence in silences(found.value):
            yield Finding("callback", f"{found.label}: {silence}", is_problem=True)


def _rule(found: Found) -> Finding:
    if found.problem is not None:
        return Finding("rule", str(found.problem), is_problem=True)
    return Finding("rule", f"{found.label} is {getattr(found.value, '__qualname__', 'a rule')}")


def _settings(configuration: Configuration) -> str:
    told = configuration.served
    limit, ping, wait = map(show_duration, (told.callback_timeout, configuration.ping, told.wait))
    return (
        f"streaming {told.streaming.value}; {limit} for a builder, {ping} until a ping, "
        f"{wait} for a worker"
    )
