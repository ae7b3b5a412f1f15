"""A provider's failure as the journal holds it, so that a resumed loop meets the same error."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from loops.errors import ContextTooLong, ProviderError, RateLimited


def encode_error(error: ProviderError) -> dict[str, Any]:
    """Return what is kept of the error."""
    kept: dict[str, Any] = {
        "code": error.code,
        "message": str(error),
        "retryable": error.retryable,
        "status": error.status,
    }
    kept |= {name: told for name in _TOLD if (told := getattr(error, name))}
    if error.retry_after is not None:
        kept["retry_after"] = error.retry_after.total_seconds()
    if isinstance(error, ContextTooLong):
        kept |= {"limit": error.limit, "sent": error.sent}
    return kept


def decode_error(kept: dict[str, Any]) -> ProviderError:
    """Return the error again, of its own class; a class that is not known here is the root's."""
    error = _made(kept)
    for name in _TOLD:
        setattr(error, name, kept.get(name, ""))
    return error


def _made(kept: dict[str, Any]) -> ProviderError:
    cls = _CLASSES.get(kept["code"], ProviderError)
    message, status = kept["message"], kept["status"]
    if issubclass(cls, ContextTooLong):
        return cls(message, limit=kept["limit"], sent=kept["sent"], status=status)
    after = kept.get("retry_after")
    pause = None if after is None else timedelta(seconds=after)
    if issubclass(cls, RateLimited):
        return cls(message, retry_after=pause, status=status)
    return cls(message, retryable=kept["retryable"], status=status, retry_after=pause)


def _all_classes(root: type[ProviderError]) -> Iterator[type[ProviderError]]:
    yield root
    for child in root.__subclasses__():
        yield from _all_classes(child)


_TOLD = ("kind", "said")
"""What the provider says itself; kept only where it says something."""

_CLASSES = {cls.code: cls for cls in _all_classes(ProviderError)}
