"""Advice with a promise of privacy."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from helpers.command import call
from psofed.data import reading as tables
from psofed.data import warmup
from psofed.data.columns import Columns
from psofed.data.rounds import Rounds
from psofed.errors import InputError
from psofed.experiment import read
from psofed.fit import example, search, with_noise
from psofed.fit.choices import Limits
from psofed.fit.federation import Span
from psofed.fit.plan import Plan
from psofed.methods import onlinefed, psofed
from psofed.privacy.settings import Privacy
from psofed.sample_checks import outliers

PROMISE = Privacy(epsilon=8.0)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(with_noise, "SHARED", (5,))
    monkeypatch.setattr(with_noise, "STEPS", (4,))
    monkeypatch.setattr(with_noise, "PARTS", (1.0, 0.4))
    monkeypatch.setattr(search, "candidates", lambda plan, limits: (psofed.Options(5),))


@pytest.fixture(scope="module")
def rounds():
    path = example.path()
    columns = Columns("pollutant", ("time",), client="station", target_lags=(1, 2))
    table = tables.read(path, columns)
    return Rounds(table, warmup.learn(table, 100)), Plan(columns, dim=30, width=2.0, step=0.4)


@pytest.mark.usefixtures("small")
def test_candidates_with_noise_come_from_the_best_on_and_noise_costs_error(rounds):
    made, plan = rounds
    span = Span(100, 450, 550, 350)
    quiet = lambda title: nullcontext(lambda *_: None)  # noqa: E731
    few, much = (
        with_noise.search(made, plan, span, Limits(), replace(PROMISE, epsilon=e), quiet)
        for e in (0.1, 1000.0)
    )
    assert [c.choice.chosen for c in few] == sorted(c.choice.chosen for c in few)
    assert {type(c.options) for c in few} >= {onlinefed.Options, psofed.Options}
    assert few[0].choice.chosen > much[0].choice.chosen
    assert all(np.isfinite(c.choice.error) for c in (*few, *much))
    with pytest.raises(InputError, match="judges a sample by others"):
        with_noise.search(
            made, replace(plan, check=outliers.Options()), span, Limits(), PROMISE, quiet
        )


def test_who_asks_is_told_what_lags_do_to_the_promise(rounds):
    found = with_noise.doubts(rounds[1], Privacy(epsilon=4.0))
    assert found[1] == "with lags a row is in 3 samples, so it has epsilon 15.1"
    assert len(with_noise.doubts(rounds[1], Privacy(epsilon=4.0, level="client"))) == 1


@pytest.mark.usefixtures("small")
def test_advise_says_what_a_promise_costs_and_writes_a_file_that_keeps_it(tmp_path, monkeypatch):
    monkeypatch.setattr(with_noise, "worthwhile", lambda found, plain: True)
    asked = ("--width", 2, "--step", 0.4, "--dim", 30, "--epsilon", 8, "--json", "--out", "a")
    done = call("advise", "--example", *asked, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["words"][0].startswith("With epsilon 8 at delta 1e-05 for each sample: ")
    assert answer["federate"]
    made = read(tmp_path / "a" / "run.toml")
    best = answer["private"][0]
    assert made.privacy.epsilon == 8.0
    assert made.privacy.clip_error == best["privacy"]["clip_error"]
    assert made.methods[0].step == pytest.approx(best["step"])


def test_a_promise_that_is_none_is_refused(tmp_path):
    done = call("advise", "--example", "--epsilon", 0, cwd=tmp_path)
    assert done.returncode == 2
    assert "--epsilon is 0" in done.stderr
