"""Methods without a common download: asynchronous visits, graphs without a server, RLS clients."""

import numpy as np
import pytest

from helpers.battery import exchange, prepare, samples, simulate, small
from psofed.core import equations
from psofed.federation.contract import rows
from psofed.fleet.protocol import in_memory
from psofed.fleet.protocol.client import Client
from psofed.fleet.protocol.server import Server
from psofed.methods import local
from psofed.rivals import asofed, pdlms, pdrls
from psofed.simulate import any_method


def test_a_visit_that_is_lost_gets_no_reply():
    method, draws = prepare(small(asofed.Options()))
    server = Server(method)
    first, second = server.cohort
    x, y = samples(draws)
    clients = [Client(method, k, in_memory.source(x[k], y[k])) for k in range(5)]
    for k, data in server.invite().items():
        answer = clients[k].take_part(0, data)
        if k == first:
            server.collect(k, 0, answer)
    server.commit()
    sent = server.invite()
    assert sent[first]
    assert not sent[second]
    assert set(sent) == {first, second} | set(method.task.cohorts.cohort(1).tolist())


def test_without_edges_nodes_learn_alone_and_say_nothing():
    options = pdlms.Options(shared=3)
    method, draws = prepare(small(options))
    own = type(method)(options, method.task, ((),) * 5)
    play = any_method.play(own, any_method.RunSamples(draws))
    models = np.array([own.models(m.server, m.clients).copy() for m in play])
    assert np.abs(models - simulate(small(local.Options()))).max() <= 1e-12
    assert not in_memory.run(own, *samples(draws)).traffic.any()


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


def test_a_matrix_stays_symmetric_and_holds_what_was_put_in():
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
