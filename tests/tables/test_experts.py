"""The mix over a table against plain loops: no label is used early, and what is saved is the mix."""

from dataclasses import dataclass

import numpy as np
import pytest

from helpers.extra import Extra
from helpers.small_tables import table_of
from psofed.core import alone, mixing
from psofed.core.features import LINE as LABEL
from psofed.core.features import extended
from psofed.errors import InputError
from psofed.methods import local, onlinefed, psofed
from psofed.stages import mix as stage
from psofed.tables import backtest, experts, fitting, model
from psofed.tables.experts import (
    HABITS,
    LAST,
    LEANING,
    LINE,
    MEAN,
    MEANS,
    MODELS,
    OWN,
    RIDGE,
    SEASON,
    SHARED,
    START,
    Mixture,
)
from psofed.tables.plan import Plan

pd = Extra("pandas")
CLIENTS, ROUNDS = 3, 2000
DIM, TAPS = 12, 2
QUARTERS = [f"quarter {i}" for i in range(4)]  # of the part for choosing


def drawn(seed=0, silence=True):
    """x [K, N, L] and y [K, N]: labels are missing, rows too (infinite), and once all for long."""
    g = np.random.default_rng(seed)
    x = g.uniform(-1, 1, (CLIENTS, ROUNDS, TAPS))
    n = np.arange(ROUNDS)
    y = np.sin(3 * x[..., 0]) + 0.5 * x[..., 1] + np.sin(2 * np.pi * n / 24)
    y += 0.3 * np.cumsum(g.standard_normal(y.shape), axis=1) / np.sqrt(1 + n)
    y[g.random(y.shape) < 0.1] = np.nan
    y[g.random(y.shape) < 0.1] = np.inf
    if silence:
        y[:, 330:1300] = np.inf  # longer than a block, from the middle of one
    y[:, [0, -1]] = 0.1
    return x, y


def plan_of(table, delay=0, **options):
    settings = {"dim": DIM, "width": 1.0, "step": 0.4, "compare": False, "cohort": 2, "season": 24}
    options = {"methods": (psofed.Options(4),)} | settings | options
    return Plan(table.columns, label_delay=delay, **options)


@dataclass(frozen=True, eq=False)
class Played:
    """A back-test, and what each kind of model, and the mix, said in each part [N, K]."""

    plan: Plan
    rounds: object
    span: object
    mix: Mixture
    scores: object
    season: int
    said: dict

    @property
    def saved(self):
        return fitting.saved(self.rounds, self.plan, self.mix, self.scores, self.season)


def played(table, plan):
    span = fitting.spans(table, plan)
    rounds = fitting.sampled(table, plan, span)
    contenders = fitting.line_up(rounds, plan, span.first)
    mix = contenders[0]
    said = {}

    class Heard(Mixture):
        """Keeps what is said."""

        def play(self, lot, span):
            found = super().play(lot, span)
            for part in ("prequential", *span.overlap(lot.first, len(lot.y))):
                shape = (span.stop, rounds.clients)
                names = self.online if part == "prequential" else self.still
                guesses = {"mix": found[part]["global"]} if part in found else {}
                heard = np.moveaxis(self._guesses(part, names), -1, 0)
                guesses |= dict(zip(names, heard, strict=True))
                for name, values in guesses.items():
                    whole = said.setdefault((part, name), np.full(shape, np.nan))
                    whole[lot.first : lot.first + len(lot.y)] = values
            return found

    mix.__class__ = Heard
    season = fitting.season(table, plan)
    scores = backtest.run(rounds, contenders, plan.label_delay, span, None, 1, season)
    return Played(plan, rounds, span, mix, scores, season, said)


def known_last(y, n, delay, otherwise=0.0):
    """The last label of a client that is known in round n; otherwise the mean, or what is given."""
    before = y[: max(n - max(delay, 1) + 1, 0)]
    labels = before[np.isfinite(before)]
    return labels[-1] if len(labels) else otherwise


