"""What a process can be told by its environment, read once and checked whole.

`Settings.from_env` is pure: it reads the mapping that it is given and nothing else. A duration is
written as `10`, `10s`, `5m`, `1h`, `7d` or `250ms`; a size as `4096`, `64KB`, `8MB` or `1GB`.
"""

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
)
from pydantic_core import PydanticUndefined

from .address import Address
from .keys import NAME

PREFIX: Final = "LOOPMILL_"
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
LONGEST = 100 * 365 * 86_400.0
_SIZE = re.compile(r"(\d+)\s*(B|KB|MB|GB)?", re.IGNORECASE)
_SIZES = {"B": 1, "KB": 1024, "MB": 1024**2, "GB": 1024**3}


class SettingsError(ValueError):
    """A variable of the environment has a value that cannot be used; the text names the mend."""


def duration(text: str) -> timedelta:
    """Read a duration such as `10`, `10s`, `5m`, `1h`, `7d` or `250ms`.

    Raises:
        ValueError: When the text is not a duration.
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise ValueError("write a duration such as 10s, 250ms, 5m, 1h or 7d")
    seconds = float(found.group(1)) * _UNITS[found.group(2) or "s"]
    if seconds > LONGEST:
        raise ValueError("write a duration of less than a hundred years")
    return timedelta(seconds=seconds)


def show_duration(value: timedelta) -> str:
    """Write a duration in the largest unit in which it is whole."""
    for unit in ("d", "h", "m", "s"):
        if value and value % timedelta(seconds=_UNITS[unit]) == timedelta(0):
            return f"{value / timedelta(seconds=_UNITS[unit]):g}{unit}"
    return f"{value / timedelta(milliseconds=1):g}ms" if value else "0s"


def _duration(value: Any) -> Any:
    return duration(value) if isinstance(value, str) else value


def _size(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    found = _SIZE.fullmatch(value.strip())
    if found is None:
        raise ValueError("write a number of bytes, or a size such as 64KB or 8MB")
    return int(found.group(1)) * _SIZES[(found.group(2) or "B").upper()]


def _split(text: str) -> tuple[str, ...]:
    return tuple(word for part in text.split(",") if (word := part.strip()))


def _words(value: Any) -> Any:
    return _split(value) if isinstance(value, str) else value


def _keys(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    words = _split(value)
    for word in words:
        tenant, colon, key = word.rpartition(":")
        if not key or (colon and NAME.fullmatch(tenant) is None):
            raise ValueError("write keys as `key` or `tenant:key`, with commas between them")
    return words


def _redis_url(value: Any) -> Any:
    if isinstance(value, str):
        Address.parse(value)
    return value


def _positive(value: timedelta) -> timedelta:
    if value <= timedelta(0):
        raise ValueError("write a duration that is longer than nothing")
    return value


Duration = Annotated[timedelta, BeforeValidator(_duration), AfterValidator(_positive)]
Wait = Annotated[timedelta, BeforeValidator(_duration)]
Size = Annotated[int, BeforeValidator(_size), Field(gt=0)]
Words = Annotated[tuple[str, ...], BeforeValidator(_words)]


class Settings(BaseModel):
    """All settings of API and workers. Secrets are never shown."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    redis_url: Annotated[SecretStr | None, BeforeValidator(_redis_url)] = Field(
        None,
        description="Server: `redis://`, `rediss://`, `unix://`, or "
        "`redis+sentinel://h:26379,h2:26379/master/0`. Without it an embedded server is started.",
    )
    app: str | None = Field(None, description="Where agents and tools are: `module:name`.")
    config: Path | None = Field(
        None, description="A configuration file (YAML): `model_list`, `callbacks`."
    )
    api_keys: Annotated[tuple[SecretStr, ...], BeforeValidator(_keys)] = Field(
        (), description="Keys that the API accepts: `key` or `tenant:key`, with commas between."
    )
    cors_origins: Words = Field((), description="Origins whose browsers may follow streams.")
    namespace: str = Field(
        "loopmill", pattern=f"^{NAME.pattern}$", description="What all names in Redis begin with."
    )
    data: Path = Field(
        Path(".loopmill"), description="Folder of the embedded server, and of sessions' files."
    )
    lease: Duration = Field(
        timedelta(seconds=10), description="How long a claim lasts without a renewal."
    )
    drain: Wait = Field(timedelta(seconds=25), description="How long runs may go on after SIGTERM.")
    tool_drain: Wait = Field(
        timedelta(seconds=25), description="How long tool jobs may go on after SIGTERM."
    )
    stall: Duration = Field(
        timedelta(seconds=60),
        description="A worker whose event loop stands still longer than this loses its claims.",
    )
    park_after: Wait = Field(
        timedelta(seconds=5), description="When a run that waits for a hook or a sleep is parked."
    )
    retention: Duration = Field(timedelta(hours=24), description="How long a finished run is kept.")
    run_timeout: Duration = Field(
        timedelta(hours=1), description="Limit of a run's running time; waiting does not count."
    )
    tool_timeout: Duration = Field(
        timedelta(minutes=5), description="Limit of a tool call's running time."
    )
    queue_wait: Duration = Field(
        timedelta(minutes=10), description="How long a tool call may wait for a worker."
    )
    rate_wait: Wait = Field(
        timedelta(minutes=10),
        description="How long a turn waits for a provider that turns it away (429), before that "
        "counts as a failure.",
    )
    queue_depth: int = Field(
        10_000, gt=0, description="Depth of a queue from which on new work is refused."
    )
    memory_limit: float = Field(
        0.85, gt=0, le=1, description="Share of the server's memory from which on work is refused."
    )
    log_events: int = Field(20_000, gt=0, description="Events that a run's log keeps.")
    log_bytes: Size = Field(8 * 1024**2, description="Bytes that a run's log keeps.")

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> "Settings":
        """Read the settings from an environment; an empty variable counts as absent.

        Raises:
            SettingsError: When a variable's value cannot be used.
        """
        given = {
            name: environ[PREFIX + name.upper()]
            for name in cls.model_fields
            if environ.get(PREFIX + name.upper(), "").strip()
        }
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            raise SettingsError(_explain(error, given)) from None


SECRET = frozenset({"redis_url", "api_keys"})
"""Fields whose value no text may show."""


def _explain(error: ValidationError, given: Mapping[str, str]) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    name = str(first["loc"][0])
    value = "is set to a value that cannot be used" if name in SECRET else f"is {given[name]!r}"
    mend = str(first["msg"]).removeprefix("Value error, ")
    return f"{PREFIX}{name.upper()} {value}: {mend[:1].lower()}{mend[1:]}"


def _show_default(default: object) -> str:
    show: dict[type, Callable[[Any], str]] = {
        timedelta: show_duration,
        tuple: ", ".join,
        float: "{:g}".format,
    }
    text = "" if default in {None, PydanticUndefined} else show.get(type(default), str)(default)
    return f"`{text}`" if text else ""


def settings_table() -> str:
    """Return all settings as a table in Markdown, for people to read."""
    rows = [
        f"| `{PREFIX}{name.upper()}` | {_show_default(field.default)} | {field.description} |"
        for name, field in Settings.model_fields.items()
    ]
    return "\n".join(["| variable | default | meaning |", "|---|---|---|", *rows])
