"""What a worker serves."""

from datetime import timedelta
from typing import Any

import pytest

from worker.functions import Signatures, job_function


async def search(ctx: dict[str, Any], query: str, *, limit: int = 5) -> None:
    """Stand for a job's function."""


def test_a_description_keeps_what_it_is_told():
    described = job_function(
        search, timeout=timedelta(seconds=5), keep_result=timedelta(0), settles_itself=True
    )

    assert (described.name, described.timeout_s, described.keep_result_s) == ("search", 5, 0)
    assert described.settles_itself


def test_what_is_no_coroutine_function_is_refused():
    with pytest.raises(RuntimeError, match="not a coroutine function"):
        job_function(len)


@pytest.mark.parametrize(
    ("arguments", "named", "fits"),
    [
        (["x"], {}, True),
        (["x"], {"limit": 1}, True),
        ([], {}, False),
        (["x", "y"], {}, False),
        (["x"], {"unknown": 1}, False),
    ],
)
def test_arguments_are_held_against_the_signature(
    arguments: list[str], named: dict[str, int], fits: bool
):
    signatures = Signatures()

    assert signatures.fit(search, arguments, named) is fits
    assert signatures.fit(search, arguments, named) is fits
