"""Your own function: any f of the inputs, with inputs, noise and changes of your choice.

`f` is an expression ("sin(3*x1) + x2*x3"), or a function in a file ("./mine.py:f"). The other keys
say how the inputs are drawn, how large the noise is, and whether f changes over time.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from psofed.core.native import Array
from psofed.core.seeds import Seeds
from psofed.errors import InputError, nearest
from psofed.federation import plugins, schema
from psofed.federation.foreign import PROBES, Vectorised, place, vectorised
from psofed.streams import own_laws
from psofed.streams.own_laws import Law, OwnInputs
from psofed.streams.synthetic import LIMITS, OURS, Range, Synthetic

MOST_TAPS = 64
NORMAL = "normal"
TEXTS = ("f", "inputs", "law", "change")  # keys that are a text or a function
Function = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class Options(Synthetic):
    """A stream of your own f: `psofed.Stream(f, taps=3)`.

    >>> Options(lambda x: x[..., 0] * x[..., 1], taps=2).taps
    2
    >>> Options("sin(3*x1) + x4", taps=3)
    Traceback (most recent call last):
    psofed.errors.InputError: f uses x4, but taps is 3; use x1 to x3, or raise taps
    """

    name: ClassVar[str] = "function"
    f: str | Function = field(kw_only=False)  # an expression of x1, x2, ..., or "./mine.py:f"
    taps: int = field(default=0, kw_only=False)  # L, how many inputs f has; it is needed
    inputs: Any = "ar1"  # "ar1" as in the paper, "iid", or "./mine.py:inputs"
    noise: Any = (0.005, 0.03)  # range of the variances of the noise, or its law
    law: str | Function = NORMAL  # of the noise: "laplace", "student", "uniform", "./mine.py:law"
    change: str | Function | None = None  # what f changes into: an expression, or "./mine.py:g"

    def __post_init__(self) -> None:
        schema.check(self, skip=(*LIMITS, *TEXTS))
        if not 1 <= self.taps <= MOST_TAPS:
            found = f"is {self.taps}" if self.taps else "is missing"
            raise InputError("taps", found, f"say how many inputs f has, 1 to {MOST_TAPS}")
        if isinstance(self.noise, str) or callable(self.noise):
            self._set("law", self.noise)  # of which the variance is the default, or its own
            own = callable(self.law) or ":" in self.law
            self._set("noise", (1.0, 1.0) if own else Options.noise)
        for key in LIMITS:
            if isinstance(getattr(self, key), list):
                self._set(key, tuple(getattr(self, key)))
        for key in TEXTS:
            if isinstance(getattr(self, key), str) and ":" in getattr(self, key):
                self._set(key, plugins.attribute(getattr(self, key), key))
        self.check_numbers()
        self._check_choices()
        try:  # all of it now, so that mistakes are told at the start
            if callable(self.inputs):
                self.source.check()
            if callable(self.law):
                own_laws.check_noise(self.law, "law")
            _ = self._f, self._later
        except InputError as error:
            key = error.field.removeprefix("stream.")
            raise InputError(key, error.found, error.right) from error

    def _set(self, key: str, value: Any) -> None:
        object.__setattr__(self, key, value)

    def _check_choices(self) -> None:
        for key, known in (("inputs", [*OURS]), ("law", [NORMAL, *own_laws.NOISES])):
            value = getattr(self, key)
            if not (callable(value) or (isinstance(value, str) and value in known)):
                right = f'use {", ".join(known)}, or a function, as in "./mine.py:{key}"'
                raise InputError(key, f"is {value!r}", right)
        for key in ("theta", "mean", "variance"):
            if callable(self.inputs) and getattr(self, key) != getattr(Options, key):
                found = "is given, but the inputs are drawn by a function"
                raise InputError(key, found, 'leave it out, or use inputs = "ar1" or "iid"')
        if (self.change is not None) != (self.at is not None or self.period is not None):
            found = "is missing" if self.change is None else "is given alone"
            right = "give what f changes into, and at = ROUND, or period = ROUNDS for a drift"
            raise InputError("change", found, right)

    def check_rounds(self, rounds: int) -> None:
        """Refuse a series whose law does not stay."""
        if callable(self.inputs) and not self.independent:
            self.source.check_rounds(rounds)

    @classmethod
    def readers(cls) -> Mapping[str, schema.Reader]:
        """The keys that may be text or something else."""

        def text(key: str, value: Any) -> Any:
            return schema.convert(key, value, str)

        def noise(key: str, value: Any) -> Any:
            return value if isinstance(value, str) else schema.convert(key, value, Range)

        return {"noise": noise, **dict.fromkeys(TEXTS, text)}

    def to_table(self) -> dict[str, Any]:
        """What is set, as plain values; a function by its place."""
        named = copy(self)
        for key in TEXTS:
            if callable(getattr(self, key)):
                named._set(key, place(f"stream.{key}", getattr(self, key)))
        return super(Options, named).to_table()

    def __getstate__(self) -> dict[str, Any]:
        """The fields; what is made of them is made again."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def source(self) -> Any:
        """Where the windows come from."""
        return OwnInputs(self.taps, self.inputs) if callable(self.inputs) else super().source

    def noise_of(self, seeds: Seeds, clients: Array, first: int, normals: Array) -> Array:
        """Of variance 1, or the user's own."""
        if self.law == NORMAL:
            return normals
        stop = first + normals.shape[1]
        drawn = own_laws.blocks(self._law, seeds, "law", clients, first, stop, (), "stream.law")
        return drawn.astype(normals.dtype, copy=False)

    def noise_alone(self, seeds: Seeds, purpose: str, clients: Array, normals: Array) -> Array:
        """The same of independent samples."""
        if self.law == NORMAL:
            return normals
        to, count = f"law {purpose}", len(normals)
        return own_laws.turns(self._law, seeds.world, to, clients, count, (), "stream.law")

    @property
    def _law(self) -> Law:
        return self.law if callable(self.law) else own_laws.NOISES[self.law]

    def function(self, x: Array) -> Array:
        """f(x) [...]."""
        return self._f(x)

    def later(self, x: Array) -> Array | None:
        """What f changes into."""
        return None if self._later is None else self._later(x)

    @cached_property
    def _f(self) -> Vectorised:
        return self._tried("f")

    @cached_property
    def _later(self) -> Vectorised | None:
        return None if self.change is None else self._tried("change")

    def _tried(self, key: str) -> Vectorised:
        value = getattr(self, key)
        if isinstance(value, str):
            value = Expression(value, self.taps, key)
        if not callable(value):
            right = 'give a function of x, an expression or a place: "./mine.py:f"'
            raise InputError(key, f"is {value!r}", right)
        some = np.arange(5)
        laws = self.laws(Seeds(0), some)
        x = self.source.alone(Seeds(0), "probe", some, laws, PROBES).x
        return vectorised(value, x, f"stream.{key}")


