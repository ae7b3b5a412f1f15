"""The sections of the configuration file that are about the gateway and its callbacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, AliasChoices, BeforeValidator, ConfigDict, Field

from loops.errors import SetupError
from loops.gateway.compression import Compression
from loops.gateway.limits import NAME as LOOPS
from loops.gateway.registering import Found, found_callbacks, found_function, found_rules
from loops.gateway.rounds import Mode
from loops.gateway.searching import AnySearch
from loops.gateway.settings import LONGEST_PING, GatewaySettings
from loops.gateway.web_search import NAME as SEARCH_TOOL
from loops.gateway.web_search import WebSearch

from .configured_model import Count, Entry, as_loops, in_seconds
from .settings import Duration, show_duration

DEFAULTS = GatewaySettings()

Seconds = Annotated[Duration, BeforeValidator(in_seconds)]
LoopsLimit = Annotated[int | None, BeforeValidator(partial(as_loops, field=LOOPS))]


def _not_too_long(value: timedelta) -> timedelta:
    if value > LONGEST_PING:
        raise ValueError(
            f"callers give a stream up that is silent; write {show_duration(LONGEST_PING)} or less"
        )
    return value


class GatewaySection(Entry):
    """How callers are served."""

    streaming: Mode = DEFAULTS.streaming
    callback_timeout: Seconds = DEFAULTS.callback_timeout
    ping: Annotated[Seconds, AfterValidator(_not_too_long)] | None = None
    wait: Seconds = DEFAULTS.wait
    post_call_rules: Any = ()


class WebSearchSettings(Entry):
    """How the web is searched."""

    enabled: bool = True
    search: str | None = None
    """The path of a function, `module.name`, that takes a query."""
    tool_name: str = Field(default=SEARCH_TOOL, min_length=1)
    enabled_providers: tuple[str, ...] | None = None
    max_agentic_loops: LoopsLimit = None
    search_tool_name: Any = Field(default=None, exclude=True, repr=False)
    """LiteLLM's name for a service; here a function is named."""


class CompressionSettings(Entry):
    """Which results of tools are shortened."""

    enabled: bool = True
    longest: Count = 20_000
    trigger: Annotated[int, Field(ge=0, strict=True)] = Field(
        default=0, validation_alias=AliasChoices("trigger", "compression_trigger")
    )
    compression_target: Any = Field(default=None, exclude=True, repr=False)
    """What only LiteLLM's own way to compress reads; so are the two below."""
    embedding_model: Any = Field(default=None, exclude=True, repr=False)
    embedding_model_params: Any = Field(default=None, exclude=True, repr=False)


class CallbackSettings(Entry):
    """What the callbacks that are shipped are told."""

    web_search: WebSearchSettings | None = Field(
        default=None, validation_alias=AliasChoices("web_search", "websearch_interception")
    )
    compression: CompressionSettings | None = Field(
        default=None, validation_alias=AliasChoices("compression", "compression_interception")
    )


class LiteLLMSettings(Entry):
    """What is read of LiteLLM's own section; the rest of it means nothing here."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    callbacks: Any = ()
    post_call_rules: Any = ()
    websearch_interception_params: WebSearchSettings | None = None
    compression_interception_params: CompressionSettings | None = None
    anthropic_sse_ping_interval_seconds: Seconds | None = None
    """A longer one than callers bear is cut to what they do."""


class CallbackSections(Entry):
    """The sections together."""

    callbacks: Any = ()
    callback_settings: CallbackSettings = Field(default_factory=CallbackSettings)
    served: GatewaySection = Field(default_factory=GatewaySection, validation_alias="gateway")
    """The section `gateway`."""
    litellm_settings: LiteLLMSettings = Field(default_factory=LiteLLMSettings)

    def found_callbacks(self, folder: Path | None) -> Iterator[Found]:
        """Yield what each entry names; a module that lies in the folder goes first."""
        shipped = self._shipped(folder)
        for where, entries in (
            ("callbacks", self.callbacks),
            ("litellm_settings.callbacks", self.litellm_settings.callbacks),
        ):
            yield from found_callbacks(entries, where, folder=folder, shipped=shipped)

    def found_rules(self, folder: Path | None) -> Iterator[Found]:
        """Yield the function that each entry of the rules names."""
        for where, entries in (
            ("gateway.post_call_rules", self.served.post_call_rules),
            ("litellm_settings.post_call_rules", self.litellm_settings.post_call_rules),
        ):
            yield from found_rules(entries, where, folder=folder)

    @property
    def ping(self) -> timedelta:
        """How long a stream may be silent."""
        theirs = self.litellm_settings.anthropic_sse_ping_interval_seconds
        return self.served.ping or min(theirs or DEFAULTS.ping, LONGEST_PING)

    def _shipped(self, folder: Path | None) -> dict[str, Callable[[], object]]:
        # Two names of one callback are one instance.
        web_search = cache(partial(self._web_search, folder))
        compression = cache(self._compression)
        return {
            "web_search": web_search,
            "websearch_interception": web_search,
            "compression": compression,
            "compression_interception": compression,
        }

    def _web_search(self, folder: Path | None) -> WebSearch | None:
        told = self.callback_settings.web_search
        told = told or self.litellm_settings.websearch_interception_params or WebSearchSettings()
        if not told.enabled:
            return None
        return WebSearch(
            _search(told.search, folder),
            tool_name=told.tool_name,
            enabled_providers=told.enabled_providers,
            max_agentic_loops=told.max_agentic_loops,
        )

    def _compression(self) -> Compression | None:
        told = self.callback_settings.compression
        told = told or self.litellm_settings.compression_interception_params
        told = told or CompressionSettings()
        return Compression(longest=told.longest, trigger=told.trigger) if told.enabled else None


def _search(path: str | None, folder: Path | None) -> AnySearch:
    where = "callback_settings.web_search.search"
    if path is None:
        raise SetupError(f"{where} names no function; write search: module.name")
    return found_function(path, f"{where} {path!r}", folder, takes="a query")
