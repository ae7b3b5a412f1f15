"""Child runs: what a loop asks of another agent, and what comes of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from .budget import Budget, Spent
from .errors import ChildFailed
from .messages import Messages, Usage

NESTING = 16
"""How deep runs may start runs."""


@dataclass(frozen=True, slots=True)
class ChildRequest:
    """A run that a loop wants of another agent."""

    agent: object
    """The agent's name in the app, or the agent."""
    messages: Messages
    budget: Budget | None = None
    timeout: timedelta | None = None
    """The limit of its running time; None for the configured one."""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildRun:
    """What came of a child run."""

    agent: str
    run: str = ""
    """Its id; empty in one process."""
    status: str = "completed"
    output: str = ""
    """The text of its last turn, or JSON of what its loop set as the output."""
    usage: Usage | None = None
    """What its own replies have cost."""
    spent: Spent = field(default_factory=Spent)
    """What it took of its budget, with its own children."""
    failure: str = ""
    """Why it did not complete: the code and the sentence of its error."""

    def completed(self) -> "ChildRun":
        """Return this run, if it has completed.

        Raises:
            ChildFailed: When it has not.
        """
        if self.status != "completed":
            raise ChildFailed(self.agent, self.run, self.failure or self.status)
        return self
