"""The branch of the error tree that says how a model's service failed; `errors` draws all of it."""

# ruff: noqa: N818 - the names say what happened; all of them are errors

from datetime import timedelta

from .agent_error import AgentError


class ProviderError(AgentError):
    """The model's service failed."""

    code = "provider_failed"
    retryable: bool = False
    """Whether the same request may succeed later: the raiser says so, no catcher guesses."""

    def __init__(
        self,
        message: str,
        *,
        retryable: bool | None = None,
        status: int | None = None,
        retry_after: timedelta | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = ""
        """What the provider calls it, in one word; empty where it does not."""
        self.said = ""
        """What the provider says of it, and nothing else; empty where it does not."""
        if retryable is not None:
            self.retryable = retryable
        self.status = status
        self.retry_after = retry_after
        """How long the service asks to wait before it is asked again; None when it does not."""


class RateLimited(ProviderError):
    """The provider takes no more requests for now."""

    retryable = True

    def __init__(
        self, message: str, *, retry_after: timedelta | None = None, status: int | None = 429
    ) -> None:
        super().__init__(message, status=status, retry_after=retry_after)


class ContextTooLong(ProviderError):
    """The request does not fit the model's window."""

    def __init__(
        self,
        message: str,
        *,
        limit: int | None = None,
        sent: int | None = None,
        status: int | None = 400,
    ) -> None:
        super().__init__(message, status=status)
        self.limit = limit
        self.sent = sent


class Overloaded(ProviderError):
    """The provider is up but has no capacity."""

    retryable = True


class Unavailable(ProviderError):
    """The provider cannot be reached or answers with a fault of its own."""

    retryable = True


class Timeout(ProviderError):
    """The provider did not answer in time."""

    code = "provider_timeout"
    retryable = True


class Unauthorized(ProviderError):
    """The provider does not accept the credentials."""


class InvalidRequest(ProviderError):
    """The provider does not understand the request."""

    code = "provider_invalid_request"


class Refused(ProviderError):
    """The provider understands the request and declines it."""


class Incomplete(ProviderError):
    """The reply broke off before its end."""

    retryable = True