LONGEST, MOST = 2000, 250  # characters and parts of an expression

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
OPERATORS: dict[type[ast.AST], Any] = {
    ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide,
    ast.Pow: lambda a, b: a**b,  # the operator is faster for small whole powers
    ast.UAdd: np.positive, ast.USub: np.negative,
    ast.Lt: np.less, ast.LtE: np.less_equal, ast.Gt: np.greater, ast.GtE: np.greater_equal,
    ast.Eq: np.equal, ast.NotEq: np.not_equal,
}  # fmt: skip
HINTS: dict[type[ast.AST], str] = {
    ast.BitXor: "write a power as **",
    ast.IfExp: "write where(x1 > 0, a, b)",
    ast.BoolOp: "multiply conditions for and: (x1 > 0) * (x2 > 0)",
    ast.Subscript: "write x1, x2, ... for the inputs",
    ast.Attribute: "write sin, not np.sin",
}


class Expression:
    """f as a line of text, read by walking its syntax tree, never executed.

    Only what stands in the tables above has a meaning. Numbers are floating-point from the start,
    so that no power of integers can grow.

    >>> Expression("where(x1 > 0, x1**2, -x2)", taps=2)(np.array([[3.0, 1.0], [-1.0, 4.0]]))
    array([ 9., -4.])
    """

    def __init__(self, text: str, taps: int, field: str = "f") -> None:
        self.taps, self.field = taps, field
        line = " ".join(text.split())
        right = "write an expression of x1, x2, ..., as in sin(3*x1) + x2, or a file: './mine.py:f'"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of strange syntax, which is refused below
                self.tree = ast.parse(line[:LONGEST], mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise self._wrong(f"is {_short(line)!r}, which cannot be read", right) from None
        parts = sum(isinstance(node, ast.expr) for node in ast.walk(self.tree))
        if len(line) > LONGEST or parts > MOST:
            raise self._wrong("is too long to be an expression", "use a file: './mine.py:f'")
        self(np.zeros((1, taps)))  # what has no meaning is found now

    def __call__(self, x: Array) -> Array:
        """f(x) [...]."""
        with np.errstate(all="ignore"):
            value = self._value(self.tree, x)
        return np.broadcast_to(np.asarray(value, x.dtype), x.shape[:-1])

    def _wrong(self, found: str, right: str) -> InputError:
        return InputError(self.field, found, right)

    def _value(self, node: ast.AST, x: Array) -> Any:
        """A Python number where x does not matter: these leave float32 as it is."""
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            function, parts = float, [float(str(node.value))]  # a huge one is infinite
        elif isinstance(node, ast.Name):
            return self._name(node.id, x)
        else:
            function, inner = self._applied(node)
            parts = [self._value(part, x) for part in inner]
        if not all(isinstance(part, float) for part in parts):
            return function(*parts)
        value = float(function(*map(np.float64, parts)))
        if not np.isfinite(value):
            found = f"has {_short(ast.unparse(node).replace(' ', ''))}, which is {value}"
            raise self._wrong(found, "use finite numbers")
        return value

    def _name(self, name: str, x: Array) -> Any:
        if name in CONSTANTS:
            return CONSTANTS[name]
        inputs = [f"x{i + 1}" for i in range(self.taps)]
        if name in inputs:
            return x[..., inputs.index(name)]
        if re.fullmatch(r"x\d*", name):
            found = f"uses {_short(name)}, but taps is {self.taps}"
            raise self._wrong(found, f"use x1 to x{self.taps}, or raise taps")
        right = nearest(name, [*inputs, *CONSTANTS, *FUNCTIONS])
        raise self._wrong(f"has {_short(name)}, which has no meaning", right)

    def _applied(self, node: ast.AST) -> tuple[Any, list[ast.expr]]:
        """The function that a node stands for, and the parts that it is applied to."""
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return OPERATORS[type(node.op)], [node.left, node.right]
        if isinstance(node, ast.UnaryOp) and type(node.op) in OPERATORS:
            return OPERATORS[type(node.op)], [node.operand]
        if isinstance(node, ast.Compare) and all(type(op) in OPERATORS for op in node.ops):
            return _chain([OPERATORS[type(op)] for op in node.ops]), [node.left, *node.comparators]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return self._named(node, node.func.id), node.args
        kinds = [type(node), *(type(part) for part in ast.iter_child_nodes(node))]
        usual = "use numbers, x1, x2, ..., + - * / **, comparisons and functions"
        right = next((HINTS[kind] for kind in kinds if kind in HINTS), usual)
        raise self._wrong(f"has {_short(ast.unparse(node))}, which has no meaning here", right)

    def _named(self, node: ast.Call, name: str) -> Any:
        if name not in FUNCTIONS:
            right = nearest(name, list(FUNCTIONS))
            raise self._wrong(f"has {_short(name)}(...), which has no meaning", right)
        count, function = FUNCTIONS[name]
        if len(node.args) != count or node.keywords:
            found = f"gives {name} {len(node.args) + len(node.keywords)} values"
            raise self._wrong(found, f"give it {count}, without names")
        return function


def _chain(operators: list[Any]) -> Any:
    """a < b < c, as Python reads it."""

    def compare(*parts: Any) -> Any:
        pairs = zip(operators, parts, parts[1:], strict=False)
        found = [operator(a, b) for operator, a, b in pairs]
        return found[0] if len(found) == 1 else np.logical_and.reduce(found)

    return compare


def _short(text: str) -> str:
    return text if len(text) < 40 else text[:30] + "..."
