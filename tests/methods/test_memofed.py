"""MEMO-Fed: what it reduces to, what it costs, and that nothing makes its two ends disagree."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import battery
from psofed.core import coding
from psofed.core.features import guess, whitened
from psofed.core.seeds import Seeds
from psofed.experiment import Experiment, Features
from psofed.federation.clients import stacked
from psofed.fleet.protocol import in_memory
from psofed.fleet.protocol.client import Client
from psofed.fleet.protocol.server import Server
from psofed.methods import memofed
from psofed.methods.memo import server
from psofed.methods.memo.messages import DAMP, Curvature, Values
from psofed.simulate import any_method
from psofed.simulate.onerun import one_run
from psofed.streams import paper


def small(options, **changes):
    usual = {"rounds": 60, "features": Features(dim=12, width=1.5)}
    return battery.small(options, **usual | changes)


def prepare(experiment):
    method, draws = battery.prepare(experiment)
    return method, draws, *battery.samples(draws)


def models(options, **changes):
    return battery.exchange(small(options, **changes)).models


POOR = [(0.1, 0.0), (10.0, 0.0), (0.3, 0.9)]  # guesses of spread and correlation
EXACT = {"budget": None, "bits": None, "silent": 0}


def test_one_client_that_is_heard_often_has_the_ridge_regression_of_its_samples():
    options = memofed.Options(**EXACT, size=6, ridge=0.5)
    method, draws, x, y = prepare(small(options, clients=1, cohort=1, rounds=400))
    *_, last = any_method.play(method, any_method.RunSamples(draws))
    u = method.task.features(x[0]) @ method.T
    ridge = np.linalg.solve(u.T @ u + np.diag(method.prior), u.T @ y[0])
    assert np.abs(last.server["c"] - ridge).max() < 1e-2 * np.abs(ridge).max()
    gradient = u.T @ y[0] - u.T @ u @ ridge - method.prior * ridge
    assert np.abs(gradient).max() < 1e-9


def test_what_travels_in_four_bits_ends_where_exact_values_end():
    coarse = memofed.Options(budget=None, size=8)
    exact = memofed.Options(**EXACT, size=8)
    a, b = (models(o, rounds=300)[-1] for o in (coarse, exact))
    assert np.linalg.norm(a - b) < 0.02 * np.linalg.norm(b)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_companding_keeps_signs_and_is_right_to_half_a_level(bits):
    rng = np.random.default_rng(bits)
    for scale in 10.0 ** np.arange(-3, 4):
        v = scale * rng.standard_normal(50)
        back = coding.expand(coding.compand(v, bits), bits)
        assert (np.sign(back) == np.sign(v)).all()
        top, half = 2 ** (np.ceil(4 * np.log2(np.abs(v).max())) / 4), 2 ** (bits - 1)
        worst = np.abs(np.sqrt(np.abs(back) / top) - np.sqrt(np.abs(v) / top)).max()
        assert worst <= 0.5 / half + 1e-12
    assert not coding.expand(coding.compand(np.zeros(3), bits), bits).any()


@pytest.mark.parametrize("budget", [5.0, 12.0, 25.0])
def test_the_bytes_spent_are_never_more_than_the_bytes_saved_up(budget):
    options = memofed.Options(budget=budget, size=8)
    method, _, x, y = prepare(small(options, rounds=200, clients=8, cohort=3))
    spent = in_memory.run(method, x, y).traffic[:, :2].sum(axis=1).cumsum()
    allowed = budget * np.arange(1, 201)
    assert (spent <= allowed).all()
    assert spent[-1] >= allowed[-1] - 60


def test_a_contact_costs_what_the_specification_says():
    experiment = Experiment(runs=1, rounds=10, methods=(memofed.Options(least=1),))
    (method,) = experiment.start(experiment.task(0))
    client, server, k = stacked(method.client(), 1), method.server(), np.array([0])
    z = method.task.features(np.zeros((1, 1, 4), "float32"))
    for contact in range(1, 9):
        method.learn(client, np.ones((1, 1, 4)), z, np.ones((1, 1)))
        down = method.download(server, k, contact)
        method.receive(client, k, contact, down)
        up = method.upload(client, k, contact)
        told = contact in (1, 4)
        assert len(method.encode(up.row(0), True)) == 41 + 12 * told
        assert len(method.encode(down.row(0), False)) == (1 if contact == 1 else 41)
        method.fold(server, k, contact, up, np.ones(1))


def hostile(x):
    """Inputs of two values, nothing like the guess."""
    return 2 * np.tanh(20 * x) + 0.1 * x


@pytest.mark.parametrize("too_small", [4.0, 20.0])
def test_a_curvature_that_is_far_too_small_is_noticed_and_mended(too_small, monkeypatch):
    right = Curvature.matrix
    monkeypatch.setattr(Curvature, "matrix", lambda *given: right(*given) / too_small)

    def end():
        options = memofed.Options(budget=None, size=12)
        method, _, x, y = prepare(small(options, rounds=300, clients=4))
        with np.errstate(all="ignore"):
            return np.abs(in_memory.run(method, hostile(x), y).models[-1]).max()

    assert end() < 100
    monkeypatch.setattr(server, "SAFE", 0.0)  # kappa does not grow
    assert end() > 1e4


@pytest.mark.parametrize("signal", [True, False])
def test_moments_give_back_the_curvature_of_gaussian_inputs(signal):
    features = small(memofed.Options()).draw_features(Seeds(0))
    law = guess(4, 0.8, 0.3)
    T, _ = whitened(features.correlation(np.zeros(4), law), 6)
    known = Curvature(features, T, law)
    mean = np.full(4, 0.4) if signal else np.array([0.1, -0.3, 0.5, 0.0])
    told = known.moments(mean, law + np.outer(mean, mean), signal)
    assert len(told) == known.numbers(signal) == (5 if signal else 14)
    expected = T.T @ features.correlation(mean, law) @ T + DAMP * np.eye(6)
    assert np.allclose(known.matrix(told, 1e9), expected, atol=5e-3)


def test_columns_that_are_no_signal_are_told_as_columns():
    features, chance = small(memofed.Options()).draw_features(Seeds(0)), np.random.default_rng(0)
    law = guess(4, 1.0, 0.5)
    T, _ = whitened(features.correlation(np.zeros(4), law), 12)
    known = Curvature(features, T, law)
    unlike = np.diag([4.0, 0.01, 0.01, 0.01])
    for covariance, count, numbers in ((law, 500, 5), (unlike, 500, 14), (unlike, 5, 5)):
        x = chance.multivariate_normal([0.0] * 4, covariance, count)
        u = features(x) @ T
        told = known.reported(x.mean(0), x.T @ x / count, count, u.T @ u / count)
        assert len(told) == numbers


def test_a_guess_of_the_inputs_that_is_far_off_ends_where_a_good_one_ends():
    poor = [{"spread": s, "correlation": c, "label": f"{s} {c}"} for s, c in POOR]
    methods = tuple(memofed.Options(budget=160.0, **guess) for guess in ({}, *poor))
    experiment = Experiment(
        clients=10, rounds=800, runs=1, methods=methods, evaluate_every=100, test_samples=500
    )
    good, *others = 10 * np.log10(one_run(experiment, 0).mse[:, -1])
    assert good < -10
    assert np.abs(np.array(others) - good).max() < 0.5


@pytest.mark.parametrize("size", [1, 2, 3, 6, 80, 121, 200])
def test_a_client_waits_until_its_unknowns_are_more_than_the_numbers_it_sends(size):
    least, taps = memofed.Options(size=size).floor(200), 4
    unknowns = [2 * n + taps - 1 for n in (least - 1, least)]  # of a signal, and labels
    sent = size + 1 + taps
    assert unknowns[0] <= sent < unknowns[1]
    assert memofed.Options(size=size).floor(10) == memofed.Options(size=min(size, 10)).floor(200)


def with_gaps(y, seed):
    """Labels of which many are missing: the first client has none for long, the last has few."""
    luck = np.random.default_rng(seed)
    y = np.where(luck.random(y.shape) < 0.3, np.nan, y)
    y[0, :50] = np.nan
    y[-1, luck.random(y.shape[1]) < 0.9] = np.nan
    return y


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_both_ends_agree_on_the_references_whatever_is_lost_or_missing(seed, gaps):
    options = memofed.Options(budget=None, size=6, **{"least": 15, "silent": 0} if gaps else {})
    method, _, x, y = prepare(small(options, rounds=120, clients=4))
    y = with_gaps(y, seed) if gaps else y
    clients = [Client(method, k, in_memory.source(x[k], y[k])) for k in range(4)]
    ours, luck, lost = Server(method), np.random.default_rng(seed), 0.2 if gaps else 0.3
    few = spent = agreed = 0
    for n in range(120):
        for k, invitation in ours.invite().items():
            if luck.random() < lost:
                continue  # the invitation is lost
            answer = clients[k].take_part(n, invitation)
            if gaps:
                enough = np.count_nonzero(~np.isnan(y[k, : n + 1])) >= 15
                assert enough == (len(answer) > 1)
            if luck.random() < lost:
                continue  # the answer is lost
            assert ours.collect(k, n, answer) == "accepted"
            few, spent = few + (len(answer) == 1), spent + len(answer) + len(invitation)
        before = ours.state["contacts"].copy()
        heard = {k: len(answer) > 1 for k, answer in ours.answers.items()}
        ours.commit()
        for k, counts in heard.items():
            agreed += counts
            assert ours.state["contacts"][k] == before[k] + counts == clients[k].state["contacts"]
            told = {name: array[0] for name, array in clients[k].state.items()}
            assert np.allclose(ours.state["r"][k], told["r"], rtol=1e-9, atol=1e-9)
            gradient = np.linalg.solve(told["V"], told["h"])
            assert np.allclose(ours.state["g"][k], gradient, rtol=1e-9, atol=1e-9)
    assert ours.state["spent"] == spent
    assert few > 5 if gaps else (few == 0 and agreed > 50)
    if not gaps:
        u = method.task.features(x) @ method.T
        A, q = np.einsum("kna,knb->ab", u, u), np.einsum("kna,kn->a", u, y)
        ridge = np.linalg.solve(A + method.prior, q)
        assert np.linalg.norm(ours.state["c"] - ridge) < 0.2 * np.linalg.norm(ridge)


@pytest.mark.parametrize("stream", [paper.Options(at=300), paper.Options(period=1500)])
def test_what_forgets_follows_an_f_that_changes(stream):
    both = [memofed.Options(size=30, budget=60.0, forget=beta) for beta in (1.0, 0.98)]
    made = Experiment(
        clients=20, cohort=4, rounds=500, runs=1, test_samples=300, features=Features(dim=60),
        evaluate_every=50, methods=tuple(both), stream=stream,
    )  # fmt: skip
    remembers, forgets = 10 * np.log10(one_run(made, 0).mse[:, -1])
    assert forgets < remembers - 1


@given(st.sampled_from([None, 2, 4, 7]), st.sampled_from([(3,), (6, 15)]), st.booleans(),
       st.binary(max_size=24))  # fmt: skip
def test_bytes_that_nobody_can_have_sent_are_refused(bits, moments, up, data):
    values = Values(3, bits, "float16", moments)
    try:
        message = values.decode(data, up)
    except ValueError:
        return
    assert values.encode(message, up) == data
    assert len(data) in ((values.uploaded(len(message)),) if up else (1, values.nbytes(up)))


def test_a_message_is_refused_with_a_byte_more_or_less_and_with_bits_that_mean_nothing():
    values = Values(3, 4, "float32", (5,))
    sent = np.append(values.quantise(np.array([1.0, -2.0, 0.5])), np.zeros(5))
    data = values.encode(sent, up=True)
    odd, padded = bytes([data[0] | 1]) + data[1:], data[:2] + bytes([data[2] | 1]) + data[3:]
    for wrong in (b"", data[:-2], data + b"\0", odd, padded):
        with pytest.raises(ValueError, match=r"byte|bits"):
            values.decode(wrong, up=True)
