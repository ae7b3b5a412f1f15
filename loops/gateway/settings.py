"""What a gateway is told by its configuration."""

from dataclasses import dataclass
from datetime import timedelta

from .rounds import Mode
from .rules import Rule

LONGEST_PING = timedelta(seconds=15)
"""Callers give a stream up that is silent for a little longer."""


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """The settings of a gateway, with what holds where nobody said anything."""

    streaming: Mode = Mode.COMPATIBLE
    """What callers see of a call that is taken up, where neither they nor a callback say it."""
    callback_timeout: timedelta = timedelta(minutes=5)
    """How long one method of a callback may take."""
    ping: timedelta = timedelta(seconds=10)
    """How long a stream is silent before its caller is told that it goes on."""
    wait: timedelta = timedelta(seconds=30)
    """How long a request waits for a worker."""
    callbacks: tuple[object, ...] = ()
    """In the order in which they are asked; each instance stands here once."""
    post_call_rules: tuple[Rule, ...] = ()
