"""Each case of the callbacks' behaviour has its tests, or a reason why not."""

import ast
from pathlib import Path

import pytest

from tests.gateway.cases import ALL, CASES, LEFT_OUT

NAMED = sorted({where for tests in CASES.values() for where in tests})


def test_each_case_is_tested_or_has_a_reason_why_not() -> None:
    assert ALL - CASES.keys() - LEFT_OUT.keys() == set()
    assert (CASES.keys() | LEFT_OUT.keys()) - ALL == set()
    assert CASES.keys() & LEFT_OUT.keys() == set()
    assert [case for case, tests in CASES.items() if not tests] == []
    assert [case for case, reason in LEFT_OUT.items() if not reason] == []


@pytest.mark.parametrize("file", sorted({where.partition("::")[0] for where in NAMED}))
def test_each_test_that_is_named_stands_in_its_file(shipped: Path, file: str) -> None:
    named = {where.partition("::")[2] for where in NAMED if where.startswith(f"{file}::")}
    tree = ast.parse((shipped / file).read_text(encoding="utf-8"))

    there = {
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }

    assert named - there == set()
