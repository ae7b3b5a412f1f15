"""The settings of a process that serves, or one line about what is wrong with them."""

from __future__ import annotations

import os

from api.loading import load
from loops.errors import SetupError
from worker.configuration import read_configuration
from worker.settings import Settings, SettingsError


def serving_settings() -> Settings:
    """Return the settings of a process that serves.

    Raises:
        SettingsError: When a setting or the configuration file cannot be used, or no server is
            named.
        SetupError: When the app cannot be imported.
    """
    settings = Settings.from_env(os.environ)
    if settings.redis_url is None:
        raise SettingsError(
            "LOOPMILL_REDIS_URL is not set: name a server, or use `loopmill dev`, which starts one"
        )
    if settings.config is not None:
        read_configuration(settings.config)
    problem = None if settings.app is None else load(settings.app).problem
    if problem is not None:
        raise SetupError(problem)
    return settings
