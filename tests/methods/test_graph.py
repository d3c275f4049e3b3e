"""Methods without a common download: asynchronous visits, graphs without a server, RLS clients."""

import numpy as np
import pytest

from helpers.battery import exchange, prepare, samples, simulate, small
from psofed.core import equations
from psofed.federation.clients import stacked
from psofed.federation.contract import rows
from psofed.fleet.protocol import in_memory
from psofed.fleet.protocol.client import Client
from psofed.fleet.protocol.server import Server
from psofed.methods import local, onlinefed
from psofed.rivals import asofed, pdlms, pdrls, psorls
from psofed.simulate import any_method


def test_a_visit_that_is_lost_gets_no_reply():
    method, draws = prepare(small(asofed.Options()))
    server = Server(method)
    first, second = server.cohort
    x, y = samples(draws)
    clients = [Client(method, k, in_memory._Samples(x[k], y[k])) for k in range(5)]
    for k, data in server.invite().items():
        answer = clients[k].take_part(0, data)
        if k == first:
            server.collect(k, 0, answer)
    server.commit()
    sent = server.invite()
    assert sent[first]
    assert not sent[second]
    assert set(sent) == {first, second} | set(method.task.cohorts.cohort(1).tolist())


def test_aso_fed_costs_what_online_fed_costs_but_for_the_last_replies():
    ours, online = (exchange(small(o)).traffic for o in (asofed.Options(), onlinefed.Options()))
    assert (ours[:, 0] == online[:, 0]).all()
    assert (ours[1:, 1] == online[1:, 1]).all()
    assert ours[0, 1] == 0
    assert (ours[:, 1] == ours[:, 2]).all()  # every reply is another model


def graph_of(options, neighbours, **changes):
    """The models of a method on a graph of our own, before each round."""
    method, draws = prepare(small(options, **changes))
    own = type(method)(options, method.task, neighbours)
    play = any_method.play(own, any_method.RunSamples(draws))
    return np.array([own.models(m.server, m.clients).copy() for m in play]), own, draws


def test_without_edges_nodes_learn_alone_and_say_nothing():
    nothing = ((),) * 5
    models, own, draws = graph_of(pdlms.Options(shared=3), nothing)
    assert np.abs(models - simulate(small(local.Options()))).max() <= 1e-12
    assert not in_memory.run(own, *samples(draws)).traffic.any()
    models, own, draws = graph_of(pdrls.Options(shared=3), nothing)
    assert np.abs(models[:, 0] - plain_rls(own, draws)).max() <= 1e-12


def test_models_are_those_that_the_next_round_begins_with_and_asking_changes_nothing():
    method, draws = prepare(small(pdlms.Options(shared=3)))
    for n, moment in enumerate(any_method.play(method, any_method.RunSamples(draws))):
        before = {key: value.copy() for key, value in (moment.server | moment.clients).items()}
        models = method.models(moment.server, moment.clients)
        after = moment.server | moment.clients
        assert all(np.array_equal(before[key], after[key]) for key in before)
        for k in np.arange(5)[:, None]:
            client = {"w": moment.clients["w"][k].copy()}
            method.receive(client, k, n, method.download(moment.server, k, n))
            assert np.array_equal(client["w"], models[k])


def test_a_lost_broadcast_leaves_its_weight_to_the_receiver():
    options = pdlms.Options(shared=10, graph="complete")
    method, _ = prepare(small(options))
    phi = np.random.default_rng(0).normal(size=(5, 10))
    server = method.server()
    k = np.array([0, 1, 3, 4])
    sent = [method.upload({"w": phi[[j]]}, np.array([j]), 0).row(0) for j in k]
    method.fold(server, k, 0, rows([*sent[:3], None]), np.zeros(4))
    models = method.models(server, {"w": phi})
    for k in range(5):
        others = [j for j in (0, 1, 3) if j != k]
        own = 5 - len(others)
        assert np.allclose(models[k], (own * phi[k] + phi[others].sum(axis=0)) / 5)
        one = np.array([k])
        data = method.encode(method.download(server, one, 1).row(0), up=False)
        client = {"w": phi[one].copy()}
        method.receive(client, one, 1, rows([method.decode(data, up=False)]))
        assert np.array_equal(client["w"], models[one])
    assert method.download(server, one, 2).row(0) is None  # nothing was said in round 1


