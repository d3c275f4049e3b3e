"""What a client learns alone: in blocks of any length, the same as solving the equations by hand."""

import numpy as np
import pytest

from psofed.core import alone
from psofed.core.features import LINE

SIZE, TAPS = 4, 2


def drawn(rounds, seed):
    """Samples to predict, samples whose labels arrive, and these labels: some rounds have none."""
    g = np.random.default_rng(seed)
    z, x = g.standard_normal((2, rounds, SIZE + 3)), g.standard_normal((2, rounds, TAPS))
    fresh, known = alone.inputs(z, x, SIZE)
    y = known @ g.standard_normal(SIZE + TAPS + 1) + 0.1 * g.standard_normal(rounds)
    return fresh, known, np.where(g.random(rounds) < 0.4, np.nan, y)


def ridge(u, y):
    """w that minimises |U w - y|^2 + w^T P w, as a least squares problem of longer vectors."""
    penalty = np.full(u.shape[1], alone.RIDGE_LINE)
    if u.shape[1] > TAPS + 3:  # not those of a line alone
        penalty[:SIZE] = alone.RIDGE
    rows = np.vstack([u, np.diag(np.sqrt(penalty))])
    return np.linalg.lstsq(rows, np.append(y, np.zeros(u.shape[1])))[0]


def by_hand(fresh, known, y):
    """Predictions round by round, and how many labels each model had that made one."""
    count, due, w, said, solved_with = 0, 1, np.zeros((2, fresh.shape[1])), [], []
    us, ys = [], []
    for row, u, label in zip(fresh, known, y, strict=True):
        said.append(w @ row)
        if np.isnan(label):
            continue
        us.append(u)
        ys.append(label)
        count += 1
        if count == due:
            all_u, all_y = np.array(us), np.array(ys)
            line = ridge(all_u[:, SIZE:], all_y)
            w = np.stack([np.append(np.zeros(SIZE), line), ridge(all_u, all_y)])
            due = count + max(count // 16, 1)
            solved_with.append(count)
    return np.array(said), solved_with


@pytest.mark.parametrize("cuts", [(), (1, 2, 17, 40, 41, 180), range(1, 300)])
def test_blocks_of_any_length_predict_as_a_loop_that_solves_the_equations_when_due(cuts):
    models = alone.Alone(2, SIZE, TAPS)
    for k in range(2):
        fresh, known, y = drawn(300, k)
        wanted, solved_with = by_hand(fresh, known, y)
        parts = (np.split(each, cuts) for each in (fresh, known, y))
        found = [models.follow(k, *part) for part in zip(*parts, strict=True)]
        np.testing.assert_allclose(np.concatenate(found), wanted, atol=1e-9)
        assert solved_with[:17] == [*range(1, 17), 17]
        assert len(solved_with) < 70 < models.count[k] == np.isfinite(y).sum()


def test_at_the_end_both_models_know_all_labels_and_the_line_uses_no_cosine():
    models = alone.Alone(1, SIZE, TAPS)
    fresh, known, y = drawn(90, 3)
    models.follow(0, fresh, known, y)
    u, labels = known[~np.isnan(y)], y[~np.isnan(y)]
    line, both = models.solved()[0]
    np.testing.assert_allclose(both, ridge(u, labels), atol=1e-9)
    np.testing.assert_allclose(line[SIZE:], ridge(u[:, SIZE:], labels), atol=1e-9)
    assert not line[:SIZE].any()


def test_models_with_older_labels_are_those_of_longer_vectors():
    _, known, y = drawn(200, 5)
    older = np.cumsum(np.random.default_rng(6).standard_normal((200, 2)), axis=0)
    u, longer = ~np.isnan(y), alone.inputs(known[:, :SIZE], known[:, SIZE:-1] / LINE, SIZE, older)
    models = alone.Alone(1, SIZE, TAPS, 2)
    models.follow(0, longer, longer, y)
    found, without = models.solved()[0], alone.solved(known[u].T @ known[u], known[u].T @ y[u], 2)
    np.testing.assert_allclose(found[:2, :-2], without, atol=1e-9)
    np.testing.assert_allclose(found[3], ridge(longer[u], y[u]), atol=1e-9)
    np.testing.assert_allclose(found[2, SIZE:], ridge(longer[u, SIZE:], y[u]), atol=1e-9)
    assert not found[2, :SIZE].any()
    assert not found[:2, -2:].any()


def test_a_client_leans_on_the_mean_of_all_as_on_a_label_more_for_each_coefficient():
    models, rows = alone.Alone(3, SIZE, TAPS), []
    for k, count in enumerate((0, 5, 200)):
        _, known, y = drawn(count, k)
        models.follow(k, known, known, y)
        rows.append((known[~np.isnan(y)], y[~np.isnan(y)]))
    either, found, means = np.split(models.frozen(), [2, 4], axis=1)
    square = np.mean(np.vstack([u for u, _ in rows]) ** 2, axis=0)
    few = models.count[:, None] < [TAPS + 1, SIZE + TAPS + 1]
    assert few.tolist() == [[True, True], [False, True], [False, False]]
    np.testing.assert_array_equal(either, np.where(few[..., None], found, models.solved()))
    for model, first in ((0, SIZE), (1, 0)):
        p = SIZE + TAPS + 1 - first
        share = [len(y) / (len(y) + p) for _, y in rows]
        mean = np.average(models.solved()[:, model, first:], axis=0, weights=share)
        more = np.diag(np.sqrt(p * square[first:]))  # rows of which the mean is sure
        for k, (u, y) in enumerate(rows):
            both = np.vstack([u[:, first:], more]), np.append(y, more @ mean)
            wanted = np.linalg.lstsq(*both)[0]
            np.testing.assert_allclose(found[k, model, first:], wanted, atol=1e-9)
    np.testing.assert_allclose(found[0, 1], mean, atol=1e-9)
    np.testing.assert_allclose(means, np.tile(mean, (3, 1, 1)), atol=1e-9)  # of the ridge
    far = np.abs(found[:, 1] - models.solved()[:, 1]).max(axis=1)
    assert far[2] < 0.1 * far[1]


def test_a_client_without_labels_predicts_the_mean():
    models = alone.Alone(1, SIZE, TAPS)
    fresh, known, y = drawn(20, 4)
    assert not models.follow(0, fresh, known, np.full_like(y, np.nan)).any()
    assert not models.solved().any()


def test_inputs_are_the_first_cosines_then_the_line_and_its_constant():
    z, x = np.arange(7.0)[None], np.array([[2.0, -1.0]])
    wanted = [0.0, 1.0, 2.0, 3.0, 2 * LINE, -LINE, LINE]
    assert alone.inputs(z, x, SIZE)[0].tolist() == wanted


def test_inputs_far_beyond_reason_leave_equations_that_can_be_solved():
    u = alone.inputs(np.ones((2, SIZE)), np.full((2, TAPS), 9.9e8), SIZE)
    assert np.isfinite(u @ alone.solved(u.T @ u, u.T @ [0.0, 1.0], TAPS).T).all()
