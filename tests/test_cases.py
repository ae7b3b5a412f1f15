"""Each case of the behaviour that was promised has its tests, or a reason why not."""

import ast
from pathlib import Path
from types import ModuleType

import pytest

from tests.gateway import cases as of_the_gateway
from tests.kit import cases as of_the_kit

TABLES = pytest.mark.parametrize("table", [of_the_gateway, of_the_kit], ids=["gateway", "kit"])
NAMED = sorted(
    {
        where
        for table in (of_the_gateway, of_the_kit)
        for tests in table.CASES.values()
        for where in tests
    }
)


@TABLES
def test_each_case_is_tested_or_has_a_reason_why_not(table: ModuleType) -> None:
    cases, left_out = table.CASES, table.LEFT_OUT

    assert table.ALL - cases.keys() - left_out.keys() == set()
    assert (cases.keys() | left_out.keys()) - table.ALL == set()
    assert cases.keys() & left_out.keys() == set()
    assert [case for case, tests in cases.items() if not tests] == []
    assert [case for case, reason in left_out.items() if not reason] == []


@pytest.mark.parametrize("file", sorted({where.partition("::")[0] for where in NAMED}))
def test_each_test_that_is_named_stands_in_its_file(shipped: Path, file: str) -> None:
    named = {where.partition("::")[2] for where in NAMED if where.startswith(f"{file}::")}
    tree = ast.parse((shipped / file).read_text(encoding="utf-8"))

    there = {
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }

    assert named - there == set()
