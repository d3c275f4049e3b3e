"""Intervals over a table: what is promised is kept by every client, and nothing is seen early."""

import json

import numpy as np
import pytest

from helpers.extra import Extra
from psofed.core.conformal import LEVELS
from psofed.errors import InputError
from psofed.methods import local
from psofed.report import fits
from psofed.tables import fitting, model
from psofed.tables.intervals import PARTS, Promises, parts
from psofed.tables.plan import Span

pd = Extra("pandas")


def made(count=2400, seed=0, late=1.0):
    """Four clients whose noise differs; from row 1800 on it is `late` times as large."""
    g = np.random.default_rng(seed)
    x = g.uniform(-1, 1, (4, count))
    noise = g.standard_normal((4, count)) * np.array([0.1, 0.3, 0.6, 1.2])[:, None]
    noise[:, 1800:] *= late
    y = np.sin(3 * x) + noise
    rows = [(n, f"c{k}", x[k, n], y[k, n]) for n in range(count) for k in range(4)]
    return pd.DataFrame(rows, columns=["t", "who", "x", "y"])


def fitted(frame, delay=4, methods=(), **options):
    return fitting.fit_table(
        frame, target="y", time="t", client="who", label_delay=delay, dim=30, width=1.0, step=0.1,
        methods=methods, compare=False, **options,
    )  # fmt: skip


@pytest.fixture(scope="module")
def done():
    return fitted(made())


def test_every_client_gets_the_share_that_it_was_promised(done):
    learned = done.scores.intervals
    for level in (0.5, 0.8, 0.9, 0.95):
        assert np.abs(learned.coverage("last", level) - level).max() < 0.035
        widths = learned.width("last", level)
        assert (np.diff(widths) > 0).all(), "noisier clients have wider intervals"
        assert np.abs(widths / learned.constant(level) - 1).max() < 0.2


def test_intervals_that_were_too_narrow_widen_when_labels_show_it():
    learned = fitted(made(late=3.0)).scores.intervals
    first, *_, last = (learned.coverage(part, 0.9) for part in PARTS[2:])
    assert first.max() < last.min() + 0.03
    assert np.abs(last - 0.9).max() < 0.06
    widths = [learned.width(part, 0.9) for part in (PARTS[2], PARTS[5])]
    assert (widths[1] > 1.3 * widths[0]).all()


@pytest.mark.parametrize("delay", [0, 1, 7])
def test_a_radius_knows_no_label_before_it_has_arrived(delay):
    """The errors grow at round 100; the radius promised in round 100 + d is the last small one."""
    span, clients = Span(0, 50, 200), 2
    errors = np.full((200, clients), 0.1)
    errors[100:] = 50.0
    promises = Promises(clients, delay, span)
    found = [promises._follow(np.log(errors[i : i + 64])) for i in range(0, 200, 64)]
    theta = np.concatenate(found)[:, 0, 2]
    assert (np.diff(theta[delay + 1 : 101 + delay]) < 0).all()
    assert theta[101 + delay] > theta[100 + delay]


def test_the_judged_part_is_divided_into_quarters():
    found = np.stack(parts(np.array([99, 100, 125, 150, 199, 200]), Span(0, 100, 200)))
    assert found[:2].tolist() == [[True] * 6, [False, True, True, True, True, False]]
    assert found[2:].argmax(axis=0)[1:5].tolist() == [0, 1, 2, 3]
    assert (found[2:].sum(axis=0) == found[1]).all()


def test_a_saved_model_keeps_its_radii_and_its_promise_on_new_rows(done, tmp_path):
    done.save(tmp_path / "m.psofed")
    again = model.load(tmp_path / "m.psofed")
    new = made(1500, seed=1)
    found = again.predict(new, interval=0.9)
    inside = (found.low <= new.y) & (new.y <= found.high)
    share = inside.groupby(new.who).mean()
    assert share.min() > 0.86
    assert share.max() < 0.98, "it has learned on since its errors were judged"
    assert (again.radius[:, 1:] >= again.radius[:, :-1]).all()


def test_a_client_that_the_model_does_not_know_has_the_largest_radius(done):
    new = made(20).assign(who="stranger", t=np.arange(80))
    found = done.predict(new, interval=0.9)
    widest = 2 * done.model.radius[:, 2].max() * done.recipe.scale[-1]
    np.testing.assert_allclose(found.high - found.low, widest, rtol=1e-5)


def test_a_level_without_a_radius_is_refused(done):
    with pytest.raises(InputError, match=r"interval is 0\.7; use 0\.5, 0\.8"):
        done.predict(made(10), interval=0.7)
    alone = fitted(made(600), methods=(local.Options(),))
    found = alone.predict(made(10), interval=0.9)
    assert (found.low < found.high).all()


def test_the_summary_has_coverage_and_width_by_client_and_part(done):
    summary = fits.summary(done, "")
    json.dumps(summary, allow_nan=False)
    table = summary["intervals"]
    assert [entry["level"] for entry in table["levels"]] == list(LEVELS)
    assert [part["part"] for part in table["levels"][2]["by_part"]] == list(PARTS)
    last = table["levels"][2]["by_part"][1]
    assert last["coverage"] == pytest.approx(summary["scores"][0]["coverage_90"])
    assert [row["coverage_90"] for row in summary["by_client"]] == pytest.approx(last["by_client"])
    assert "Intervals of 0.9, last part:" in fits.interval_line(done)


def test_a_fit_without_a_judged_part_keeps_the_radii_of_its_end():
    done = fitted(made(600), frozen=0.0)
    assert np.isfinite(done.model.radius).all()
    assert not fits.interval_line(done)
    json.dumps(fits.summary(done, ""), allow_nan=False)
    assert done.scores.intervals.coverage("all", 0.9).mean() > 0.8
