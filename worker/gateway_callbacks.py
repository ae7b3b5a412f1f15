"""The callbacks of a gateway, from all the places where they are registered."""

import loops.callbacks as module
from loops.app import App
from loops.gateway.registering import checked_callbacks, collected
from loops.gateway.settings import GatewaySettings


def gateway_callbacks(app: App, settings: GatewaySettings) -> list[object]:
    """Return the callbacks in the order in which they are asked, each once.

    Raises:
        SetupError: When one would never run: a class, another object, a method without `async`.
    """
    return collected(
        checked_callbacks(module.callbacks, "loops.callbacks.callbacks"),
        checked_callbacks(app.callbacks, "App(callbacks=…)"),
        settings.callbacks,
    )
