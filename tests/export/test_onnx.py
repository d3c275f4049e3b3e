"""The ONNX graph against the product's own predictions, by onnxruntime."""

import json
from dataclasses import replace

import numpy as np
import pytest

from helpers.extra import Extra
from helpers.json_reader import predict
from psofed.core.features import Waves
from psofed.errors import InputError
from psofed.streams.data.columns import Columns, Missing
from psofed.streams.data.recipe import Recipe
from psofed.tables import export as formats
from psofed.tables.export import portable
from psofed.tables.export.portable import Portable

onnx, runtime = Extra("onnx"), Extra("onnxruntime")


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
    row = int(np.flatnonzero(np.isfinite(fitted.shared))[0])
    assert answers(graph, fitted.asked, slice(row, row + 1)) == pytest.approx(found[row])
    np.testing.assert_array_equal(np.isnan(found), np.isnan(fitted.shared))
    assert np.nanmax(np.abs(found - fitted.shared)) < 1e-5 * fitted.scale


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
    assert kinds[begin:] == ["Gemm", "Cos", "Mul", "MatMul", "Mul", "Add"]
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


def test_a_large_centre_loses_no_digits(fitted):
    """Pressure in pascals: its deviations are far smaller than its value."""
    model = formats.load(fitted.path)
    first = replace(model.entries[0], centre=101325.37, scale=120.0)
    moved = replace(model, entries=(first, *model.entries[1:]))
    row = int(np.flatnonzero(np.isfinite(fitted.shared))[0])
    old = model.entries[0]
    x = np.float64((fitted.asked.numbers[row]["temperature"] - old.centre) / old.scale)
    value = np.float32(101325.37 + 120 * x)
    changed = [dict(n) for n in fitted.asked.numbers]
    changed[row]["temperature"] = float(value)
    again = [dict(n) for n in fitted.asked.numbers]
    again[row]["temperature"] = (float(value) - 101325.37) / 120 * old.scale + old.centre
    pick = slice(row, row + 1)
    found = answers(formats.render(moved, "onnx"), replace(fitted.asked, numbers=changed), pick)
    wanted = answers(formats.render(model, "onnx"), replace(fitted.asked, numbers=again), pick)
    assert abs(found[0] - wanted[0]) < 1e-5 * fitted.scale


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
def test_a_recipe_with_inputs_of_one_kind_works_too(columns):
    """The graph against the JSON file, for present, missing, marked, unknown and far values."""
    recipe = Recipe(
        Columns("y", ("t",), **columns),
        {n: (3.0, 2.0) for n in (*columns["inputs"], "y") if n != "sky"},
        {"sky": ("blue", "grey")} if "sky" in columns["inputs"] else {},
        calendar=True,
    )
    entries = portable.entries(recipe)
    g = np.random.Generator(np.random.PCG64(3))
    waves = Waves(*(g.standard_normal(s).astype(np.float32) for s in ((7, len(entries)), 7)))
    missing = Missing(recipe.columns.markers)
    texts, numbers = tuple(missing.texts), tuple(missing.values)
    w = g.standard_normal(7).astype(np.float32)
    model = Portable("it", entries, waves, w, "y", 1.0, 2.0, absent=texts, markers=numbers)
    file = json.loads(formats.render(model, "json"))
    session = runtime.InferenceSession(formats.render(model, "onnx"))
    for value, text in ((1.5, "grey"), (np.nan, "blue"), (-1.0, "?"), (30.0, "none"), (2.0, "")):
        names = [a.name for a in model.arguments if not a.is_text]
        given = dict.fromkeys(names, value), {"sky": text}
        feed = {name: np.array([[value]], np.float32) for name in names}
        feed |= {a.name: np.array([[text]], object) for a in model.arguments if a.is_text}
        found, wanted = session.run(None, feed)[0][0, 0], predict(file, *given)
        assert np.isnan(found) == np.isnan(wanted)
        assert np.isnan(found) or abs(found - wanted) < 1e-5


def test_without_the_package_it_says_what_to_install(fitted, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(InputError, match=r"need onnx; pip install '\.\[onnx\]'"):
        formats.render(formats.load(fitted.path), "onnx")
