import pytest

from loops.context import Context
from loops.local import LocalRuntime
from loops.runtime import (
    Scope,
    active_scope,
    current_scope,
    fallback_runtime,
    partial_sink,
    scoped,
    surround,
)
from loops.tasks import Owner

SCOPE = Scope(LocalRuntime(), Context())


def test_a_scope_surrounds_its_block() -> None:
    with scoped(SCOPE):
        assert current_scope() is SCOPE

    assert active_scope() is None


def test_outside_of_a_run_there_is_no_scope() -> None:
    with pytest.raises(LookupError, match="inside of a run only"):
        current_scope()


async def test_a_scope_ends_with_the_task_that_it_surrounds() -> None:
    async def work() -> bool:
        surround(SCOPE)
        return current_scope() is SCOPE

    assert await Owner().start(work(), name="work")
    assert active_scope() is None


async def test_a_run_inside_of_a_call_keeps_its_partial_results_to_itself() -> None:
    async def work() -> bool:
        surround(SCOPE)
        return partial_sink.get() is None

    token = partial_sink.set(print)
    try:
        assert await Owner().start(work(), name="work")
    finally:
        partial_sink.reset(token)


def test_a_context_outside_of_any_run_is_served_in_this_process() -> None:
    context = Context()

    assert isinstance(fallback_runtime(), LocalRuntime)
    assert context.current_runtime() is context.current_runtime()