@pytest.mark.parametrize(
    ("options", "degrees"),
    [
        (pdlms.Options(shared=3, degree=2), 10),
        (pdlms.Options(shared=3, graph="star"), 8),
        (pdrls.Options(shared=3, graph="complete"), 20),
    ],
    ids=["ring", "star", "complete"],
)
def test_a_broadcast_costs_once_and_a_copy_for_each_neighbour_costs_the_sum_of_degrees(
    options, degrees
):
    traffic = exchange(small(options)).traffic
    one = 3 * 8  # float64 on this wire
    assert (traffic[:, 0] == 5 * one).all()
    assert (traffic[1:, :2].sum(axis=1) == max(degrees, 5) * one).all()
    assert traffic[0, 1] == 0
    assert not traffic[:, 2].any()


@pytest.mark.parametrize("clients", [1, 2, 3, 4, 7, 40])
def test_graphs_are_symmetric_connected_and_their_weights_are_shares(clients):
    for nodes in (
        pdlms.ring(clients, 2),
        pdlms.ring(clients, 4),
        pdlms.ring(clients, 100),
        pdlms.complete(clients),
        pdlms.star(clients),
    ):
        linked = np.eye(clients)
        for k, near in enumerate(nodes):
            assert list(near) == sorted(set(near) - {k})
            linked[k, list(near)] = 1
        assert (linked == linked.T).all()
        assert np.linalg.matrix_power(linked, clients).all()
        assert all(0 <= sum(shares) < 1 for shares in pdlms.metropolis(nodes))
    assert pdlms.ring(clients, 100) == pdlms.complete(clients)


def plain_rls(method, draws, k=0, forget=None, start=100.0):
    """RLS of one client with the matrix written out: the models before each round."""
    x, y = samples(draws)
    z = method.task.features(x)
    forget = 1 - 1 / (10 * 10) if forget is None else forget
    w, Q = np.zeros(10), start * np.eye(10)
    models = [w]
    for z_n, y_n in zip(z[k], y[k], strict=True):
        g = Q @ z_n / (forget + z_n @ Q @ z_n)
        w = w + g * (y_n - w @ z_n)
        Q = (Q - np.outer(g, z_n) @ Q) / forget
        models.append(w)
    return np.array(models)


@pytest.mark.parametrize("forget", [None, 1.0, 0.9])
def test_one_client_that_shares_everything_is_plain_rls(forget):
    options = psorls.Options(shared=10, forget=forget, regular=0.0)
    method, draws = prepare(small(options, clients=1, cohort=1))
    models = simulate(small(options, clients=1, cohort=1))
    assert np.abs(models - plain_rls(method, draws, forget=forget)).max() <= 1e-12


def test_rls_clients_that_are_never_asked_learn_alone():
    method, draws = prepare(small(psorls.Options(shared=3, regular=0.0)), cohort_size=0)
    alone = in_memory.run(method, *samples(draws))
    assert not alone.models.any()
    for k in range(5):
        assert np.abs(alone.local[:, k] - plain_rls(method, draws, k)).max() <= 1e-12
    nodes, _, _ = graph_of(pdrls.Options(shared=3), ((),) * 5)
    assert np.abs(alone.local - nodes).max() <= 1e-12


def test_a_matrix_stays_symmetric_and_holds_what_it_is_told():
    rng = np.random.default_rng(0)
    Q, w = 100 * np.broadcast_to(np.eye(6), (4, 6, 6)).copy(), np.zeros((4, 6))
    information = np.linalg.inv(Q)
    for n in range(200):
        z, i = rng.normal(size=(4, 6)), rng.integers(6, size=4)
        equations.rls(w, Q, z, rng.normal(size=4), 0.98)
        information = 0.98 * information + z[:, :, None] * z[:, None]
        if n % 2:
            equations.inform(Q, i, 0.3)
            information[np.arange(4), i, i] += 0.3
        assert np.array_equal(Q, np.swapaxes(Q, 1, 2))
    assert np.allclose(Q @ information, np.eye(6), atol=1e-9)


def test_a_regular_client_stays_bounded_where_nothing_excites_it():
    """Without samples Q grows as 1/lambda^n; regular, it stays near 1 / regular."""
    for regular, low, high in ((0.0, 1e4, np.inf), (0.5, 1.9, 2.3)):
        options = psorls.Options(shared=3, regular=regular)
        method, _ = prepare(small(options))
        client = stacked(method.client(), 1)
        for _ in range(1000):
            method.learn(client, np.zeros((1, 4)), np.zeros((1, 10)), np.zeros(1))
        size = np.linalg.eigvalsh(client["Q"][0])
        assert low < size.min() <= size.max() < high
        assert not client["w"].any()
