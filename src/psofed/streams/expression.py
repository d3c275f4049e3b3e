"""f as a line of text, "sin(3*x1) + x2*x3": read by walking its syntax tree, never executed.

Only what stands in the tables below has a meaning; everything else is refused. Numbers are
floating-point from the start, so that no power of integers can grow.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.errors import InputError, nearest

Array = NDArray[Any]
Part = Callable[[Array], Any]  # of x [..., L]
LONGEST, DEEPEST, MOST = 2000, 100, 500  # characters, levels and parts of an expression

CONSTANTS = {"pi": np.pi, "e": np.e}
FUNCTIONS: dict[str, tuple[int, Any]] = {
    **{name: (1, getattr(np, name)) for name in (
        "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "exp", "expm1",
        "log", "log1p", "log2", "log10", "sqrt", "cbrt", "square", "abs", "sign", "floor", "ceil",
        "sinc",
    )},
    **{name: (2, getattr(np, name)) for name in ("minimum", "maximum", "arctan2", "hypot")},
    "where": (3, np.where),
}  # fmt: skip
BINARY = {
    ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide,
    ast.Pow: lambda a, b: a**b,  # the operator is faster for small whole powers
}  # fmt: skip
UNARY = {ast.UAdd: np.positive, ast.USub: np.negative}
COMPARED = {
    ast.Lt: np.less, ast.LtE: np.less_equal, ast.Gt: np.greater, ast.GtE: np.greater_equal,
    ast.Eq: np.equal, ast.NotEq: np.not_equal,
}  # fmt: skip
HINTS: dict[type[ast.AST], str] = {
    ast.BitXor: "write a power as **",
    ast.IfExp: "write where(x1 > 0, a, b)",
    ast.BoolOp: "multiply conditions for and: (x1 > 0) * (x2 > 0)",
    ast.And: "multiply conditions for and: (x1 > 0) * (x2 > 0)",
    ast.Or: "multiply conditions for and: (x1 > 0) * (x2 > 0)",
    ast.Subscript: "write x1, x2, ... for the inputs",
    ast.Attribute: "write sin, not np.sin",
}


class Expression:
    """A function of x [..., L] that was read from text.

    >>> Expression("where(x1 > 0, x1**2, -x2)", taps=2)(np.array([[3.0, 1.0], [-1.0, 4.0]]))
    array([ 9., -4.])
    >>> Expression("9**9**9 + x1", taps=1)
    Traceback (most recent call last):
    psofed.errors.InputError: f has 9**9**9, which is inf; use finite numbers
    """

    def __init__(self, text: str, taps: int, field: str = "f") -> None:
        self.text, self.taps, self.field, self.count = text, taps, field, 0
        try:
            with np.errstate(all="ignore"):
                self.part = self._part(self._tree(), 0)
        except InputError as error:
            raise InputError(field, error.found, error.right) from None

    def __call__(self, x: Array) -> Array:
        """f(x) [...]."""
        value = self.part(x) if callable(self.part) else self.part
        return np.broadcast_to(np.asarray(value, x.dtype), x.shape[:-1])

    def _tree(self) -> ast.expr:
        if len(self.text) > LONGEST:
            found = f"has {len(self.text)} characters"
            raise InputError("", found, f"use {LONGEST} at most, or a file: './mine.py:f'")
        right = "write an expression of x1, x2, ..., as in sin(3*x1) + x2, or a file: './mine.py:f'"
        if not self.text.strip():
            raise InputError("", "is empty", right)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of strange syntax, which is refused below
                return ast.parse(" ".join(self.text.split()), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise InputError(
                "", f"is {_short(' '.join(self.text.split()))}, which cannot be read", right
            ) from None

    def _part(self, node: ast.AST, depth: int) -> Part | float:
        """A function of x, or a number where x does not matter."""
        self.count += 1
        if depth > DEEPEST or self.count > MOST:
            raise InputError("", "is too long to be an expression", "use a file: './mine.py:f'")
        if isinstance(node, ast.Constant):
            return self._number(node)
        if isinstance(node, ast.Name):
            return self._name(node.id)
        function, parts = self._applied(node)
        return self._join(node, function, [self._part(part, depth + 1) for part in parts])

    def _number(self, node: ast.Constant) -> float:
        if isinstance(node.value, bool) or not isinstance(node.value, int | float):
            raise _refused(f"has {_short(str(node.value))}", "use numbers")
        try:
            return float(node.value)
        except OverflowError:
            raise InputError("", "has a number that is too large", "use finite numbers") from None

    def _name(self, name: str) -> Part | float:
        if name in CONSTANTS:
            return float(CONSTANTS[name])
        if re.fullmatch(r"x[1-9]\d{0,5}", name):
            i = int(name[1:]) - 1
            if i >= self.taps:
                found = f"uses {name}, but taps is {self.taps}"
                raise InputError("", found, f"use x1 to x{self.taps}, or raise taps")
            return lambda x: x[..., i]
        inputs = [f"x{i + 1}" for i in range(min(self.taps, 9))]
        right = nearest(name, [*inputs, *CONSTANTS, *FUNCTIONS])
        if re.fullmatch(r"x\d*", name):
            right = f"the inputs are x1 to x{self.taps}"
        raise InputError("", f"has {_short(name)}, which has no meaning", right)

    def _applied(self, node: ast.AST) -> tuple[Any, list[ast.expr]]:
        """The function that a node stands for, and the parts that it is applied to."""
        if isinstance(node, ast.BinOp) and type(node.op) in BINARY:
            return BINARY[type(node.op)], [node.left, node.right]
        if isinstance(node, ast.UnaryOp) and type(node.op) in UNARY:
            return UNARY[type(node.op)], [node.operand]
        if isinstance(node, ast.Compare) and all(type(op) in COMPARED for op in node.ops):
            return _chain([COMPARED[type(op)] for op in node.ops]), [node.left, *node.comparators]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return self._named(node, node.func.id), node.args
        inner = [type(part) for part in ast.iter_child_nodes(node)]
        hints = [HINTS[kind] for kind in (type(node), *inner) if kind in HINTS]
        right = hints[0] if hints else (
            "use numbers, x1, x2, ..., + - * / **, comparisons and functions"
        )  # fmt: skip
        raise _refused(f"has {_short(ast.unparse(node))}", right)

    def _named(self, node: ast.Call, name: str) -> Any:
        if name not in FUNCTIONS:
            right = nearest(name, list(FUNCTIONS))
            raise InputError("", f"has {_short(name)}(...), which has no meaning", right)
        count, function = FUNCTIONS[name]
        if len(node.args) != count or node.keywords:
            found = f"gives {name} {len(node.args) + len(node.keywords)} values"
            raise InputError("", found, f"give it {count}, without names")
        return function

    def _join(self, node: ast.AST, function: Any, parts: list[Part | float]) -> Part | float:
        if any(callable(part) for part in parts):
            # Plain numbers, not NumPy's, because these leave float32 as it is.
            return lambda x: function(*(p(x) if callable(p) else p for p in parts))
        value = float(function(*(np.float64(part) for part in parts if not callable(part))))
        if not np.isfinite(value):
            found = f"has {_short(ast.unparse(node).replace(' ', ''))}, which is {value}"
            raise InputError("", found, "use finite numbers")
        return value


def _refused(found: str, right: str) -> InputError:
    return InputError("", f"{found}, which has no meaning here", right)


def _chain(operators: list[Any]) -> Any:
    """a < b < c, as Python reads it."""

    def compare(*parts: Any) -> Any:
        pairs = zip(operators, parts, parts[1:], strict=False)
        found = [operator(a, b) for operator, a, b in pairs]
        return found[0] if len(found) == 1 else np.logical_and.reduce(found)

    return compare


def _short(text: str) -> str:
    return text if len(text) < 40 else text[:30] + "..."