def inputs(done, x):
    """u = (z, c x, c) of inputs whose scale is one."""
    x = x.astype(np.float32)
    return extended(fitting.draw(done.plan, done.rounds.recipe)(x).astype(np.float64), x)


def by_hand(done, k, x, y):
    """What the experts of client k and its mix answer in each round, from plain loops; by name."""
    span, delay, u = done.span, done.plan.label_delay, inputs(done, x)
    found = {name: np.full(len(y), np.nan) for name in ("mix", LINE, RIDGE, LAST, SEASON)}
    learned, memory = alone.Alone(1, DIM, TAPS), mixing.start(len(stage.EXPERTS))
    trust, asked, count = np.array(stage.TRUST), {}, 0
    for n in range(span.stop):
        late = n - delay
        label = y[late] if late >= 0 and np.isfinite(y[late]) else np.nan
        row = learned.follow(0, u[n : n + 1], u[late : late + 1], np.array([label]))[0]
        if n < span.first:
            count += np.isfinite(label)
            continue
        found[LINE][n], found[RIDGE][n] = row
        found[LAST][n] = known_last(y, n, delay)
        ago = n - done.season + max(delay, 1)
        found[SEASON][n] = known_last(y, ago, delay, otherwise=found[LAST][n])
        own, start = (done.said["prequential", name][n, k] for name in (OWN, START))
        guesses = np.array([own, start, *row, found[LAST][n], found[SEASON][n]])
        few = count < np.array([TAPS + 1, 1, 1, 1, 1, 1])
        guesses[few] = start if done.mix.player.start[k].any() else own
        count += np.isfinite(label)
        if y[n] != np.inf:  # it has a sample
            found["mix"][n] = mixing.weights(memory, trust) @ guesses
            asked[n] = guesses
        if np.isfinite(label) and late in asked:
            mixing.learn(memory, trust, asked[late], found["mix"][late], np.array(label))
    return found


@pytest.mark.parametrize("delay", [0, 3])
def test_the_mix_and_its_experts_are_what_plain_loops_make_of_the_labels_known_by_then(
    tmp_path, delay
):
    x, y = drawn()
    y[2, :1300] = np.inf  # joins after the silence
    table = table_of(tmp_path, x, y)
    done = played(table, plan_of(table, delay))
    assert done.mix.player.start.any(axis=1).tolist() == [False, False, True]
    assert not np.isfinite(done.said["prequential", "mix"][1000]).any(), "blocks are left out"
    for k in range(CLIENTS):
        wanted = by_hand(done, k, x[k], y[k])
        there = np.isfinite(wanted["mix"])
        assert 500 < there.sum() < 900
        for name, values in wanted.items():
            found = done.said["prequential", name][:, k]
            np.testing.assert_allclose(found[there], values[there], atol=2e-5, err_msg=name)


@pytest.mark.parametrize("use", ["frozen", "live"])
@pytest.mark.parametrize("delay", [0, 3])
@pytest.mark.parametrize("part", ["choice", "frozen"])
def test_no_label_is_used_before_it_is_known(tmp_path, delay, use, part):
    x, y = drawn(silence=False)
    one = played(table_of(tmp_path, x, y), plan_of(table_of(tmp_path, x, y), delay, use=use))
    n = one.span.parts[part][0] - delay  # the labels before this round are known when it begins
    other = np.where(np.arange(ROUNDS) < n, y, 0.5 - 3 * y)
    table = table_of(tmp_path, x, np.where(np.isinf(y), np.inf, other))
    two = played(table, plan_of(table, delay, use=use))
    same = n + max(delay, 1)
    for key, values in one.said.items():
        np.testing.assert_array_equal(values[:same], two.said[key][:same], str(key))
    for key in ("prequential", "mix"), ("prequential", LAST), ("prequential", RIDGE):
        assert np.abs(one.said[key] - two.said[key])[same:].max() > 0.01
    begun = list(one.span.parts)[: list(one.span.parts).index(part) + 1]
    for name in begun:  # a frozen model, and its weights, do not change in their part
        np.testing.assert_array_equal(one.mix.weights[name], two.mix.weights[name])
        if use == "frozen":
            np.testing.assert_array_equal(one.said[name, "mix"], two.said[name, "mix"])
    assert np.abs(one.mix.trust() - two.mix.trust()).max() > 0.01


