from dataclasses import replace

import first_upload
import numpy as np
import pytest
from first_upload import upload

from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.privacy.inversion import READ, invert, spread


@pytest.mark.parametrize("more", [{}, {"bits": 8}])
def test_a_first_upload_of_one_sample_is_that_sample(more):
    method, message, x, y = upload(1, **more)
    found = invert(first_upload.problem(method, message, 1), Seeds(0).generator("luck"), 16, 1)
    assert found.fits
    assert np.abs(found.x - x).max() < READ
    assert (
        np.abs(first_upload.labels(method, found.x, found.a, np.zeros(method.size)) - y).max() < 0.2
    )


def test_the_moments_add_equations_that_fit():
    method, message, x, y = upload(3)
    problem = first_upload.problem(method, message, 3)
    assert problem.equations == 80 + 5
    u = np.empty(6)
    u[problem.layout] = x
    misses, _ = problem.clue(x)
    assert np.abs(misses).max() < 3
    without = replace(problem, clue=None, clues=0)
    assert spread(problem, u, y / 3).max() < spread(without, u, y / 3).max()


def test_the_default_floor_leaves_few_samples_determined():
    method, message, x, y = upload(42, least=None)
    assert method.options.floor(200) == 42
    problem = first_upload.problem(method, message, 42)
    u = np.empty(45)
    u[problem.layout] = x
    assert (spread(problem, u, y / 42) <= READ).mean() < 0.1


def test_an_upload_without_values_is_refused():
    method, _, _, _ = upload(1)
    with pytest.raises(InputError, match="no values"):
        first_upload.problem(method, np.empty(0), 1)


@pytest.mark.parametrize("signal", [True, False])
def test_slopes_of_the_moments_are_those_of_differences(signal):
    luck = Seeds(0).generator("x")
    clue = first_upload._moments(luck.standard_normal(5 if signal else 14), 4, signal)
    x = luck.standard_normal((3, 4))
    _, slopes = clue(x)
    for place in np.ndindex(3, 4):
        nudge = np.zeros((3, 4))
        nudge[place] = 1e-6
        around = (clue(x + nudge)[0] - clue(x - nudge)[0]) / 2e-6
        assert np.allclose(slopes[place], around, rtol=1e-4, atol=1e-4 * np.abs(slopes).max())


def test_the_example_prints_how_many_samples_are_found(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["first_upload.py", "--samples", "1", "--clients", "2"])
    first_upload.main()
    assert capsys.readouterr().out == "1 samples, 85 equations, 5 unknowns: 100 % are found\n"
