"""The configuration file: which models there are by names of one's own, and what they cost.

LiteLLM's spelling is read as well: `litellm_params` for `params`, `os.environ/NAME` for a key that
stands in the environment. Sections that are another program's are passed over.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import yaml
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
)

from loops.errors import SetupError
from loops.guard import Raised, outcome_of_call
from loops.model import Limits, named_models
from loops.providers.deployment import DeployedModel, Deployment, Price

from .settings import Duration, Settings, SettingsError

OTHERS = frozenset(
    {"litellm_settings", "general_settings", "router_settings", "environment_variables"}
)
"""Sections of a LiteLLM configuration that mean nothing here."""

FROM_ENVIRONMENT = ("env/", "os.environ/")


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


Amount = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]
Count = Annotated[int, Field(gt=0, strict=True)]


class Prices(_Entry):
    """What a million tokens cost."""

    input: Amount = 0.0
    output: Amount = 0.0
    cache_read: Amount | None = None
    cache_write: Amount | None = None


def _seconds(value: object) -> object:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value}s" if is_number else value


def _named(model: str) -> str:
    vendor, _, name = model.partition("/")
    if not (vendor and name):
        raise ValueError(f"a model is named 'vendor/model', for instance 'acme/x'; not {model!r}")
    return model


class Params(_Entry):
    """How a model is asked."""

    model: Annotated[str, AfterValidator(_named)]
    api_base: str | None = None
    api_key: SecretStr | None = None
    max_tokens: Count | None = None
    timeout: Annotated[Duration | None, BeforeValidator(_seconds)] = None
    rpm: Count | None = None
    tpm: Count | None = None
    price: Prices | None = None
    max_agentic_loops: Count | None = None
    """For the callbacks of a gateway: nothing reads it yet."""


class ModelEntry(_Entry):
    """One model of the list."""

    model_name: str = Field(min_length=1)
    params: Params = Field(validation_alias=AliasChoices("params", "litellm_params"))
    model_info: Any = Field(None, exclude=True, repr=False)
    """LiteLLM's remarks, which mean nothing here."""

    def port(self, environ: Mapping[str, str]) -> DeployedModel:
        """Return the model's port, with its key as the environment has it.

        Raises:
            SetupError: When the vendor is not known, or there is no key.
        """
        told = self.params
        price = None if told.price is None else Price(**told.price.model_dump())
        deployment = Deployment(
            told.model,
            base_url=told.api_base,
            api_key=_key(self, environ),
            max_tokens=told.max_tokens,
            timeout=told.timeout,
            limits=Limits(told.rpm, told.tpm),
            price=price,
        )
        made = outcome_of_call(partial(DeployedModel, deployment))
        if not isinstance(made, Raised):
            return made
        # What a provider of the user's own raises may show the key that it was given.
        why = str(made.error) if isinstance(made.error, SetupError) else type(made.error).__name__
        raise SetupError(f"the configured model {self.model_name!r}: {why}") from made.error


class Configuration(_Entry):
    """All that the file says."""

    model_list: list[ModelEntry] = Field(default_factory=list[ModelEntry])

    def check(self, environ: Mapping[str, str]) -> None:
        """See that every model can be asked.

        Raises:
            SetupError: When one cannot.
        """
        for entry in self.model_list:
            entry.port(environ)


def read_configuration(path: Path) -> Configuration:
    """Read the file.

    Raises:
        SettingsError: When it cannot be read, or says what cannot be used; the text says where.
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
    sections = cast("dict[str, object]", told or {})
    ours = {name: each for name, each in sections.items() if name not in OTHERS}
    try:
        configuration = Configuration.model_validate(ours)
    except ValidationError as error:
        raise SettingsError(f"{path}: {_fault(error)}") from None
    names = [entry.model_name for entry in configuration.model_list]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SettingsError(f"{path}: model_list has two models named {twice[0]!r}; rename one")
    return configuration


class _Twice(yaml.constructor.ConstructorError):
    """A name stands twice: YAML lets the last one win, and nobody would hear of the first."""


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 - the library's own
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise _Twice(None, None, f"{twice!r} stands twice; remove one", node.start_mark)
        return super().construct_mapping(node, deep=deep)


@contextmanager
def configured(settings: Settings, environ: Mapping[str, str]) -> Generator[Configuration]:
    """Let the models of the configuration file be called by their names while the block runs.

    Raises:
        SettingsError: When the file cannot be used.
    """
    configuration = Configuration()
    if settings.config is not None:
        configuration = read_configuration(settings.config)
    models = {entry.model_name: partial(entry.port, environ) for entry in configuration.model_list}
    with named_models(models):
        yield configuration


def _key(entry: ModelEntry, environ: Mapping[str, str]) -> str | None:
    given = entry.params.api_key
    key = None if given is None else given.get_secret_value()
    for prefix in FROM_ENVIRONMENT:
        if key is not None and key.startswith(prefix):
            name = key.removeprefix(prefix)
            if not environ.get(name, "").strip():
                mend = f"set {name}" if name else "name a variable after it, as in env/OUR_KEY"
                raise SetupError(
                    f"the configured model {entry.model_name!r}: its key is {key!r}, and that is "
                    f"not set: {mend}"
                )
            return environ[name]
    return key


def _fault(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
    place = place.removeprefix(".")
    if first["type"] == "extra_forbidden":
        return f"{place} is nothing that is read; remove it, or mend its name"
    message = str(first["msg"]).removeprefix("Value error, ")
    return f"{place}: {message[:1].lower()}{message[1:]}"
