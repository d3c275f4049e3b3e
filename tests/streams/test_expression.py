"""Expressions: what NumPy makes of them, and nothing else."""

import ast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psofed.errors import InputError
from psofed.streams.function import FUNCTIONS, Expression

X = np.random.default_rng(0).normal(size=(7, 3))
NAMES = {name: function for name, (_, function) in FUNCTIONS.items()}
NUMBERS = st.sampled_from(["0", "1", "2", "0.5", "1.5e-1", "3", "pi", "e"])


def joined(parts):
    pair = st.tuples(parts, parts)
    return st.one_of(
        pair.flatmap(lambda p: st.sampled_from([f"({p[0]} {op} {p[1]})" for op in "+-*/"])),
        parts.flatmap(lambda p: st.sampled_from([f"{n}({p})" for n in ("sin", "exp", "abs")])),
        pair.map(lambda p: f"maximum({p[0]}, {p[1]})"),
        parts.map(lambda p: f"(-{p})**2"),
        st.tuples(parts, parts, parts).map(lambda p: f"where(0 < {p[0]} <= 2, {p[1]}, {p[2]})"),
    )


EXPRESSIONS = st.recursive(
    st.one_of(NUMBERS, st.sampled_from(["x1", "x2", "x3"])), joined, max_leaves=12
)


def by_python(text):
    """What Python makes of it, with NumPy's functions; comparisons in a chain are not NumPy's."""

    class Chains(ast.NodeTransformer):
        def visit_Compare(self, node):
            self.generic_visit(node)
            low, middle, high = node.left, node.comparators[0], node.comparators[1]
            both = [
                ast.Compare(a, [op], [b])
                for a, op, b in ((low, node.ops[0], middle), (middle, node.ops[1], high))
            ]
            return ast.BinOp(both[0], ast.BitAnd(), both[1])

    tree = ast.fix_missing_locations(Chains().visit(ast.parse(text, mode="eval")))
    inputs = {f"x{i + 1}": X[:, i] for i in range(3)}
    constants = {"pi": np.float64(np.pi), "e": np.float64(np.e)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            node.value = float(node.value)
    with np.errstate(all="ignore"):
        return eval(compile(tree, "", "eval"), {}, NAMES | inputs | constants)


def refusal(text):
    try:
        Expression(text, taps=3)
    except InputError as error:
        return str(error)


@given(EXPRESSIONS)
def test_an_expression_is_what_numpy_makes_of_it(text):
    if said := refusal(text):
        assert "use finite numbers" in said  # some part of it has no x, and is not finite
        return
    try:
        wanted = np.broadcast_to(by_python(text), 7)
    except ZeroDivisionError:  # of Python's own numbers, in a branch that where() does not take
        return
    with np.errstate(all="ignore"):
        assert np.array_equal(Expression(text, taps=3)(X), wanted, equal_nan=True)


def test_precision_and_shape_are_those_of_the_inputs():
    f = Expression("0.1*x1 + where(x2 > 0, 2, x3**2) + pi", taps=3)
    x = X.astype(np.float32).reshape(7, 1, 3)
    assert f(x).dtype == np.float32
    assert f(x).shape == (7, 1)
    assert Expression("2", taps=3)(X).tolist() == [2.0] * 7


REFUSED = {
    "9**9**9 + x1": "f has 9**9**9, which is inf; use finite numbers",
    "1/0": "f has 1/0, which is inf",
    "x1**" + "9" * 400: "which is inf; use finite numbers",
    "x1.real": "f has x1.real, which has no meaning here; write sin, not np.sin",
    "np.sin(x1)": "write sin, not np.sin",
    "().__class__.__bases__[0].__subclasses__()": "has no meaning here",
    "__import__('os').system('true')": "has no meaning here",
    "open('/etc/passwd')": "f has open(...), which has no meaning",
    "x[0]": "write x1, x2, ... for the inputs",
    "[x1 for x1 in x2]": "has no meaning here",
    "(x1 := 3)": "has no meaning here",
    "f'{x1}'": "has no meaning here",
    "x1 if x1 > 0 else 0": "write where(x1 > 0, a, b)",
    "x1 and x2": "multiply conditions",
    "x1 ^ 2": "write a power as **",
    "x1 @ x2": "has no meaning here",
    "sin(*x1)": "has no meaning here",
    "sin(x=x1)": "f gives sin 1 values; give it 1, without names",
    "sin()": "f gives sin 0 values; give it 1, without names",
    "sine(x1)": "did you mean 'sin'?",
    "x4 + x1": "f uses x4, but taps is 3; use x1 to x3, or raise taps",
    "x0": "use x1 to x3",
    "x1; x2": "which cannot be read",
    "": "f is '', which cannot be read",
    "x1 +": "which cannot be read",
    "'x1'": "has 'x1', which has no meaning here",
    "True": "has True, which has no meaning here",
    "1j*x1": "has no meaning here",
    "...": "has no meaning here",
    "(" * 500 + "x1" + ")" * 500: "which cannot be read",
    "-" * 300 + "x1": "f is too long to be an expression",
    "+".join(["x1"] * 400): "f is too long to be an expression",
}  # fmt: skip


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:30])
def test_everything_else_is_refused_at_once(text):
    with pytest.raises(InputError) as error:
        Expression(text, taps=3)
    assert REFUSED[text] in str(error.value)
    assert len(str(error.value)) < 400


@given(st.text(max_size=60))
def test_any_text_is_an_expression_or_refused(text):
    try:
        f = Expression(text, taps=2)
    except InputError:
        return
    with np.errstate(all="ignore"):
        assert f(X[:, :2]).shape == (7,)


def test_an_expression_may_go_over_several_lines_and_its_error_does_not():
    x = np.array([[1.0, 2.0]])
    assert Expression("x1\n    + x2", 2)(x).tolist() == [3.0]
    with pytest.raises(InputError) as refused:
        Expression("x1\nx2", 2)
    assert "is 'x1 x2', which cannot be read" in str(refused.value)
