"""Ask the model for one reply, and again when it fails; what was shown of it is never lost."""

from collections.abc import AsyncIterator
from typing import Any

from loops.closing import close
from loops.errors import ContextTooLong
from loops.guard import Raised

from .beating import beating, waiting
from .events import reset, step
from .kit_run import KitRun
from .retrying import MAX_RETRIES, delay, is_retryable
from .turn import Turn


async def reply(run: KitRun) -> AsyncIterator[Any]:
    """Yield what the reader is shown of the reply, and let the run take it.

    Raises:
        ProviderError: When the service fails for good; what was shown stands in the session then.
    """
    number = 0
    while True:
        number += 1
        attempt = _Attempt(run, number)
        async for event in run.nest(attempt.events()):
            yield event
        if attempt.failure is None:
            return
        if attempt.shown:
            kind = type(attempt.failure.error).__name__
            yield reset(f"the reply broke off: {kind}")
        async for event in run.nest(_paused(run, attempt.failure.error, number)):
            yield event


class _Attempt:
    def __init__(self, run: KitRun, number: int) -> None:
        self._run = run
        self._number = number
        self.shown: list[str] = []
        """The text that the reader was shown."""
        self.failure: Raised | None = None

    async def events(self) -> AsyncIterator[Any]:
        """Yield what the reader is shown.

        Raises:
            BaseException: The failure, if the model is not asked again.
        """
        run = self._run
        source = beating(run.provider.stream(**run.request()), run.options.heartbeat)
        is_over = False
        try:
            async for event in source:
                if isinstance(event, Raised):
                    self.failure = event
                elif isinstance(event, Turn):
                    await run.take(event)
                    # Nothing comes after it; what goes wrong from here on is no failure of it.
                    break
                else:
                    self.shown += [event] if isinstance(event, str) else []
                    yield event
            if self._is_too_long and self.shown:
                yield reset("there was no room for the reply")
            self._refuse_to_ask_again()
            is_over = True
        finally:
            await close(source)
            if not is_over and not self._is_too_long:
                run.session.add_partial("".join(self.shown))
                await run.session.checkpoint()

    @property
    def _is_too_long(self) -> bool:
        """Whether the request has to be made shorter: what was shown is no reply's then."""
        return self.failure is not None and isinstance(self.failure.error, ContextTooLong)

    def _refuse_to_ask_again(self) -> None:
        """Pass if there is no failure, or one after which the model is asked again.

        Raises:
            BaseException: The failure, if it is final.
        """
        if self.failure is None:
            return
        # A runtime that lives on has asked again already for what it has shown, and voids it.
        is_final = bool(self.shown) and self._run.context.current_runtime().keeps
        is_past = self._number > MAX_RETRIES
        if is_past or is_final or not is_retryable(self.failure.error):
            raise self.failure.error


async def _paused(run: KitRun, error: BaseException, attempt: int) -> AsyncIterator[Any]:
    seconds = delay(error, attempt, f"{run.context.run}:{run.asked}")
    yield step(
        f"Model endpoint busy, retrying in {seconds:.1f}s... (attempt {attempt}/{MAX_RETRIES})",
        id=f"retry-{run.asked}",
    )
    async for beat in run.nest(waiting(run.context.sleep(seconds), run.options.heartbeat)):
        if beat is not None:
            yield beat
