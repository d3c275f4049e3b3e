"""Predictions from the JSON file alone."""

import json

import numpy as np

from helpers import ROOT
from helpers.json_reader import predict
from psofed.tables import export as formats
from psofed.tables.export import origin


def test_fifteen_lines_of_numpy_say_what_the_product_says(fitted):
    m = json.loads(
        formats.render(origin.load(fitted.path, command="psofed deploy export x"), "json")
    )
    assert "psofed deploy export x" in m["made_by"]
    rows = zip(fitted.asked.numbers, fitted.asked.texts, strict=True)
    found = np.array([predict(m, numbers, texts) for numbers, texts in rows])
    np.testing.assert_array_equal(np.isnan(found), np.isnan(fitted.shared))
    assert np.nanmax(np.abs(found - fitted.shared)) < 1e-5 * fitted.scale


def test_numbers_are_short_and_exact(fitted):
    model = origin.load(fitted.path)
    m = json.loads(formats.render(model, "json"))
    np.testing.assert_array_equal(np.array(m["W"], np.float32), model.features.W)
    np.testing.assert_array_equal(np.array(m["w"], np.float32), model.w)
    assert max(len(repr(v)) for v in m["w"]) <= 14
    centres = {e["name"]: e["centre"] for e in m["inputs"] if "centre" in e}
    assert centres["temperature"] == fitted.model.recipe.centre[0]


def test_the_reader_of_the_page_is_the_one_that_is_tested():
    def body(text):
        return text.split("    x = []\n")[1].split("(z @ m")[0]

    page, code = (ROOT / path for path in ("docs/tables.md", "tests/helpers/json_reader.py"))
    assert body(page.read_text(encoding="utf-8")) == body(code.read_text(encoding="utf-8"))