def trusted(done, y):
    """The weights of the saved model: best for all that frozen models said of labels by now."""
    return best_for(done, y, [*QUARTERS, "frozen"])


def best_for(done, y, parts):
    """The weights that would have been best in these parts, with labels that are known by then."""
    span, still, p, labels = done.span, done.mix.still, [], []
    for part in (part for part in parts if (part, OWN) in done.said):  # else all were silent
        begin, end = span.freezes[part]
        stop = span.stop if part == "frozen" else span.frozen
        here = slice(begin, min(end, stop - done.plan.label_delay))
        guesses, known = [done.said[part, name] for name in still], np.isfinite(y.T[here])
        p.append(np.stack(guesses, axis=-1)[here][known])
        labels.append(y.T[here][known])
    p, labels = np.concatenate(p), np.concatenate(labels)
    return dict(zip(still, best_of_both(still, p, labels), strict=True))


def best_of_both(names, p, labels):
    """Weights where all lean on the mean of all, or none does."""
    found = []
    for other in (MODELS, LEANING + MEANS):
        some = [i for i, name in enumerate(names) if name not in other]
        a = np.zeros(len(names))
        a[some] = mixing.stacked(p[:, some].T @ p[:, some], labels @ p[:, some])
        found.append(a)
    return min(found, key=lambda a: np.square(p @ a - labels).sum())


