"""The contract battery: what every method must do, whatever it is."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psofed import named
from psofed.core.schedule import UniformCohorts
from psofed.deploy import memory
from psofed.deploy.client import Client
from psofed.deploy.server import RefusedError, Server
from psofed.experiment import Experiment, Features
from psofed.methods import centralised, local, onlinefed, psofed
from psofed.simulate import fused, lockstep
from psofed.simulate.draws import draw

VARIANTS = {
    "psofed": [
        {"shared": m, "scheme": s, "selection": c, "mask": k, "idle": i, "allow_uneven": True}
        for m, s, c, k, i in [
            (1, "coordinated", "sequential", "subset", True),
            (3, "uncoordinated", "sequential", "subset", True),
            (4, "uncoordinated", "sequential", "block", True),
            (5, "coordinated", "stochastic", "subset", True),
            (2, "uncoordinated", "stochastic", "subset", True),
            (3, "uncoordinated", "sequential", "subset", False),
            (10, "uncoordinated", "sequential", "subset", True),
        ]
    ],
    "centralised": [{"form": "batch"}, {"form": "sequential"}],
}
METHODS = [
    named.load("psofed.methods", name).Options(**options)
    for name in named.names("psofed.methods")
    for options in VARIANTS.get(name, [{}])
]
every_method = pytest.mark.parametrize("options", METHODS, ids=lambda o: f"{o.name}-{o.title()}")


def small(*methods, **changes):
    features = Features(dim=10, width=1.5)
    settings = {"clients": 5, "cohort": 2, "rounds": 30, "runs": 1, "dtype": "float64"}
    return Experiment(**settings | {"features": features, "methods": methods} | changes)


def prepare(experiment, run=0, cohort_size=None):
    task = experiment.task(run, wire="float64")
    if cohort_size is not None:
        task = replace(task, cohorts=UniformCohorts(task.seeds, experiment.clients, cohort_size))
    (method,) = experiment.start(task)
    return method, draw(experiment, task, everybody=True)


def simulate(experiment, run=0):
    """What the engine computes: the models that are judged, before each round."""
    method, draws = prepare(experiment, run)
    if fused.is_fused(method):
        return fused.replay(draws, [method]).w[:, 0]
    return stepwise(experiment, run)


def stepwise(experiment, run=0):
    method, draws = prepare(experiment, run)
    play = lockstep.play(draws, method, lockstep.Samples(draws))
    return np.array([method.models(m.server, m.clients).copy() for m in play])


def samples(draws):
    (chunk,) = draws.chunks()
    return chunk.x, chunk.y


def exchange(experiment, run=0):
    method, draws = prepare(experiment, run)
    return memory.run(method, *samples(draws))


@every_method
@pytest.mark.parametrize("run", range(3))
def test_engine_lockstep_and_messages_give_the_same_models(options, run):
    experiment = small(options)
    expected = exchange(experiment, run).models
    assert np.abs(expected).max() > 0
    assert np.abs(simulate(experiment, run) - expected).max() <= 1e-12
    assert np.abs(stepwise(experiment, run) - expected).max() <= 1e-12


@every_method
def test_the_same_seed_gives_the_same_bits_and_another_does_not(options):
    first, again = simulate(small(options)), simulate(small(options))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, simulate(small(options, seed=1)))
    assert not np.array_equal(first, simulate(small(options), run=1))


@every_method
def test_the_bytes_counted_are_the_bytes_sent(options):
    experiment = small(options)
    method, draws = prepare(experiment)
    sent = exchange(experiment).traffic
    play = list(lockstep.play(draws, method, lockstep.Samples(draws)))
    assert [moment.traffic for moment in play[1:]] == [tuple(row) for row in sent]
    if fused.is_fused(method):
        marks = np.arange(draws.rounds + 1)
        counted = fused.traffic(draws, [method], marks)[:, 0, 1:].T
        assert np.array_equal(counted, sent)


@every_method
def test_a_common_download_is_the_same_for_the_whole_cohort(options):
    method, draws = prepare(small(options))
    for n, moment in enumerate(lockstep.play(draws, method, lockstep.Samples(draws))):
        downloads = [method.download(moment.server, int(k), n) for k in method.cohort(n)]
        if method.common:
            assert all(np.array_equal(downloads[0], other) for other in downloads)


@every_method
def test_messages_survive_the_wire(options):
    method, _ = prepare(small(options))
    server, client = method.server(), method.client(0)
    for message in (method.download(server, 0, 3), method.upload(client, 0, 3)):
        if message is not None:
            message = message + np.linspace(-1, 1, len(message))
            assert np.array_equal(method.decode(method.encode(message)), message)


@every_method
def test_zero_targets_leave_zero_models(options):
    method, draws = prepare(small(options))
    x, y = samples(draws)
    result = memory.run(method, x, np.zeros_like(y))
    assert not result.models.any()


@every_method
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_models_stay_finite_on_the_papers_stream_in_both_precisions(options, dtype):
    models = simulate(small(options, dtype=dtype, rounds=300))
    assert np.isfinite(models).all()
    assert models.dtype == dtype


@every_method
def test_state_that_is_saved_and_loaded_goes_on_as_if_nothing_had_happened(options):
    method, draws = prepare(small(options))
    n, half = draws.rounds, draws.rounds // 2
    x, y = samples(draws)

    def clients():
        return [Client(method, k, memory._Samples(x[k], y[k])) for k in range(5)]

    whole, server = clients(), Server(method)
    for _ in range(n):
        memory._round(server, whole)
    first, before = clients(), Server(method)
    for _ in range(half):
        memory._round(before, first)
    second, after = clients(), Server(method)
    after.state, after.n = {k: v.copy() for k, v in before.state.items()}, half
    for old, new in zip(first, second, strict=True):
        new.state, new.position = {k: v.copy() for k, v in old.state.items()}, old.position
    for _ in range(half, n):
        memory._round(after, second)
    for a, b in zip([server, *whole], [after, *second], strict=True):
        assert all(np.array_equal(a.state[key], b.state[key]) for key in a.state)


@every_method
def test_a_client_that_is_asked_twice_answers_the_same_and_learns_once(options):
    method, draws = prepare(small(options))
    x, y = samples(draws)
    client = Client(method, 0, memory._Samples(x[0], y[0]))
    message = method.download(method.server(), 0, 4)
    data = b"" if message is None else method.encode(message)
    answer = client.take_part(4, data)
    state = {key: value.copy() for key, value in client.state.items()}
    assert client.take_part(4, data) == answer
    assert all(np.array_equal(client.state[key], state[key]) for key in state)
    with pytest.raises(ValueError, match="round 2 is over"):
        client.take_part(2, data)


@given(st.integers(1, 5), st.integers(0, 10), st.booleans(), st.sampled_from(["subset", "block"]))
def test_sharing_everything_is_online_fed_whatever_idle_clients_learn(cohort, shift, idle, mask):
    everything = psofed.Options(shared=10, shift=shift, idle=idle, mask=mask)
    pso = simulate(small(everything, cohort=cohort))
    online = simulate(small(onlinefed.Options(), cohort=cohort))
    assert np.abs(pso - online).max() <= 1e-12


def test_without_idle_learning_a_full_cohort_is_pso_fed():
    for m in (1, 4, 10):
        awake, asleep = (psofed.Options(shared=m, idle=i) for i in (True, False))
        a, b = (simulate(small(options, cohort=5)) for options in (awake, asleep))
        assert np.abs(a - b).max() <= 1e-12


def test_an_empty_cohort_is_local_only():
    experiment = small(psofed.Options(shared=3))
    method, draws = prepare(experiment, cohort_size=0)
    alone = memory.run(method, *samples(draws))
    assert not alone.models.any()
    assert np.abs(alone.local - simulate(small(local.Options()))).max() <= 1e-12


def test_batch_centralised_is_online_fed_with_everybody():
    central = simulate(small(centralised.Options()))
    online = simulate(small(onlinefed.Options(), cohort=5))
    assert np.abs(central - online).max() <= 1e-12


def test_sequential_centralised_with_one_client_is_local_only():
    central = simulate(small(centralised.Options(form="sequential"), clients=1, cohort=1))
    alone = simulate(small(local.Options(), clients=1, cohort=1))[:, 0]
    assert np.abs(central - alone).max() <= 1e-12


def test_one_client_that_shares_everything_is_plain_rff_klms():
    alone = simulate(small(local.Options(), clients=1, cohort=1))[:, 0]
    for options in (onlinefed.Options(), psofed.Options(shared=10)):
        assert np.abs(simulate(small(options, clients=1, cohort=1)) - alone).max() <= 1e-12


def test_traffic_is_m_over_d_exactly():
    full = exchange(small(onlinefed.Options())).traffic.sum(axis=0)
    for m in range(1, 11):
        part = exchange(small(psofed.Options(shared=m))).traffic.sum(axis=0)
        assert (part[:2] * 10 == full[:2] * m).all()


@pytest.mark.parametrize(
    ("k", "n", "answer"),
    [(0, 1, b"\0" * 24), (9, 0, b"\0" * 24), (None, 0, b"\0" * 23), (None, 0, b"\xff" * 24)],
    ids=["another round", "not invited", "wrong length", "not a number"],
)
def test_a_refused_answer_changes_nothing(k, n, answer):
    method, _ = prepare(small(psofed.Options(shared=3)))
    server = Server(method)
    k = server.cohort[0] if k is None else k
    with pytest.raises(RefusedError):
        server.collect(k, n, answer)
    server.commit()
    assert not server.state["w"].any()


def test_the_same_answer_twice_counts_once_and_a_different_one_is_refused():
    method, _ = prepare(small(psofed.Options(shared=3)))
    server = Server(method)
    k = server.cohort[0]
    ones = method.encode(np.ones(3))
    server.collect(k, 0, ones)
    server.collect(k, 0, ones)
    with pytest.raises(RefusedError, match="twice"):
        server.collect(k, 0, method.encode(np.zeros(3)))
    server.commit()
    assert server.state["w"].sum() == 3
