"""Predictions from the JSON file alone."""

import json

import numpy as np

from helpers import ROOT
from helpers.json_reader import predict
from psofed.tables import export as formats


def test_fifteen_lines_of_numpy_say_what_the_product_says(fitted):
    model = formats.load(fitted.path, command="psofed deploy export x")
    m = json.loads(formats.render(model, "json"))
    assert "psofed deploy export x" in m["made_by"]
    np.testing.assert_array_equal(np.array(m["W"], np.float32), model.features.W)
    assert max(len(repr(v)) for v in m["w"]) <= 14
    rows = zip(fitted.asked.numbers, fitted.asked.texts, strict=True)
    found = np.array([predict(m, numbers, texts) for numbers, texts in rows])
    np.testing.assert_array_equal(np.isnan(found), np.isnan(fitted.shared))
    assert np.nanmax(np.abs(found - fitted.shared)) < 1e-5 * fitted.scale


def test_the_reader_of_the_page_is_the_one_that_is_tested():
    def body(text):
        return text.split("    x = []\n")[1].split("(z @ m")[0]

    page, code = (ROOT / path for path in ("docs/tables.md", "tests/helpers/json_reader.py"))
    assert body(page.read_text(encoding="utf-8")) == body(code.read_text(encoding="utf-8"))
