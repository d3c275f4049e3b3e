from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from psofed.audit import memo
from psofed.audit.inversion import READ, invert, spread
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.experiment import Experiment
from psofed.methods import memofed
from psofed.simulate.draws import draw


def first(count, client=0, **options):
    """The first upload of a client after so many samples, from its bytes; and the samples."""
    chosen = memofed.Options(**{"least": 1} | options)
    experiment = Experiment(
        rounds=max(count, 2), runs=1, seed=3, dtype="float64", methods=(chosen,)
    )
    task = experiment.task(0)
    method = memofed.Method(chosen, task)
    (chunk,) = draw(experiment, task, everybody=True).chunks()
    x, y, state = chunk.x[client, :count], chunk.y[client, :count], method.client(client)
    method.absorb(state, x, task.features(x), y)
    method.receive(state, client, 0, np.empty(0))
    sent = method.values.encode(method.upload(state, client, 0), up=True)
    return method, method.values.decode(sent, up=True), x, y


@pytest.mark.parametrize("more", [{}, {"curvature": "unit", "bits": 8}, {"inputs": "columns"}])
def test_a_first_upload_of_one_sample_is_that_sample(more):
    method, message, x, y = first(1, **more)
    found = invert(memo.puzzle(method, message, 1), Seeds(0).generator("luck"), 16, 1)
    assert found.fits
    assert np.abs(found.x - x).max() < READ
    assert np.abs(memo.labels(method, found.x, found.a, np.zeros(method.size)) - y).max() < 0.2


def test_the_moments_add_equations_that_fit():
    method, message, x, y = first(3)
    puzzle = memo.puzzle(method, message, 3)
    assert puzzle.equations == 80 + 5
    u = np.empty(6)
    u[puzzle.layout] = x
    misses, _ = puzzle.clue(x)
    assert np.abs(misses).max() < 3
    without = replace(puzzle, clue=None, clues=0)
    assert spread(puzzle, u, y / 3).max() < spread(without, u, y / 3).max()


def test_the_default_floor_leaves_few_samples_determined():
    method, message, x, y = first(42, least=None)
    assert method.options.floor(200) == 42
    puzzle = memo.puzzle(method, message, 42)
    u = np.empty(45)
    u[puzzle.layout] = x
    assert (spread(puzzle, u, y / 42) <= READ).mean() < 0.1


def test_an_upload_without_values_is_refused():
    method, _, _, _ = first(1)
    with pytest.raises(InputError, match="no values"):
        memo.puzzle(method, np.empty(0), 1)


@pytest.mark.parametrize("signal", [True, False])
def test_slopes_of_the_moments_are_those_of_differences(signal):
    luck = Seeds(0).generator("x")
    clue = memo._moments(luck.standard_normal(5 if signal else 14), 4, signal)
    x = luck.standard_normal((3, 4))
    _, slopes = clue(x)
    for place in np.ndindex(3, 4):
        nudge = np.zeros((3, 4))
        nudge[place] = 1e-6
        around = (clue(x + nudge)[0] - clue(x - nudge)[0]) / 2e-6
        assert np.allclose(slopes[place], around, rtol=1e-4, atol=1e-4 * np.abs(slopes).max())
