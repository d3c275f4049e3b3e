"""The ONNX graph, by onnxruntime, and the JSON file against the product's own predictions."""

import json

import numpy as np
import pytest

from helpers import ROOT
from helpers.extra import Extra
from helpers.pages import blocks
from psofed.core.features import Cosines
from psofed.streams.data.columns import Columns, Missing
from psofed.streams.data.recipe import Recipe
from psofed.tables import export as formats
from psofed.tables.export import portable
from psofed.tables.export.portable import Portable

onnx, runtime = Extra("onnx"), Extra("onnxruntime")


@pytest.fixture(scope="module")
def predict():
    """The whole of a reader of the JSON file, as the page has it."""
    page = blocks(ROOT / "docs" / "tables.md")
    (text,) = (block.text for block in page if "def predict(" in block.text)
    found = {}
    exec(text.partition("row = ")[0], found)
    return found["predict"]


def answers(data, asked, rows=slice(None)):
    session = runtime.InferenceSession(data, providers=["CPUExecutionProvider"])
    numbers, texts = asked.numbers[rows], asked.texts[rows]
    feed = {name: np.array([[row[name]] for row in numbers], np.float32) for name in numbers[0]}
    feed |= {name: np.array([[row[name]] for row in texts], object) for name in texts[0]}
    assert {i.name for i in session.get_inputs()} == set(feed)
    return session.run(None, feed)[0][:, 0]


@pytest.fixture(scope="module")
def graph(fitted):
    return formats.render(formats.load(fitted.path, command="psofed deploy export it"), "onnx")


def test_the_graph_says_what_the_product_says_and_nothing_where_it_says_nothing(fitted, graph):
    found = answers(graph, fitted.asked)
    row = int(np.flatnonzero(np.isfinite(fitted.mean))[0])
    assert answers(graph, fitted.asked, slice(row, row + 1)) == pytest.approx(found[row])
    assert fitted.said_by(found)


def test_a_client_has_a_graph_of_its_own_model(fitted):
    for name in fitted.model.clients:
        data = formats.render(formats.load(fitted.path, name), "onnx")
        rows = np.array([key[0] == name for key in fitted.asked.keys])
        error = np.abs(answers(data, fitted.asked) - fitted.own)[rows]
        assert np.nanmax(error) < 1e-5 * fitted.scale


def test_the_kernel_is_four_nodes_in_float32_and_the_file_says_how_it_was_made(fitted, graph):
    model = onnx.load_from_string(graph)
    onnx.checker.check_model(model, full_check=True)
    kinds = [node.op_type for node in model.graph.node]
    begin = kinds.index("Gemm")
    assert kinds[begin:] == ["Gemm", "Cos", "Mul", "MatMul", "Gemm", "Add", "Mul", "Add"]
    types = {onnx.TensorProto.DataType.Name(t.data_type) for t in model.graph.initializer}
    assert types <= {"FLOAT", "INT64"}
    about = {p.key: p.value for p in model.metadata_props}
    assert "psofed deploy export it" in about["made_by"]
    meanings = json.loads(about["inputs"])
    assert "24 ticks (86400 s) ago" in meanings["temperature[-24]"]
    assert "since 1970" in meanings["sin hour"]
    assert "no memory" in model.doc_string
    again = formats.load(fitted.path, command="psofed deploy export it")
    assert formats.render(again, "onnx") == graph


@pytest.mark.parametrize(
    "columns",
    [
        {"inputs": ("a",)},
        {"inputs": ("a",), "missing": {"a": "indicator"}},
        {"inputs": ("sky",)},
        {"inputs": ("sky", "b"), "missing": {"*": "indicator"}, "markers": ("-1", "none")},
        {"inputs": (), "calendar": ("hour",)},
        {"inputs": (), "target_lags": (2,)},
        {"inputs": ("a", "psofed/x", "psofed//y")},
    ],
)
def test_a_recipe_with_inputs_of_one_kind_works_too(columns, predict):
    """The graph against the JSON file, for present, missing, marked, unknown and far values.

    Pressure in pascals: its deviations are far smaller than its value, and float32 has few digits.
    """
    centre, scale = 101325.37, 120.0
    recipe = Recipe(
        Columns("y", ("t",), **columns),
        {n: (centre, scale) for n in (*columns["inputs"], "y") if n != "sky"},
        {"sky": ("blue", "grey")} if "sky" in columns["inputs"] else {},
        calendar=True,
    )
    entries = portable.entries(recipe)
    g = np.random.Generator(np.random.PCG64(3))
    cosines = Cosines(*(g.standard_normal(s).astype(np.float32) for s in ((7, len(entries)), 7)))
    missing = Missing(recipe.columns.markers)
    texts, numbers = tuple(missing.texts), tuple(missing.values)
    w, line = (g.standard_normal(n).astype(np.float32) for n in (7, len(entries) + 1))
    model = Portable("it", entries, cosines, w, line, "y", 1.0, 2.0, absent=texts, markers=numbers)
    file = json.loads(formats.render(model, "json"))
    session = runtime.InferenceSession(formats.render(model, "onnx"))
    near, high = (float(np.float32(centre + scale * v)) for v in (-0.4, 2.0))
    for value, text in ((near, "grey"), (np.nan, "blue"), (-1.0, "?"), (1e9, "none"), (high, "")):
        value = 0.3 if "calendar" in columns else value  # a sine
        names = [a.name for a in model.arguments if not a.is_text]
        given = dict.fromkeys(names, value), {"sky": text}
        feed = {name: np.array([[value]], np.float32) for name in names}
        feed |= {a.name: np.array([[text]], object) for a in model.arguments if a.is_text}
        found, wanted = session.run(None, feed)[0][0, 0], predict(file, *given)
        assert np.isnan(found) == np.isnan(wanted)
        assert np.isnan(found) or abs(found - wanted) < 1e-5 * max(1, abs(wanted))


def test_fifteen_lines_of_numpy_say_what_the_product_says(fitted, predict):
    model = formats.load(fitted.path, command="psofed deploy export x")
    m = json.loads(formats.render(model, "json"))
    assert "psofed deploy export x" in m["made_by"]
    np.testing.assert_array_equal(np.array(m["W"], np.float32), model.features.W)
    assert max(len(repr(v)) for v in m["w"]) <= 14
    rows = zip(fitted.asked.numbers, fitted.asked.texts, strict=True)
    found = np.array([predict(m, numbers, texts) for numbers, texts in rows])
    assert fitted.said_by(found)
