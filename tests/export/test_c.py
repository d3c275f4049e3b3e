"""The C header, compiled by gcc, against the product's own predictions."""

import re
import struct
import subprocess
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from psofed.tables import export as formats
from psofed.tables.export import c_header, portable

FLAGS = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1")
MAIN = """
#include <stdio.h>
#include "mine.h"
int main(void)
{
    float raw[MINE_RAW_INPUTS];
    while (fread(raw, sizeof raw, 1, stdin) == 1) {
        float y = mine_predict_raw(raw);
        fwrite(&y, sizeof y, 1, stdout);
    }
    return 0;
}
"""


def build(gcc, folder, header, main):
    (folder / "mine.h").write_bytes(header)
    (folder / "main.c").write_text(main)
    done = subprocess.run([gcc, *FLAGS, "main.c", "-o", "it", "-lm"], cwd=folder,
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder / "it"


def test_the_header_says_what_the_product_says(fitted, gcc, tmp_path):
    model = formats.load(fitted.path)
    header = formats.render(model, "c", "mine")
    program = build(gcc, tmp_path, header, MAIN)
    texts = [e.text for e in model.entries if e.kind == "category"]
    code = {text: i for i, text in enumerate(texts)} | {"": np.nan}
    rows = [
        [code.get(words[a.name], -1) if a.is_text else numbers[a.name] for a in model.arguments]
        for numbers, words in zip(fitted.asked.numbers, fitted.asked.texts, strict=True)
    ]
    sent = np.array(rows, np.float32).tobytes()
    said = subprocess.run([program], input=sent, capture_output=True, check=True).stdout
    found = np.frombuffer(said, np.float32)
    assert fitted.said_by(found)


def test_names_and_texts_of_any_kind_become_c(fitted, gcc, tmp_path):
    """Columns and texts are the user's: quotes, comments, other scripts."""
    model = formats.load(fitted.path)
    odd = {"temperature": "*/ int x; /*", "wind": "??/", "traffic": "Verkehr (Kfz/h) ä\\"}
    texts = iter(['E"\\', "Süd??-", "北", "*/"])
    entries = []
    for e in model.entries:
        for old, new in odd.items():
            e = replace(e, name=e.name.replace(old, new), column=e.column.replace(old, new))
        entries.append(replace(e, text=next(texts)) if e.kind == "category" else e)
    strange = replace(model, entries=tuple(entries), command="psofed deploy export '*/' --to c")
    header = formats.render(strange, "c", "mine")
    assert b'0 for E"/, 1 for S/xfcd? ?-, 2 for /u5317, 3 for * /' in header
    build(gcc, tmp_path, header, MAIN)


def test_scaled_inputs_and_two_models_in_one_program(fitted, gcc, tmp_path):
    """Identifiers have a prefix, so that a program can have several models."""
    mean, own = formats.load(fitted.path), formats.load(fitted.path, "hill")
    (tmp_path / "other.h").write_bytes(formats.render(own, "c", "other"))
    main = """
#include <stdio.h>
#include "mine.h"
#include "other.h"
int main(void)
{
    float x[MINE_INPUTS], y[2];
    if (fread(x, sizeof x, 1, stdin) != 1) return 1;
    y[0] = mine_predict(x);
    y[1] = other_predict(x);
    fwrite(y, sizeof y, 1, stdout);
    return 0;
}
"""
    program = build(gcc, tmp_path, formats.render(mean, "c", "mine"), main)
    x = np.linspace(-2, 2, len(mean.entries)).astype(np.float32)
    said = subprocess.run([program], input=x.tobytes(), capture_output=True, check=True).stdout
    for model, found in zip((mean, own), struct.unpack("ff", said), strict=True):
        sum = model.features(x) @ model.w + np.append(x, 1.0) @ model.line
        wanted = sum * model.scale + model.centre
        assert abs(found - wanted) < 1e-5 * fitted.scale
    assert np.abs(mean.w - own.w).max() > 1e-3
    assert np.abs(mean.line - own.line).max() > 1e-3


@given(st.text(" -_.aZ09éß北", max_size=12))
def test_any_file_name_gives_an_identifier(text):
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", c_header.identifier(text))


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_number_in_the_files_is_the_number_of_the_model(value):
    (shown,) = portable.short(np.array([value], np.float32))
    assert np.float32(shown) == np.float32(value)
    assert re.search(r"[.e]", repr(shown))  # C takes no `1f`
