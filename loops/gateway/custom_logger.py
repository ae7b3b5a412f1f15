"""The class whose methods a callback overrides, and what it answers with."""

from collections.abc import AsyncIterator
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field


class AgenticLoopRequestPatch(BaseModel):
    """What of a request is another one in the round that follows."""

    model_config = ConfigDict(extra="forbid")

    model: str | None = None
    """A model of the configuration, by its name there."""
    messages: list[dict[str, Any]] | None = None
    """All messages of the next round; a plan that runs the model again needs them."""
    tools: list[dict[str, Any]] | None = None
    max_tokens: int | None = None
    optional_params: dict[str, Any] = Field(default_factory=dict[str, Any])
    """What else of the request's body changes."""
    kwargs: dict[str, Any] = Field(default_factory=dict[str, Any])
    """What the next round's methods find in their `kwargs`; `max_agentic_loops` is read from it."""


class AgenticLoopPlan(BaseModel):
    """What a callback wants done with a reply whose calls it has taken up."""

    model_config = ConfigDict(extra="forbid")

    run_agentic_loop: bool = False
    """Whether the model is asked again, with the patch; else the next callback is asked."""
    request_patch: AgenticLoopRequestPatch | None = None
    response_override: Any | None = None
    """What the caller gets instead of the reply."""
    terminate: bool = False
    """Whether the reply without the calls that were taken up is the answer."""
    stop_reason: str | None = None
    """Why, for the log."""
    metadata: dict[str, Any] = Field(default_factory=dict[str, Any])
    """For the callback's own later methods."""


class AgenticLoopSafetyError(ValueError):
    """A loop was refused: its model makes the same calls again, or has been asked too often."""


class AgenticLoopLimitError(AgenticLoopSafetyError):
    """A loop was refused: its model has been asked as often as it may."""


class CustomLogger:
    """A callback; each method does nothing until it is overridden.

    All methods are asynchronous and are called with keywords. An instance is registered, not the
    class.
    """

    server_fulfilled_tool_names: ClassVar[frozenset[str]] = frozenset()
    """Tools whose calls no caller ever sees: a stream that has one of them is held back."""

    async def async_should_run_agentic_loop(
        self,
        response: Any,
        model: str,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None,
        stream: bool,
        custom_llm_provider: str,
        kwargs: dict[str, Any],
    ) -> tuple[bool, dict[str, Any]]:
        """Say whether the reply has calls that this callback takes up, and what it needs for it."""
        return False, {}

    async def async_build_agentic_loop_plan(
        self,
        tools: dict[str, Any],
        model: str,
        messages: list[dict[str, Any]],
        response: Any,
        anthropic_messages_provider_config: Any,
        anthropic_messages_optional_request_params: dict[str, Any],
        logging_obj: Any,
        stream: bool,
        kwargs: dict[str, Any],
    ) -> AgenticLoopPlan:
        """Answer the calls, and say how it goes on; `tools` is what the gate has returned."""
        return AgenticLoopPlan()

    async def async_run_agentic_loop(
        self,
        tools: dict[str, Any],
        model: str,
        messages: list[dict[str, Any]],
        response: Any,
        anthropic_messages_provider_config: Any,
        anthropic_messages_optional_request_params: dict[str, Any],
        logging_obj: Any,
        stream: bool,
        kwargs: dict[str, Any],
    ) -> Any:
        """Return the answer itself, asked for by the callback's own means; None for none."""
        return None

    async def async_should_run_chat_completion_agentic_loop(
        self,
        response: Any,
        model: str,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None,
        stream: bool,
        custom_llm_provider: str,
        kwargs: dict[str, Any],
    ) -> tuple[bool, dict[str, Any]]:
        """Do as `async_should_run_agentic_loop` does, for chat completions alone."""
        return False, {}

    async def async_build_chat_completion_agentic_loop_plan(
        self,
        tools: dict[str, Any],
        model: str,
        messages: list[dict[str, Any]],
        response: Any,
        optional_params: dict[str, Any],
        logging_obj: Any,
        stream: bool,
        kwargs: dict[str, Any],
    ) -> AgenticLoopPlan:
        """Do as `async_build_agentic_loop_plan` does, for chat completions alone."""
        return AgenticLoopPlan()

    async def async_run_chat_completion_agentic_loop(
        self,
        tools: dict[str, Any],
        model: str,
        messages: list[dict[str, Any]],
        response: Any,
        optional_params: dict[str, Any],
        logging_obj: Any,
        stream: bool,
        kwargs: dict[str, Any],
    ) -> Any:
        """Do as `async_run_agentic_loop` does, for chat completions alone."""
        return None

    async def async_post_agentic_loop_response_hook(
        self, response: Any, plan: AgenticLoopPlan, kwargs: dict[str, Any]
    ) -> Any:
        """Return the answer that the plan has led to, changed or not."""
        return response

    async def async_agentic_loop_cleanup_hook(
        self, plan: AgenticLoopPlan, kwargs: dict[str, Any]
    ) -> None:
        """Let go of what the plan needed: called once, however the rounds after it end."""

    # -- what stands around a request

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str
    ) -> Any:
        """Look at a request before it is sent, once.

        Return another body, None for the same, or a text that is the answer.
        """
        return None

    async def async_post_call_success_hook(
        self, data: dict[str, Any], user_api_key_dict: Any, response: Any
    ) -> Any:
        """Return the answer that the caller gets; None for the same. Not called for streams."""
        return None

    async def async_post_call_failure_hook(
        self,
        request_data: dict[str, Any],
        original_exception: Exception,
        user_api_key_dict: Any,
        traceback_str: str | None = None,
    ) -> Any:
        """Return or raise the error that the caller gets; None for the same."""
        return None

    def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: AsyncIterator[Any], request_data: dict[str, Any]
    ) -> AsyncIterator[Any]:
        """Yield what the caller gets of a stream: bytes of Messages, chunks of a chat completion.

        An override is an async generator.
        """
        return response

    async def async_log_success_event(
        self, kwargs: dict[str, Any], response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """Hear of an answer, once for all of its rounds."""

    async def async_log_failure_event(
        self, kwargs: dict[str, Any], response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """Hear of a request that has no answer."""
