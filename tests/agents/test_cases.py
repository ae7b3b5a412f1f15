"""Each case of the agents' behaviour has its test, or a reason why not."""

import ast
from pathlib import Path

import pytest

from tests.agents.cases import ALL, CASES, LATER


def test_each_case_is_tested_or_has_a_reason_why_not() -> None:
    assert ALL - CASES.keys() - LATER.keys() == set()
    assert CASES.keys() & LATER.keys() == set()
    assert [case for case, reason in LATER.items() if not reason] == []


@pytest.mark.parametrize("file", sorted({where.partition("::")[0] for where in CASES.values()}))
def test_each_test_that_is_named_stands_in_its_file(shipped: Path, file: str) -> None:
    named = {where.partition("::")[2] for where in CASES.values() if where.startswith(f"{file}::")}
    tree = ast.parse((shipped / file).read_text(encoding="utf-8"))

    there = {
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }

    assert named - there == set()