@pytest.mark.parametrize("use", ["frozen", "live"])
def test_the_saved_model_is_the_weighted_sum_of_all_models_after_the_last_label(tmp_path, use):
    x, y = drawn()
    delay = 3
    table = table_of(tmp_path, x, y)
    done = played(table, plan_of(table, delay, use=use))
    a = trusted(done, y)
    n, habits = (4, HABITS) if use == "live" else (2, ())
    some = MODELS[:n] + LEANING[:n] + MEANS[: n // 2]
    assert list(a) == [OWN, *some, SHARED, MEAN, *habits]
    labelled = (*MODELS[2:], *LEANING[2:], *HABITS)
    assert (sum(a.get(name, 0) for name in labelled) > 0.3) == (use == "live")
    assert done.saved.title == "Mix with PSO-Fed M=4 uncoordinated"
    found, player = done.saved.predict(tmp_path / "made.csv"), done.mix.player
    rows = np.full(y.T.shape, np.nan)
    rows[(y != np.inf).T] = found
    late = {LAST: delay, SEASON: done.season}
    u = [inputs(done, x[k]) for k in range(CLIENTS)]
    older = [
        np.array([[known_last(y[k], n - d + delay, delay, known_last(y[k], n, delay))
                   for d in late.values()] for n in range(ROUNDS)])
        for k in range(CLIENTS)
    ]  # fmt: skip
    solved = solved_by_hand(y, u, older, delay)
    for k in range(CLIENTS):
        wanted = u[k][:, :DIM] @ (a[OWN] * player.own[k] + a[SHARED] * player.shared)
        both = np.hstack([u[k], LABEL * older[k]])
        for name in MODELS + LEANING + MEANS:
            wanted += a.get(name, 0) * (both[:, where(name)] @ solved[name][k])
        if use == "live":
            wanted += older[k] @ [a[name] for name in late]
        there = (y[k] != np.inf) & (np.arange(ROUNDS) >= done.season)
        np.testing.assert_allclose(rows[there, k], wanted[there], atol=2e-4)


def where(name):
    """The columns of (z, x, 1, older labels) that a model uses."""
    n = DIM + TAPS + 1
    return slice(0 if "ridge" in name else DIM, n + 2 if "labels" in name else n)


def solved_by_hand(y, u, older, delay):
    """Models of all clients [K, n] by name: alone, leaning on the mean of all, and this mean."""
    found, rho = {}, np.full(DIM + TAPS + 3, alone.RIDGE_LINE)
    rho[:DIM] = alone.RIDGE
    for name, leaning in zip(MODELS, LEANING, strict=True):
        rows = []
        for label, inner, past in zip(y, u, older, strict=True):
            known = np.isfinite(label)
            known[ROUNDS - delay :] = False
            U = np.hstack([inner, LABEL * past])[known][:, where(name)]
            rows.append((U.T @ U, U.T @ label[known], len(U)))
        p = len(rows[0][1])
        w = [np.linalg.solve(A + np.diag(rho[where(name)]), q) for A, q, _ in rows]
        mean = np.average(w, axis=0, weights=[count / (count + p) for *_, count in rows])
        square = np.diag(sum(A for A, *_ in rows)) / sum(count for *_, count in rows)
        T = np.diag(np.maximum(p * square, rho[where(name)]))
        found[name], found[f"{name}, mean of all"] = w, [mean] * CLIENTS
        found[leaning] = [mean + np.linalg.solve(A + T, q - A @ mean) for A, q, _ in rows]
    return found


def test_the_part_not_used_for_any_choice_is_predicted_with_weights_of_those_before(tmp_path):
    x, y = drawn(silence=False)
    table = table_of(tmp_path, x, y)
    done = played(table, plan_of(table, 3))
    a = best_for(done, y, QUARTERS)
    np.testing.assert_allclose(done.mix.weights["frozen"], list(a.values()), atol=1e-6)
    late = slice(done.span.frozen, None)
    wanted = sum(weight * done.said["frozen", name][late] for name, weight in a.items())
    np.testing.assert_allclose(done.said["frozen", "mix"][late], wanted, atol=1e-6)


@pytest.mark.parametrize("use", ["frozen", "live"])
def test_the_step_is_one_with_which_clients_err_little_by_their_own_models(tmp_path, use):
    x = np.random.default_rng(0).uniform(-1, 1, (4, 1500, TAPS))
    y = np.sin(3 * x[..., 0]) * np.array([1, -1, 1, -1])[:, None]  # to all, 0 says as much as any
    table = table_of(tmp_path, x, y)
    plan = plan_of(table, step=None, warmup=0.4, use=use)
    span = fitting.spans(table, plan)
    found = fitting.tuned(fitting.sampled(table, plan, span), plan, span, fitting.silent)
    assert found.step >= 0.2


def errors_of(fit):
    titles = [score.title for score in fit.scores.scores]
    return {title: fit.scores.error(j, "frozen") for j, title in enumerate(titles)}


@pytest.mark.parametrize("method", [psofed.Options(4), onlinefed.Options(), local.Options()])
def test_a_method_that_diverges_leaves_the_mix_as_good_as_without_it(tmp_path, method):
    x, y = drawn(silence=False)
    table = table_of(tmp_path, x, y)
    found = {}
    for step in (1e-12, 50.0):
        done = fitting.fit(table, plan_of(table, 3, step=step, methods=(method,)))
        found[step] = errors_of(done)
        done.save(tmp_path / "m.psofed")
        assert np.isfinite(model.load(tmp_path / "m.psofed").own).all()
        assert np.nanmax(np.abs(done.predict(tmp_path / "made.csv"))) < 10
    still, diverged = found.values()
    title = method.title()
    assert not diverged[title] < 1e6
    assert diverged[f"Mix with {title}"] < 1.02 * still[f"Mix with {title}"]


@pytest.mark.parametrize("use", ["frozen", "live"])
def test_a_model_that_is_worse_than_the_mean_is_not_saved_unless_it_is_forced(tmp_path, use):
    x, y = drawn(silence=False)
    y[:, 1400:] = np.where(np.isinf(y[:, 1400:]), np.inf, -y[:, 1400:])
    table = table_of(tmp_path, x, y)
    done = fitting.fit(table, plan_of(table, use=use))
    assert done.error > 1
    with pytest.raises(InputError, match=r"model leaves .* more than the mean .* force=True"):
        done.save(tmp_path / "m.psofed")
    assert not (tmp_path / "m.psofed").exists()
    fitting.fit(table, plan_of(table, use=use, force=True)).save(tmp_path / "m.psofed")
    assert model.load(tmp_path / "m.psofed").title == done.model.title


@pytest.mark.parametrize("value", [0.3, 0.0])
def test_a_constant_target_is_predicted_although_nothing_is_over_its_variance(tmp_path, value):
    x, y = drawn(silence=False)
    table = table_of(tmp_path, x, np.where(np.isfinite(y), value, y))
    for use in ("frozen", "live"):
        done = fitting.fit(table, plan_of(table, 3, use=use))
        assert not done.refused
        assert not np.isfinite(done.error)
        found = done.predict(tmp_path / "made.csv")
        assert np.nanmax(np.abs(found - value)) < 0.01


def test_one_client_and_a_client_without_any_label(tmp_path):
    x, y = drawn(silence=False)
    table = table_of(tmp_path, x[:1], y[:1])
    assert fitting.fit(table, plan_of(table)).error < 0.7
    y[2][np.isfinite(y[2])] = np.nan
    table = table_of(tmp_path, x, y)
    done = fitting.fit(table, plan_of(table))
    assert done.error < 0.7
    assert done.model.own[2][DIM:].any(), "it has what others have learned"
    frame = pd.read_csv(tmp_path / "made.csv")
    assert np.isfinite(done.predict(frame)[frame.who == "c2"]).all()


def test_many_clients_with_few_rows_have_fewer_cosines_each_in_bounded_memory(tmp_path):
    g = np.random.default_rng(0)
    x = g.uniform(-1, 1, (2000, 12, TAPS))
    y = x[..., 0] - 0.5 * x[..., 1] + 0.1 * g.standard_normal((2000, 12))
    table = table_of(tmp_path, x, y)
    plan = plan_of(table, dim=200, methods=(onlinefed.Options(),), season=None)
    done = played(table, plan)
    line = done.mix.free.line
    assert line.size == int(np.sqrt(experts.NUMBERS / 2000)) - TAPS - 1 < 200
    assert line.models.A.size <= experts.NUMBERS
    assert done.saved.own.shape == (2000, 200 + TAPS + 1)
    assert done.scores.error(0, "frozen") < 0.7


def test_a_live_model_follows_labels_that_go_far_beyond_the_warm_up(tmp_path):
    """A random walk: the saved model is as good as its score says, and as the last label."""
    g = np.random.default_rng(0)
    y = np.cumsum(g.standard_normal((2, 1200)), axis=1)
    table = table_of(tmp_path, g.standard_normal((2, 1200, TAPS)), y)
    done = fitting.fit(table, Plan(table.columns, dim=DIM, use="live", season=5))
    found = done.predict(tmp_path / "made.csv").reshape(1200, 2).T
    late = slice(done.span.frozen, None)
    last = np.square(y[:, late] - y[:, done.span.frozen - 1 : -1]).mean()
    assert np.abs(y[:, late]).max() > 6 * np.abs(y[:, : done.span.first]).std()
    assert np.square(found - y)[:, late].mean() < 1.2 * last


def test_few_rows_tell_a_straight_line(tmp_path):
    g = np.random.default_rng(1)
    x = g.standard_normal((3, 60, 2))
    y = x @ [2.0, -1.0] + 0.2 * g.standard_normal((3, 60))
    table = table_of(tmp_path, x, y)
    done = fitting.fit(table, Plan(table.columns, dim=DIM))
    assert done.error < 0.03
