"""The configuration file: which models there are by names of one's own, and who looks at a reply.

LiteLLM's spelling is read as well: `litellm_params` for `params`, `os.environ/NAME` for a key that
stands in the environment. Sections that are another program's are passed over.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import cast

from pydantic import Field, ValidationError
from pydantic_core import ErrorDetails

from loops.gateway.registering import collected, warn
from loops.gateway.rules import Rule
from loops.gateway.settings import GatewaySettings
from loops.model import named_models

from .callback_entries import CallbackSections
from .configured_model import ModelEntry
from .settings import Settings, SettingsError
from .yaml_file import read_sections

OTHERS = frozenset({"general_settings", "router_settings", "environment_variables"})
"""Sections of a LiteLLM configuration that mean nothing here."""


class Configuration(CallbackSections):
    """All that the file says."""

    model_list: list[ModelEntry] = Field(default_factory=list[ModelEntry])

    def check(self, environ: Mapping[str, str]) -> None:
        """See that every model can be asked.

        Raises:
            SetupError: When one cannot.
        """
        for entry in self.model_list:
            entry.port(environ)

    def gateway(self, path: Path | None) -> GatewaySettings:
        """Return what the gateway is told, with all callbacks and rules found.

        Args:
            path: The file; modules that lie beside it go before those that are installed. None
                where there is no file.

        Raises:
            SetupError: When an entry names what is not there, or would never run.
        """
        folder = None if path is None else path.parent
        callbacks, rules = [*self.found_callbacks(folder)], [*self.found_rules(folder)]
        for found in (*callbacks, *rules):
            if found.problem is not None:
                raise found.problem
        for found in callbacks:
            warn(found.value, found.label)
        return GatewaySettings(
            streaming=self.served.streaming,
            callback_timeout=self.served.callback_timeout,
            ping=self.ping,
            wait=self.served.wait,
            callbacks=tuple(collected(each.value for each in callbacks if each.value is not None)),
            post_call_rules=tuple(cast("Rule", each.value) for each in rules),
        )


class ConfigurationError(SettingsError):
    """What a file says cannot be used."""

    def __init__(self, path: Path, faults: Sequence[str], rest: Configuration) -> None:
        self.path = path
        self.faults = tuple(faults)
        """Each with its place."""
        self.rest = rest
        """The sections that can be used."""
        more = len(faults) - 1
        others = f" (`loopmill check {path}` names {more} more)" if more else ""
        super().__init__(f"{path}: {faults[0]}{others}")


def read_configuration(path: Path) -> Configuration:
    """Read the file.

    Raises:
        SettingsError: When it cannot be read, or says what cannot be used; the text says where.
    """
    told = {name: each for name, each in read_sections(path).items() if name not in OTHERS}
    if told.get("litellm_settings", ()) is None:  # another program's section may be empty
        del told["litellm_settings"]
    try:
        configuration = Configuration.model_validate(told)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        wrong = {each["loc"][0] for each in faults}
        rest = {name: each for name, each in told.items() if name not in wrong}
        texts = [_fault(each) for each in faults]
        raise ConfigurationError(path, texts, Configuration.model_validate(rest)) from None
    names = [entry.model_name for entry in configuration.model_list]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        texts = [f"model_list has two models named {name!r}; rename one" for name in twice]
        raise ConfigurationError(path, texts, configuration)
    return configuration


@contextmanager
def configured(settings: Settings, environ: Mapping[str, str]) -> Generator[Configuration]:
    """Let the models of the configuration file be called by their names while the block runs.

    Raises:
        SettingsError: When the file cannot be used.
    """
    configuration = Configuration()
    if settings.config is not None:
        configuration = read_configuration(settings.config)
    with named(configuration, environ):
        yield configuration


@contextmanager
def named(configuration: Configuration, environ: Mapping[str, str]) -> Generator[None]:
    """Let the models of a configuration be called by their names while the block runs."""
    models = {entry.model_name: partial(entry.port, environ) for entry in configuration.model_list}
    with named_models(models):
        yield


def _fault(fault: ErrorDetails) -> str:
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in fault["loc"])
    place = place.removeprefix(".")
    if fault["type"] == "extra_forbidden":
        return f"{place} is nothing that is read; remove it, or mend its name"
    message = str(fault["msg"]).removeprefix("Value error, ")
    return f"{place}: {message[:1].lower()}{message[1:]}"
