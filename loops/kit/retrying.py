"""How a model that fails is asked again: whether, after how long; pure."""

from datetime import timedelta
from hashlib import sha256

from loops.errors import ContextTooLong, ProviderError

MAX_RETRIES = 10
"""How often a model is asked again for one reply."""

BASE_DELAY = 0.5
"""Seconds before it is asked again for the first time; doubled each time."""

MAX_DELAY = 32.0

JITTER = 0.25
"""The share of the delay that is added by chance, at most."""

LONGEST_WISH = timedelta(minutes=2)
"""How long a service may ask to wait; what is longer is this long."""


def is_retryable(error: BaseException) -> bool:
    """Say whether asking again may help: the error says so itself."""
    if isinstance(error, ContextTooLong):
        return False
    return isinstance(error, ProviderError) and error.retryable


def delay(error: BaseException, attempt: int, seed: str) -> float:
    """Return the seconds before the attempt: those that the service asks for, or ever more.

    The chance in it comes from the seed, so that a run that is resumed tells the same again.
    """
    asked = error.retry_after if isinstance(error, ProviderError) else None
    if asked is not None and asked > timedelta(0):
        return min(asked, LONGEST_WISH).total_seconds()
    backoff: float = min(BASE_DELAY * 2 ** (attempt - 1), MAX_DELAY)
    drawn = int.from_bytes(sha256(f"{seed}:{attempt}".encode()).digest()[:4]) / 2**32
    return backoff * (1 + JITTER * drawn)
