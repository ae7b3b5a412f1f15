"""The root of the error tree, which `errors` draws."""

import re
from typing import ClassVar

_WORD = re.compile(r"(?<!^)(?=[A-Z])")


class AgentError(Exception):
    """The root of all errors that are raised on purpose."""

    code: ClassVar[str] = "agent_error"
    """The stable name of the error on the wire: that of its class, unless it says another one."""

    def __init_subclass__(cls) -> None:
        if "code" not in vars(cls):
            cls.code = _WORD.sub("_", cls.__name__).lower()
