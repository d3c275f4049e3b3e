"""The compiled library: what it is made of, what it agrees with, and psofed without it."""

import ctypes
import os
import runpy
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import psofed
from helpers.plain import uncompiled
from psofed.core import native
from psofed.simulate import kernel
from psofed.simulate.onerun import one_run
from psofed.tables import player

ROOT = Path(__file__).parents[2]
compiled = pytest.mark.skipif(not native.available(), reason="nothing is compiled here")
both = pytest.mark.parametrize("dtype", ["float32", "float64"])
METHODS = (  # with a few entries, some, and so many that they are a mask
    psofed.OnlineFed(),
    *(psofed.PSOFed(m, s) for s in ("coordinated", "uncoordinated") for m in (1, 5, 20)),
)


def experiment(dtype):
    return psofed.Experiment(
        clients=12, rounds=150, runs=1, cohort=3, dtype=dtype, test_samples=100,
        features=psofed.Features(dim=27), methods=METHODS,
    )  # fmt: skip


HEADER = """
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#define NAME(name) name
#include "job.h"
#define TO(type, word) type *: word "*", const type *: word "*"
#define KIND(field) _Generic((field), int64_t: "int", double: "float", TO(float, "float32"), \\
    TO(double, "float64"), TO(int64_t, "int64"), TO(int32_t, "int32"), TO(uint8_t, "uint8"), \\
    TO(int8_t, "int8"), default: "tuple")
#define SAY(type, field) printf("%s %s %zu %zu %s\\n", #type, #field, offsetof(type, field), \\
    sizeof(((type *)0)->field), KIND(((type *)0)->field));
"""


@compiled
@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@both
def test_every_field_of_a_struct_is_where_c_has_it(dtype, tmp_path, monkeypatch):
    """Name, offset, size and kind of each; and the size of all, where C has one more at the end."""
    given, struct, body, expected = [], native.struct, "", []
    monkeypatch.setattr(native, "struct", lambda values: [given.append(values), struct(values)][1])
    one_run(experiment(dtype), 0)
    method = experiment(dtype).start(experiment(dtype).task(0))[1]
    y, z = np.zeros((2, 12), dtype), np.zeros((2, 12, 27), dtype)
    lot = SimpleNamespace(first=0, y=y, fresh=z, z=z)
    given.append(player._script(method, lot, [np.arange(3)] * 2, z[0, 0], z[0], y, y))
    for kind, values in {type(values).__name__: values for values in given}.items():
        structure = native._structure(type(values))
        for name, value in values._asdict().items():
            place, of = getattr(structure, name), type(value).__mro__[-2].__name__
            if isinstance(value, np.ndarray):
                of = f"{value.dtype}*".replace("bool", "uint8")
            expected.append(f"{kind} {name} {place.offset} {place.size} {of}")
            body += f"SAY({kind}, {name})\n"
        expected.append(f"{ctypes.sizeof(structure)}")
        body += f'printf("%zu\\n", sizeof({kind}));\n'
    (tmp_path / "job.c").write_text(f"{HEADER}int main(void) {{ {body} return 0; }}\n")
    real = f"-DREAL={'float' if dtype == 'float32' else 'double'}"
    subprocess.check_call(
        ["gcc", real, "-iquote", native.FOLDER, "job.c", "-o", "job"], cwd=tmp_path
    )
    assert subprocess.check_output([tmp_path / "job"], text=True).splitlines() == expected


@compiled
def test_the_library_was_built_from_the_sources_that_are_here():
    script = runpy.run_path(str(ROOT / "hatch_build.py"))
    assert native.about().split()[0] == script["digest"]()


@compiled
@both
def test_processors_with_long_vectors_give_the_bits_of_those_without(dtype, monkeypatch):
    if native.library().psofed_level() < 2:
        pytest.skip("this processor has no long vectors")
    library, found = native.library, []
    for level in ("v3", "v4"):
        monkeypatch.setattr(native, "library", lambda _=None, level=level: library(level))
        monkeypatch.setattr(native, "function", cache(native.function.__wrapped__))
        found.append(one_run(experiment(dtype), 0).mse)
        assert native.library() is not None
    assert np.array_equal(*found)


@compiled
@both
@pytest.mark.parametrize(("count", "dim", "more"), [(1, 1, 1), (130, 7, 2), (300, 24, 1)])
def test_sums_of_products_are_those_of_numpy(dtype, count, dim, more):
    generator = np.random.default_rng(0)
    z = generator.normal(size=(count, dim + 1)).astype(dtype)[:, :dim]
    y = generator.normal(size=(count, more))
    found = kernel.products(z, y)
    with uncompiled():
        expected = kernel.products(z, y)
    assert np.abs(np.triu(found - expected)).max() <= 1e-12 * count


def test_a_library_of_other_sources_is_refused_and_not_used(tmp_path):
    here = tmp_path / "psofed"
    shutil.copytree(native.FOLDER.parents[1], here, ignore=shutil.ignore_patterns("__pycache__"))
    (here / "core" / "native" / "rounds.h").write_text("/* changed since it was compiled */")
    done = subprocess.run(
        [sys.executable, "-m", "psofed", "reproduce", "--runs", "1", "--out", "r"],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2
    assert "was compiled from other sources than are here; install psofed again" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "r").exists()
