"""The servers that others wrote, as processes on loopback: aimock, and LiteLLM's proxy before it.

`tests/peers/install` has put them where they are looked for here.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import distributions
from pathlib import Path

from api.children import Children

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = HERE.parent / ".envs"
AIMOCK = ENVIRONMENTS / "aimock" / "node_modules" / "@copilotkit" / "aimock"
LITELLM = ENVIRONMENTS / "litellm"

KEY = "sk-of-these-tests"
"""What both servers take as the key of whoever asks them."""

READY_WITHIN = timedelta(seconds=90)
"""LiteLLM compiles itself when it is started for the first time."""

OFFLINE = {
    # Prices come with the package; without this they are fetched.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    # Whoever would call out all the same reaches nobody.
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9"),
    "NO_PROXY": "127.0.0.1",
}

BECOME = "import os, sys; os.execvp(sys.argv[1], sys.argv[1:])"
"""A program that becomes another one, which keeps its process and its group."""


@dataclass(frozen=True, slots=True)
class Servers:
    """Starts servers, with what they write in a folder."""

    children: Children
    folder: Path

    def start_aimock(self) -> str:
        """Start the mock server and return its address."""
        command = ("node", str(AIMOCK / "dist" / "cli.js"), "--validate-on-load", "--strict")
        replies = ("--fixtures", str(HERE / "replies.json"), "--chunk-size", "5")
        return self._start(
            "aimock",
            (*command, *replies, "--port", "0"),
            {"AIMOCK_API_KEYS": KEY},
            r"\[aimock\] aimock server listening on (http\S+)",
        )

    def start_litellm(self, aimock: str) -> str:
        """Start the proxy before the mock server and return its address."""
        command = (str(LITELLM / "bin" / "litellm"), "--config", str(HERE / "litellm.yaml"))
        return self._start(
            "litellm",
            (*command, "--host", "127.0.0.1", "--port", "0"),
            {"PEERS_KEY": KEY, "AIMOCK": aimock, "AIMOCK_V1": f"{aimock}/v1"},
            r"INFO: +Uvicorn running on (http\S+)",
        )

    def _start(
        self, name: str, command: tuple[str, ...], environment: Mapping[str, str], ready: str
    ) -> str:
        home = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "PYTHONUTF8": "1"}
        child = self.children.start(
            name, ("-c", BECOME, *command), {**home, **OFFLINE, **environment}, self.folder
        )
        return self.children.wait_ready(child, ready, within=READY_WITHIN).group(1)


def are_installed() -> bool:
    """Whether both servers are there."""
    return AIMOCK.is_dir() and (LITELLM / "bin" / "litellm").is_file()


def versions() -> dict[str, str]:
    """Return the names and versions of what is installed."""
    [folder] = LITELLM.glob("lib/python*/site-packages")
    [litellm] = distributions(name="litellm", path=[str(folder)])
    aimock = json.loads((AIMOCK / "package.json").read_text(encoding="utf-8"))
    return {"litellm[proxy]": litellm.version, aimock["name"]: aimock["version"]}
