"""The contract battery: what every method must do, whatever it is."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from psofed import named
from psofed.core import coding
from psofed.core.schedule import UniformCohorts
from psofed.deploy import memory
from psofed.deploy.client import Client
from psofed.deploy.server import RefusedError, Server
from psofed.experiment import Experiment, Features
from psofed.methods import (
    asofed,
    centralised,
    cmfl,
    etpsofed,
    fedavg,
    fedprox,
    fedscr,
    local,
    onlinefed,
    paofed,
    pdlms,
    pdrls,
    periodic,
    psofed,
    psorls,
    qsgd,
    quantised,
    raw,
    sketch,
    structured,
    topk,
)
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
    ]
    + [{"shared": 3, "average": True}],
    "centralised": [{"form": "batch"}, {"form": "sequential"}],
    "fedavg": [{"local_steps": e} for e in (1, 3, 7)] + [{"average": True}],
    "fedprox": [{"local_steps": 4, "prox": 0.1}],
    "periodic": [
        {"local_steps": 3, "shared": 4},
        {"local_steps": 2, "shared": 3, "scheme": "coordinated", "selection": "stochastic"},
        {"local_steps": 4, "shared": 2, "idle": False},
    ],
    "sketch": [
        {"bits": 1},
        {"bits": 3, "local_steps": 3},
        {"bits": None, "shared": 4},
        {"bits": 2, "rotate": True},
        {"bits": 4, "rotate": True, "shared": 7},
    ],
    "qsgd": [{"levels": 1}, {"levels": 15}, {"levels": 4, "local_steps": 3}, {"levels": None}],
    "structured": [
        {"form": "mask", "shared": 3},
        {"form": "subspace", "shared": 4, "local_steps": 3},
        {"form": "lowrank", "shared": 5, "rows": 2},
    ],
    "fedscr": [{"block": 2}, {"block": 5, "threshold": 1.3, "local_steps": 2}, {"block": 1}],
    "etpsofed": [{"shared": 3}, {"shared": 4, "threshold": 1.0, "scheme": "coordinated"}],
    "quantised": [
        {"shared": 4, "bits": 4},
        {"shared": 3, "bits": 2, "reference": "last"},
        {"shared": 3, "bits": 3, "scheme": "coordinated", "idle": False},
    ],
    "cmfl": [
        {"rule": "literal", "threshold": 0.5, "local_steps": 1},
        {"keep": 0.5, "local_steps": 3},
    ],
    "paofed": [
        {"shared": 5, "delay": 0.5, "longest": 3},
        {"shared": 3, "mask": "subset", "scheme": "uncoordinated", "availability": 0.4},
        {"shared": 2, "window": "same", "decay": 1.0},
    ],
    "memofed": [
        {"budget": 20.0, "size": 6},
        {"budget": None, "size": 8, "bits": 8, "silent": 0, "curvature": "unit"},
        {"budget": 80.0, "size": 10, "bits": None, "forget": 0.97, "inputs": "columns"},
        {"budget": None, "basis": "none", "bits": 3},
    ],
    "asofed": [
        {},
        {"memory": True, "lam": 0.01, "step": 0.25},
        {"lam": 0.1, "delays": "log"},
        {"barrier": True},
    ],
    "pdlms": [
        {"shared": 3, "degree": 2},
        {"shared": 4, "graph": "star", "scheme": "coordinated", "weights": "uniform"},
        {"shared": 5, "graph": "geometric", "mask": "block"},
        {"shared": 2, "graph": "complete", "selection": "stochastic"},
        {"shared": 10},
    ],
    "pdrls": [
        {"shared": 3, "degree": 2},
        {"shared": 4, "graph": "star", "forget": 0.99, "regular": 0.1},
    ],
    "psorls": [
        {"shared": 3},
        {"shared": 4, "scheme": "coordinated", "regular": 0.0},
        {"shared": 5, "forget": 1.0, "start": 10.0, "idle": False},
    ],
    "topk": [{"kept": 1}, {"kept": 3, "memory": 0.5, "local_steps": 2}, {"kept": 9}],
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
    if psofed.is_pure(method):
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
    if psofed.is_pure(method):
        marks = np.arange(draws.rounds + 1)
        counted = fused.traffic(draws, [method], marks)[:, 0, 1:].T
        assert np.array_equal(counted, sent)


@every_method
def test_a_common_download_is_the_same_for_the_whole_cohort(options):
    method, draws = prepare(small(options))
    for n, moment in enumerate(lockstep.play(draws, method, lockstep.Samples(draws))):
        downloads = [
            method.download(moment.server, int(k), n) for k in method.cohort(n, moment.server)
        ]
        if method.common:
            assert all(np.array_equal(downloads[0], other) for other in downloads)


@every_method
def test_messages_survive_the_wire(options):
    method, draws = prepare(small(options))
    seen = []
    encode = method.encode

    def watched(message, up):
        data = encode(message, up)
        seen.append((message, up, data))
        return data

    method.encode = watched
    memory.run(method, *samples(draws))
    for message, up, data in seen:
        if message.any():  # zeros are what the ends measure sizes by, and no message of cmfl
            assert np.array_equal(method.decode(data, up), message)


@every_method
def test_uploads_have_a_length_that_the_server_accepts(options):
    method, draws = prepare(small(options))
    upload, seen = method.upload, []

    def watched(client, k, n):
        message = upload(client, k, n)
        seen.append((n, message))
        return message

    method.upload = watched
    memory.run(method, *samples(draws))
    for n, message in seen:
        lengths = method.lengths(n)
        if lengths is not None:
            assert lengths == () if message is None else len(message) in lengths


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
    data = b"" if message is None else method.encode(message, up=False)
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
    ones = method.encode(np.ones(3), up=True)
    server.collect(k, 0, ones)
    server.collect(k, 0, ones)
    with pytest.raises(RefusedError, match="twice"):
        server.collect(k, 0, method.encode(np.zeros(3), up=True))
    server.commit()
    assert server.state["w"].sum() == 3


def same(one, other, tolerance=1e-12, **changes):
    a, b = (simulate(small(options, **changes)) for options in (one, other))
    return np.abs(a - b).max() <= tolerance


@given(st.integers(1, 5))
@settings(max_examples=5)
def test_one_local_step_is_online_fed(cohort):
    for options in (
        fedavg.Options(local_steps=1),
        fedprox.Options(local_steps=1, prox=0.3),
        periodic.Options(local_steps=1, shared=10),
        sketch.Options(bits=None),
        sketch.Options(bits=None, rotate=True),
        sketch.Options(bits=None, shared=10),
        qsgd.Options(levels=None),
        topk.Options(kept=10),
        structured.Options(shared=10),
        structured.Options(form="subspace", shared=10),
        structured.Options(form="lowrank", shared=10, rows=2),
        fedscr.Options(block=5, threshold=0.0),
        etpsofed.Options(shared=10, threshold=0.0),
        cmfl.Options(rule="literal", threshold=0.0, local_steps=1),
        cmfl.Options(keep=1.0, local_steps=1),
        paofed.Options(shared=10, delay=0.0),
        raw.Options(),
    ):
        assert same(options, onlinefed.Options(), cohort=cohort), options


@pytest.mark.parametrize("steps", [2, 5])
def test_without_its_knob_a_method_is_fedavg(steps):
    plain = fedavg.Options(local_steps=steps)
    for options in (
        fedprox.Options(local_steps=steps, prox=0.0),
        periodic.Options(local_steps=steps, shared=10),
        sketch.Options(bits=None, local_steps=steps),
        qsgd.Options(levels=None, local_steps=steps),
        topk.Options(kept=10, local_steps=steps),
        structured.Options(shared=10, local_steps=steps),
        structured.Options(form="subspace", shared=10, local_steps=steps),
        fedscr.Options(block=2, threshold=0.0, local_steps=steps),
        cmfl.Options(keep=1.0, local_steps=steps),
        cmfl.Options(rule="literal", threshold=0.0, local_steps=steps),
    ):
        assert same(options, plain), options


def test_talking_in_every_round_is_pso_fed():
    for windows in (
        {"shared": 3},
        {"shared": 4, "scheme": "coordinated"},
        {"shared": 2, "idle": False},
    ):
        assert same(periodic.Options(local_steps=1, **windows), psofed.Options(**windows))


def test_fedavg_costs_what_pso_fed_costs_at_equal_m_over_e():
    for m in (1, 2, 5):
        pso = exchange(small(psofed.Options(shared=m), rounds=40)).traffic.sum(axis=0)
        avg = exchange(small(fedavg.Options(local_steps=10 // m), rounds=40)).traffic.sum(axis=0)
        assert (pso[:2] == avg[:2]).all()


def test_the_average_is_that_of_all_models_weighed_by_the_cube_of_their_age():
    plain, mean = (simulate(small(fedavg.Options(local_steps=2, average=a))) for a in (False, True))
    v = np.zeros(10)
    for n in range(30):
        v = v + (plain[n + 1] - v) * 4 / (n + 4)
        assert np.abs(mean[n + 1] - v).max() <= 1e-12


def test_an_unfinished_block_is_not_uploaded():
    traffic = exchange(small(fedavg.Options(local_steps=7), rounds=30)).traffic
    assert (traffic[:, 0] > 0).sum() == 4
    assert (traffic[:, 1] > 0).sum() == 5


BYTES = [  # of one upload at D = 200, float32
    (fedavg.Options(local_steps=1), 800),
    (psofed.Options(shared=40), 160),
    (sketch.Options(bits=1), 33),
    (sketch.Options(bits=2), 58),
    (sketch.Options(bits=1, rotate=True), 40),
    (sketch.Options(bits=None, shared=40), 160),
    (sketch.Options(bits=2, rotate=True, shared=40), 18),
    (qsgd.Options(levels=1), 54),
    (qsgd.Options(levels=15), 129),
    (topk.Options(kept=5), 25),
    (topk.Options(kept=40), 185),
    (raw.Options(), 20),
    (structured.Options(shared=40), 160),
    (structured.Options(form="subspace", shared=40), 160),
    (structured.Options(form="lowrank", shared=40), 160),
    (fedscr.Options(threshold=0.0), 803),
    (etpsofed.Options(threshold=1e9), 1),
    (etpsofed.Options(threshold=0.0), 160),
    (quantised.Options(), 28),
    (paofed.Options(shared=4), 16),
    (cmfl.Options(local_steps=1), 804),
    (cmfl.Options(rule="literal", local_steps=1, threshold=0.0), 800),
    (quantised.Options(bits=2, reference="last"), 18),
    (asofed.Options(), 800),
    (psorls.Options(shared=40), 160),
    (pdlms.Options(shared=40), 3 * 160),
    (pdrls.Options(shared=4), 3 * 16),
]


@pytest.mark.parametrize(("options", "expected"), BYTES, ids=lambda value: str(value)[:40])
def test_an_upload_has_as_many_bytes_as_its_formula_says(options, expected):
    experiment = Experiment(clients=3, cohort=1, rounds=3, methods=(options,))
    task = experiment.task(0)
    [method] = experiment.start(task)
    play = lockstep.play(
        draw(experiment, task, True), method, lockstep.Samples(draw(experiment, task, True))
    )
    assert [moment.traffic[0] for moment in play][1:] == [expected] * 3


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_quantisers_are_unbiased_and_bounded(bits):
    rng = np.random.default_rng(0)
    h = rng.normal(size=12)
    values = np.array(
        [coding.restore(coding.quantise(h, bits, u), bits) for u in rng.random((10_000, 12))]
    )
    width = np.ptp(h) / (2**bits - 1)
    assert np.abs(values - h).max() <= width * (1 + 1e-9)
    error = np.maximum(values.std(axis=0), 1e-12) / 100
    assert (np.abs(values.mean(axis=0) - h) < 5 * error + 1e-12).all()


def unbiased(options, count=4000):
    """The mean of what the server reads from one update, over clients and rounds, as z-scores."""
    method, _ = prepare(small(options))
    h = np.linspace(-1, 2, 10)
    read = np.array(
        [
            method.unpack(method.pack(method.client(0), h, k, n), k, n)
            for k in range(4)
            for n in range(count // 4)
        ]
    )
    return (read.mean(axis=0) - h) / (read.std(axis=0) / np.sqrt(len(read)) + 1e-12)


@pytest.mark.parametrize(
    "options",
    [
        sketch.Options(bits=2), sketch.Options(bits=None, shared=3), sketch.Options(bits=3, rotate=True, shared=5),
        qsgd.Options(levels=2),
    ],
    ids=lambda options: options.title(),
)  # fmt: skip
def test_what_the_server_reads_is_right_on_average(options):
    assert np.abs(unbiased(options)).max() < 5


@given(st.lists(st.integers(0, 2**11 - 1), min_size=1, max_size=50), st.integers(11, 20))
def test_packed_codes_come_back(codes, bits):
    data = coding.pack(np.array(codes), bits)
    assert coding.unpack(data, bits, len(codes)).tolist() == codes
    with pytest.raises(ValueError, match="bytes were expected"):
        coding.unpack(data + b"x", bits, len(codes))


@given(st.integers(1, 300), st.data())
def test_positions_come_back_and_are_never_longer_than_a_bitmap(dim, data):
    count = data.draw(st.integers(1, dim))
    positions = np.sort(data.draw(st.permutations(range(dim)))[:count])
    encoded = coding.encode_positions(positions, dim)
    assert coding.decode_positions(encoded, count, dim).tolist() == positions.tolist()
    assert len(encoded) <= -(-dim // 8)


def test_error_feedback_forgets_nothing():
    method, _ = prepare(small(topk.Options(kept=2)))
    client, rng = method.client(0), np.random.default_rng(1)
    updates = rng.normal(size=(50, 10))
    read = sum(
        method.unpack(method.pack(client, h.copy(), 0, n), 0, n) for n, h in enumerate(updates)
    )
    assert np.allclose(read + client["residual"], updates.sum(axis=0))


def test_a_trigger_at_zero_is_pso_fed_and_one_out_of_reach_leaves_the_server_as_it_is():
    for windows in ({"shared": 3}, {"shared": 4, "scheme": "coordinated"}):
        assert same(etpsofed.Options(threshold=0.0, **windows), psofed.Options(**windows))
    assert not simulate(small(etpsofed.Options(shared=3, threshold=1e9))).any()


@pytest.mark.parametrize("reference", ["range", "last"])
def test_many_bits_are_pso_fed_and_each_bit_halves_the_error(reference):
    exact = simulate(small(psofed.Options(shared=4)))
    errors = [
        np.abs(
            simulate(small(quantised.Options(shared=4, bits=b, reference=reference))) - exact
        ).max()
        for b in (8, 12, 16, 24)
    ]
    assert errors[-1] < 1e-5
    assert all(fine < coarse / 4 for coarse, fine in itertools.pairwise(errors))


def test_both_ends_remember_the_same_after_every_message():
    method, draws = prepare(small(quantised.Options(shared=3, bits=3, reference="last")))
    for moment in lockstep.play(draws, method, lockstep.Samples(draws)):
        assert np.array_equal(moment.server["last"], moment.clients["last"])
    assert moment.server["last"].any()


def test_blocks_that_stay_behind_are_sent_later():
    method, _ = prepare(small(fedscr.Options(block=2, threshold=1.2)))
    client, rng = method.client(0), np.random.default_rng(1)
    updates = rng.normal(size=(50, 10))
    messages = [method.pack(client, h.copy(), 0, n) for n, h in enumerate(updates)]
    assert 0 < np.mean([m[:5].mean() for m in messages]) < 1
    read = sum(method.unpack(m, 0, n) for n, m in enumerate(messages))
    assert np.allclose(read + client["residual"], updates.sum(axis=0))


@pytest.mark.parametrize("form", ["subspace", "lowrank"])
def test_random_spaces_are_right_on_average(form):
    method, _ = prepare(
        small(structured.Options(form=form, shared=5, rows=2 if form == "lowrank" else None))
    )
    z, read = np.linspace(-1, 2, 10), []
    for n in range(6000):
        client = method.client(0)
        method.receive(client, 0, n, np.zeros(10))
        method.learn(client, None, z, 1.0)
        read.append(method.unpack(method.upload(client, 0, n), 0, n) / method.step)
    score = (np.mean(read, axis=0) - z) / (np.std(read, axis=0) / np.sqrt(len(read)) + 1e-12)
    assert np.abs(score).max() < 5


def test_without_delays_pao_fed_is_pso_fed():
    for windows in ({"shared": 5, "mask": "block"}, {"shared": 3, "mask": "subset"}):
        for scheme in ("coordinated", "uncoordinated"):
            pao = paofed.Options(delay=0.0, scheme=scheme, **windows)
            assert same(pao, psofed.Options(scheme=scheme, **windows))


def test_delays_have_their_law_and_what_is_too_late_is_lost():
    method, _ = prepare(small(paofed.Options(shared=5, delay=0.5, longest=3)))
    delays = np.array([method._delay(k, n) for k in range(5) for n in range(2000)])
    for i in range(1, 6):
        assert abs((delays >= i).mean() - 0.5**i) < 5 * np.sqrt(0.5**i / len(delays))
    late = prepare(small(paofed.Options(shared=5, delay=1.0)))[0]
    server = late.server()
    late.fold(server, 0, {0: np.ones(5)}, {0: 1.0})
    assert not server["w"].any()


def test_only_a_share_of_the_updates_passes_cmfl():
    method, draws = prepare(small(cmfl.Options(keep=0.5, local_steps=1), rounds=600))
    up = np.array([m.traffic[0] for m in lockstep.play(draws, method, lockstep.Samples(draws))])[
        200:
    ]
    share = (up - 2 * 8).sum() / (2 * 80 * len(up))  # without the agreements; float64 on this wire
    assert 0.4 < share < 0.7  # a half, and those that are forced
