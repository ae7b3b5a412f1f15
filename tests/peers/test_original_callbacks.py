"""Callbacks that were written for the original library, with that library installed."""

import json
import os
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.peers, pytest.mark.timeout(120)]

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PYTHON = HERE / ".envs" / "litellm" / "bin" / "python"
QUIET = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"}


def test_a_subclass_of_the_original_callback_class_answers_calls_on_both_surfaces() -> None:
    done = subprocess.run(
        [str(PYTHON), str(HERE / "original_callback.py")],
        env={**os.environ, **QUIET, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == ["It is 42.", "It is 42."]
