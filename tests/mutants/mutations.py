"""Small ways in which a program can be wrong: one change at one place of its syntax tree."""

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

OPPOSITES: dict[type[ast.AST], type[ast.AST]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """A program with one fault."""

    line: int
    change: str
    """What was there, and what is there now."""
    source: str


def mutants(source: str) -> Iterator[Mutant]:
    """Yield every program that is one change away from this one."""
    tree = ast.parse(source)
    fixed = {id(each) for each in _decoration(tree)}
    places = [n for n, each in enumerate(ast.walk(tree)) if id(each) not in fixed]
    for place in places:
        # A copy each time: a walk of a changed tree has the same order up to the change.
        changed = copy.deepcopy(tree)
        node = next(each for n, each in enumerate(ast.walk(changed)) if n == place)
        before = ast.unparse(node) if isinstance(node, ast.expr | ast.stmt) else ""
        if _mutate(node):
            after = ast.unparse(node)
            yield Mutant(
                getattr(node, "lineno", 0),
                f"{_short(before)} → {_short(after)}",
                ast.unparse(changed),
            )


def _decoration(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield what stands in decorators: `frozen=True` is no behaviour that a test should pin."""
    for node in ast.walk(tree):
        for decorator in getattr(node, "decorator_list", ()):
            yield from ast.walk(decorator)


def _mutate(node: ast.AST) -> bool:
    """Change the node in place, and say whether there was anything to change."""
    match node:
        case ast.Compare(ops=[op, *_]) if type(op) in OPPOSITES:
            node.ops[0] = OPPOSITES[type(op)]()  # type: ignore[assignment]  # of its kind
        case ast.BoolOp(op=op) | ast.BinOp(op=op) if type(op) in OPPOSITES:
            node.op = OPPOSITES[type(op)]()  # type: ignore[assignment]  # of its kind
        case ast.If() | ast.While() | ast.IfExp():
            node.test = ast.UnaryOp(ast.Not(), node.test)
        case ast.Return(value=ast.expr()) if not _is_none(node.value):
            node.value = ast.Constant(None)
        case ast.Constant(value=bool(value)):
            node.value = not value
        case ast.Constant(value=int(value)):
            node.value = value + 1
        case _:
            return False
    return True


def _is_none(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _short(text: str) -> str:
    line = text.splitlines()[0] if text else ""
    return line if len(line) <= 50 else f"{line[:49]}…"
