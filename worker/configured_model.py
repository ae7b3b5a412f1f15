"""A model of the configuration file: how it is asked, under a name of the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, cast

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    model_validator,
)

from loops.errors import SetupError
from loops.gateway.limits import NAME as LOOPS
from loops.gateway.limits import loops_of
from loops.guard import Raised, outcome_of_call, renaming
from loops.model import Limits
from loops.providers.deployment import DeployedModel, Deployment, Price

from .settings import Duration

FROM_ENVIRONMENT = ("env/", "os.environ/")


class Entry(BaseModel):
    """Anything of the file; no error shows what stands there."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


Amount = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]
Count = Annotated[int, Field(gt=0, strict=True)]


class Prices(Entry):
    """What a million tokens cost."""

    input: Amount = 0.0
    output: Amount = 0.0
    cache_read: Amount | None = None
    cache_write: Amount | None = None


def in_seconds(value: object) -> object:
    """Return a number as so many seconds, and anything else as it is."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value}s" if is_number else value


def as_loops(value: object, field: str) -> int | None:
    """Return how often a model may be asked again, as a validator does.

    Raises:
        ValueError: When it is no whole number above 0.
    """
    with renaming(lambda error: ValueError(str(error))):
        return loops_of(value, field)


def _named(model: str) -> str:
    vendor, _, name = model.partition("/")
    if not (vendor and name):
        raise ValueError(f"a model is named 'vendor/model', for instance 'acme/x'; not {model!r}")
    return model


class Params(Entry):
    """How a model is asked."""

    model: Annotated[str, AfterValidator(_named)]
    api_base: str | None = None
    api_key: SecretStr | None = None
    max_tokens: Count | None = None
    timeout: Annotated[Duration | None, BeforeValidator(in_seconds)] = None
    rpm: Count | None = None
    tpm: Count | None = None
    price: Prices | None = None
    max_agentic_loops: int | None = None
    """How often the callbacks of a gateway may have it asked again for one call."""


class ModelEntry(Entry):
    """One model of the list."""

    model_name: str = Field(min_length=1)
    params: Params = Field(validation_alias=AliasChoices("params", "litellm_params"))
    model_info: Any = Field(None, exclude=True, repr=False)
    """LiteLLM's remarks, which mean nothing here."""

    @model_validator(mode="before")
    @classmethod
    def _with_loops(cls, told: object) -> object:
        """See to the one number that may be written as text, and name the model where it cannot."""
        if not isinstance(told, dict):
            return told
        fields = cast("dict[str, object]", told)
        for section in ("params", "litellm_params"):
            params = fields.get(section)
            if isinstance(params, dict) and LOOPS in params:
                given = cast("dict[str, object]", params)
                field = f"{section}.{LOOPS} on model {fields.get('model_name')!r}"
                return {**fields, section: {**given, LOOPS: as_loops(given[LOOPS], field)}}
        return fields

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
            max_agentic_loops=told.max_agentic_loops,
        )
        made = outcome_of_call(partial(DeployedModel, deployment))
        if not isinstance(made, Raised):
            return made
        # What a provider of the user's own raises may show the key that it was given.
        why = str(made.error) if isinstance(made.error, SetupError) else type(made.error).__name__
        raise SetupError(f"the configured model {self.model_name!r}: {why}") from made.error


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
