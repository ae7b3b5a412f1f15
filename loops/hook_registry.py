"""The hooks of a run that wait now, and the answers that came before their questions."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from .errors import AlreadySettled, DuplicateName
from .question import Answer, Question

Settle = Callable[[Answer], None]


@dataclass(slots=True)
class _Live:
    question: Question
    settle: Settle
    is_answered: bool = False


class HookRegistry:
    """Where hooks are found by their labels; runs inside of a run share its registry."""

    def __init__(self) -> None:
        self._live: dict[str, _Live] = {}
        self._early: dict[str, Answer] = {}
        self._taken: set[str] = set()

    @contextmanager
    def live(self, question: Question, settle: Settle) -> Generator[None]:
        """Let the hook be found while the block waits for its answer.

        Raises:
            DuplicateName: When a hook of this label waits already.
        """
        label = question.label
        if label in self._live:
            raise DuplicateName(
                f"a hook labelled {label!r} is open already; "
                "give hooks that are open at one time their labels"
            )
        self._live[label] = _Live(question, settle)
        self._taken.add(label)
        try:
            yield
        finally:
            del self._live[label]

    def is_live(self, label: str) -> bool:
        """Whether a hook of this label waits."""
        return label in self._live

    def is_taken(self, label: str) -> bool:
        """Whether a hook of this label waits, or has waited: an answer to it may still come."""
        return label in self._taken

    def settle(self, label: str, answer: Answer) -> bool:
        """Answer the hook, if one of this label waits; say whether it does.

        Raises:
            AlreadySettled: When it was answered before, and has not heard of it yet.
            ValidationError: When the answer does not fit the question, which stays open.
        """
        live = self._live.get(label)
        if live is None:
            return False
        if live.is_answered:
            raise AlreadySettled(f"the hook {label!r} is answered already")
        if answer.status == "resolved":
            live.question.check(answer.data)
        live.is_answered = True
        live.settle(answer)
        return True

    def keep(self, label: str, answer: Answer) -> None:
        """Keep an answer for the next hook of this label."""
        self._early[label] = answer

    def early(self, label: str) -> Answer | None:
        """Take the answer that came before the question, if there is one."""
        return self._early.pop(label, None)


_registry: ContextVar[HookRegistry] = ContextVar("loops_hook_registry")


def get_hook_registry() -> HookRegistry:
    """Return the registry of the surrounding run.

    Raises:
        LookupError: Outside of a run.
    """
    registry = _registry.get(None)
    if registry is None:
        raise LookupError("there are no hooks here: they live inside of a run; or give registry=")
    return registry


def active_registry() -> HookRegistry | None:
    """Return the registry of the surrounding run, or None outside of a run."""
    return _registry.get(None)


def join_hook_registry(registry: HookRegistry) -> None:
    """Let the rest of the current task, which is a run's own, have its hooks in this registry."""
    _registry.set(registry)


@contextmanager
def use_hook_registry(registry: HookRegistry) -> Generator[HookRegistry]:
    """Let runs that begin in the block have their hooks in this registry."""
    token = _registry.set(registry)
    try:
        yield registry
    finally:
        _registry.reset(token)
