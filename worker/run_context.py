"""What a pass gives its loop to decide with."""

from __future__ import annotations

from loops.app import App
from loops.budget import Budget
from loops.context import Context
from loops.messages import Messages

from .begin import Begun


def context_of(app: App, begun: Begun) -> Context:
    """Return the context of a run, as every pass of it begins.

    Raises:
        UnknownLoop: When the app has no such agent.
    """
    run = begun.run
    context = app.context_of(
        run.agent,
        Messages([*begun.window.history, *begun.input]),
        metadata=run.metadata,
        chat_id=run.session_id,
    )
    context.run, context.attempt = run.id, run.attempt
    context.marker = begun.window.shown_marker()
    context.origin = run.origin if run.retry_of else ""
    if run.budget is not None:
        context.budget = Budget(**run.budget).within(context.budget)
    return context
