"""Small mistakes that can be planted in a module: each is one place in its text and what would stand there instead.

Only what runs is touched: no docstring, annotation, decorator, message of an error, `assert` or formatted string. Every
mutation gives a module that can be compiled and differs from the one before.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from itertools import chain

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Add,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
}
_FORGOTTEN = frozenset(["sorted", "reversed", "abs", "round", "set", "frozenset", "max", "min", "sum", "int", "float"])
"""Calls that are replaced by their first argument."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """`line` and `text` are where it is in the module as it stands, `change` says what becomes what."""

    line: int
    text: str
    change: str
    start: int
    end: int
    replacement: str

    def apply(self, source: str) -> str:
        encoded = source.encode()
        return (encoded[: self.start] + self.replacement.encode() + encoded[self.end :]).decode()


def mutations(source: str) -> list[Mutation]:
    """All of a module, in the order of its text."""
    lines = source.encode().split(b"\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    found = [
        Mutation(
            line=node.lineno,
            text=lines[node.lineno - 1].decode().strip(),
            change=f"{_short(ast.unparse(node))} -> {_short(replacement)}",
            start=starts[node.lineno - 1] + node.col_offset,
            end=starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0),
            replacement=replacement,
        )
        for node, replacement in _in_statements(ast.parse(source).body)
    ]
    return sorted(found, key=lambda mutation: (mutation.start, mutation.end, mutation.change))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 90 else f"{line[:44]}...{line[-43:]}"


_Place = ast.expr | ast.stmt
_Found = Iterator[tuple[_Place, str]]


def _in_statements(body: list[ast.stmt]) -> _Found:
    for statement in body:
        yield from _in_statement(statement)


def _in_statement(statement: ast.stmt) -> _Found:
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            defaults = [default for default in statement.args.kw_defaults if default]
            yield from _in_expressions(chain(statement.args.defaults, defaults))
            yield from _in_statements(statement.body)
        case ast.ClassDef():
            yield from _in_statements(statement.body)
        case ast.Expr(value=ast.Constant()) | ast.Assert() | ast.Import() | ast.ImportFrom() | ast.Pass():
            pass
        case ast.If(test=test) if "TYPE_CHECKING" in ast.unparse(test) or "__name__" in ast.unparse(test):
            pass
        case ast.AnnAssign():
            yield from _in_expressions([statement.value] if statement.value else [])
        case ast.Raise() | ast.Continue() | ast.Break() | ast.Delete():
            yield statement, "pass"
        case ast.Return():
            yield from _returned(statement)
        case _:
            if _can_be_dropped(statement):
                yield statement, "pass"
            yield from _in_parts(statement)


def _can_be_dropped(statement: ast.stmt) -> bool:
    """A call for what it does, or a value for somebody else to see. Without another assignment nothing would run."""
    match statement:
        case ast.Expr() | ast.AugAssign():
            return True
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            return True
    return False


def _returned(statement: ast.Return) -> _Found:
    if statement.value is not None:
        if not (isinstance(statement.value, ast.Constant) and statement.value.value is None):
            yield statement, "return None"
        yield from _in_expression(statement.value)


def _in_parts(node: ast.AST) -> _Found:
    """Of a statement or of an expression: conditions, values and whatever stands below."""
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        yield node.test, f"(not ({ast.unparse(node.test)}))"
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.stmt():
                yield from _in_statement(child)
            case ast.expr():
                yield from _in_expression(child)
            case ast.ExceptHandler() | ast.match_case():
                yield from _in_statements(child.body)
            case ast.comprehension():
                yield from _in_comprehension(child)
            case ast.withitem():
                yield from _in_expression(child.context_expr)
            case ast.keyword(arg="strict", value=ast.Constant()):
                pass  # of zip: it says what is true anyway
            case ast.keyword():
                yield from _in_expression(child.value)


def _in_comprehension(comprehension: ast.comprehension) -> _Found:
    yield from _in_expression(comprehension.iter)
    for condition in comprehension.ifs:
        yield condition, f"(not ({ast.unparse(condition)}))"
        yield from _in_expression(condition)


def _in_expressions(expressions: Iterator[ast.expr] | list[ast.expr]) -> _Found:
    for expression in expressions:
        yield from _in_expression(expression)


def _in_expression(node: ast.expr) -> _Found:
    if isinstance(node, ast.JoinedStr):
        return  # its parts have no place of their own before Python 3.12
    for changed in _changed(node):
        if ast.dump(changed) != ast.dump(node):
            yield node, f"({ast.unparse(changed)})"  # in parentheses it fits in whatever stands around it
    if isinstance(node, ast.Slice):
        for bound in (node.lower, node.upper):
            if bound is not None and not isinstance(bound, ast.Constant):
                yield bound, f"({ast.unparse(bound)}) + 1"
    yield from _in_parts(node)


def _changed(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.Compare(ops=[operator]):
            yield _with(node, ops=[_COMPARED[type(operator)]()])
        case ast.BinOp(op=operator) if type(operator) in _COMPUTED and not _is_text(node.left, node.right):
            yield _with(node, op=_COMPUTED[type(operator)]())
        case ast.BoolOp(op=ast.And()):
            yield _with(node, op=ast.Or())
        case ast.BoolOp():
            yield _with(node, op=ast.And())
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield node.operand
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield from (ast.Constant(value + step) for step in (1, -1))
        case ast.Call(func=ast.Name(id=name), args=[first, *_]) if name in _FORGOTTEN:
            yield first
        case ast.Call(func=ast.Attribute(attr="maximum" | "minimum"), args=[first, _]):  # the order means nothing
            yield first
        case ast.Call(args=[first, second, *rest]) if not isinstance(first, ast.Starred):
            if not isinstance(second, ast.Starred):
                yield _with(node, args=[second, first, *rest])


def _is_text(*operands: ast.expr) -> bool:
    return any(
        isinstance(operand, ast.JoinedStr)
        or (isinstance(operand, ast.Constant) and isinstance(operand.value, str | bytes))
        for operand in operands
    )


def _with(node: ast.expr, **fields: object) -> ast.expr:
    changed = copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed
