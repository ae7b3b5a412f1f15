"""What a model's port may raise, in the words of our own errors.

The ports that ship raise `ProviderError`s. A port of one's own may let through what httpx raises:
what that says of the service is said here. Anything else is a fault of the port.
"""

from contextlib import suppress

import httpx

from .errors import AgentError, LoopFailed, ProviderError, Timeout, Unavailable
from .guard import describe, unwrapped
from .providers.failures import failure_of_refusal, refusal_of


def failure_of(port: str, error: Exception) -> Exception:
    """Return the error that the port's error is for a run; an error of ours is itself."""
    inner = unwrapped(error)
    match inner:
        case AgentError():
            return inner
        case httpx.TimeoutException():
            return Timeout(f"the model {port!r} did not answer in time: {describe(inner)}")
        case httpx.ReadError() | httpx.RemoteProtocolError():
            return Unavailable(f"the connection to the model {port!r} broke: {describe(inner)}")
        case httpx.RequestError():
            return Unavailable(f"the model {port!r} cannot be reached: {describe(inner)}")
        case httpx.HTTPStatusError():
            return _refusal(port, inner.response)
        case _:
            return LoopFailed(f"the model port {port!r} raised {describe(inner)}")


def _refusal(port: str, response: httpx.Response) -> ProviderError:
    body = b""
    # The body of a streamed response that nobody has read is not there any more.
    with suppress(httpx.ResponseNotRead):
        body = response.content
    refusal = refusal_of(body, status=response.status_code, headers=response.headers)
    return failure_of_refusal(port, refusal)
