"""MEMO-Fed with malicious clients: what the defence keeps of them, and what a server refuses."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from psofed import Experiment
from psofed.federation.contract import whole
from psofed.fleet.protocol import folding
from psofed.fleet.protocol.server import Server
from psofed.fleet.protocol.wire import RefusedError
from psofed.methods.memofed import Options as MEMOFed
from psofed.simulate import montecarlo
from psofed.stages.attacks import labels
from psofed.stages.defences import clip
from psofed.stages.surroundings import start

SMALL = Experiment(
    clients=10, cohort=4, rounds=300, runs=2, seed=3, evaluate_every=10, test_samples=200,
    methods=(MEMOFed(size=40),),
)  # fmt: skip
SCALE = 0xFE  # the first byte of an upload: the largest scale that there is


def ended(experiment):
    return montecarlo.run(experiment, 1).mse_db[0][-6:].mean()


@pytest.mark.parametrize("factor", [-1.0, 100.0])
def test_one_client_of_ten_with_wrong_labels_costs_less_than_half_a_decibel(factor):
    clean, attacked = ended(SMALL), replace(SMALL, attack=labels.Options(factor=factor))
    assert ended(attacked) > clean + 2
    assert ended(replace(attacked, defence=clip.Options())) < clean + 0.5


def test_a_defence_that_finds_nobody_far_away_changes_no_bit():
    patient = replace(SMALL, rounds=120, defence=clip.Options(clip=1e9))
    for method in (MEMOFed(size=30), MEMOFed(size=30, forget=0.99)):
        both = [
            montecarlo.run(replace(patient, methods=(method,), defence=defence), 1).mse_db
            for defence in (None, patient.defence)
        ]
        np.testing.assert_array_equal(*both)


def handlers(options, defence=None):
    plan = replace(SMALL, methods=(options,), defence=defence, dtype="float64")
    return start(options, plan.task(0), plan.around)


def told(method, chance, contacts, size=1.0):
    """An upload with values of about this size."""
    values = method.values.quantise(size * chance.normal(size=method.size))
    return np.concatenate([values, usual(method, contacts)])


def usual(method, contacts):
    """What a client with the guessed inputs and a sample in every round tells, where it is due."""
    return [1.0, 0.0, *method.curvature.guess[0]] if method.values.due(contacts) else []


@given(st.integers(0, 2**32), st.sampled_from([1.0, 0.99]), st.floats(0, 1e4))
@settings(max_examples=10)
def test_the_sums_are_those_of_all_clients_by_their_weights(seed, forget, size):
    method = handlers(MEMOFed(size=6, forget=forget, least=1), clip.Options())
    chance, server = np.random.default_rng(seed), method.server()
    for n in range(60):
        k = int(chance.integers(10))
        message = told(method, chance, int(server["contacts"][k]), size if k == 3 else 1.0)
        method.fold(server, np.array([k]), n, whole(message[None]), np.ones(1))
    weight = server["weight"]
    np.testing.assert_allclose(weight, server["trust"] * server["due"], atol=1e-9)
    for name in ("B", "g", "Br"):
        expected = np.tensordot(weight, server[name], 1)
        far = 1e-9 * (1 + size) * (1 + np.abs(weight).sum())
        np.testing.assert_allclose(server[f"sum_{name}"], expected, atol=far)


def served(defence, bound=1e9):
    """A server of exact beginnings: all ten clients were heard a few times."""
    method = handlers(MEMOFed(size=6, least=1, silent=0, budget=None), defence)
    server, chance = Server(method, bound), np.random.default_rng(1)
    for _ in range(40):
        answers(server, chance)
        server.commit()
    return server, chance


def answers(server, chance, liar=None):
    method = server.method
    for k in server.cohort:
        # The gradients of a quadratic with its optimum at 1, and some noise; h_k is what was said.
        r, h, V = (server.state[name][k] for name in ("r", "h", "V"))
        moved = method.values.restore(method.at_server.offer(server.state, k, server.n)[1:])
        contacts = int(server.state["contacts"][k])
        g = 1 - (r + V.T @ moved) + 0.1 * chance.normal(size=method.size)
        values = method.values.quantise(V @ g - h + (moved if contacts else 0))
        data = method.encode(np.concatenate([values, usual(method, contacts)]), up=True)
        server.collect(k, server.n, bytes([SCALE]) + data[1:] if k == liar else data)


def test_values_are_bounded_as_they_are_decoded_not_as_they_travel(monkeypatch):
    server, chance = served(None, bound=1000.0)
    k = server.cohort[0]
    with pytest.raises(RefusedError, match="above 1000") as error:
        answers(server, chance, liar=k)
    assert error.value.reason == "bound"
    assert k not in server._uploads
    monkeypatch.setattr(folding, "model", lambda method, state: np.full(2, -1e4))
    with pytest.raises(RefusedError, match="above 1000"):  # what is sent is small, the model is not
        answers(server, chance)


def test_with_the_defence_the_largest_scale_of_all_moves_nothing():
    stiff = []
    for defence in (None, clip.Options()):
        server, chance = served(defence)
        before, liar = server.state["c"].copy(), server.cohort[0]
        answers(server, chance, liar=liar)
        server.commit()
        stiff.append(float(server.state["kappa"]))
    assert stiff[0] > 1000, "one message, and the model hardly moves any more"
    assert stiff[1] < 10
    assert np.abs(server.state["c"] - before).max() < 0.3
    assert server.state["trust"][liar] == 0
    assert np.delete(server.state["trust"], liar).min() > 0


def test_who_behaves_again_counts_again():
    server, chance = served(clip.Options())
    liar = server.cohort[0]
    answers(server, chance, liar=liar)
    server.commit()
    again = Server(server.method)
    again.restore(server.now.to_arrays())
    assert again.state["trust"][liar] == 0, "a server that restarts has not forgotten"
    for _ in range(60):  # what it says is the difference to what the server has heard
        answers(again, chance)
        again.commit()
    assert again.state["trust"][liar] > 0.5
