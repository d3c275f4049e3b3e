"""MEMO-Fed that adapts: it forgets after a change and in a drift, and not while f stays."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psofed.experiment import Experiment, Features
from psofed.fleet.protocol import in_memory
from psofed.fleet.protocol.client import Client
from psofed.fleet.protocol.server import Server
from psofed.methods import memofed
from psofed.methods.memo.memory import AdaptiveForgetting
from psofed.methods.memo.messages import Values
from psofed.simulate import any_method, kernel
from psofed.simulate.draws import draw
from psofed.simulate.onerun import one_run
from psofed.streams import paper

REMEMBERS = memofed.Options(size=30, budget=60.0, label="remembers")
ADAPTS = memofed.Options(size=30, budget=60.0, adapt=True, label="adapts")


def experiment(*methods, **changes):
    settings = {"clients": 20, "cohort": 4, "rounds": 600, "runs": 1, "test_samples": 300}
    settings |= {"features": Features(dim=60), "evaluate_every": 50, "methods": methods}
    return Experiment(**settings | changes)


def last(made, run=0):
    """The server's state after the last round, and the rounds in which it saw a drift."""
    task = kernel.faster(made.task(run))
    (method,) = made.start(task)
    draws, drifts = draw(made, task, everybody=True), []
    for moment in any_method.play(method, any_method.RunSamples(draws)):
        drifts.append(int(moment.server["drifts"]))
    return moment.server, np.flatnonzero(drifts)


def test_while_f_stays_most_clients_remember_everything_and_nothing_is_lost():
    runs = range(3)
    made = experiment(REMEMBERS, ADAPTS)
    mse = np.mean([one_run(made, run).mse for run in runs], axis=0)
    assert abs(10 * np.log10(mse[1, -1] / mse[0, -1])) < 0.1
    found = [last(experiment(ADAPTS), run) for run in runs]
    assert np.mean([server["birth"] > 0 for server, _ in found]) < 0.25
    assert sum(len(drifts) > 0 for _, drifts in found) <= 1


def test_after_a_change_it_is_soon_as_good_as_before():
    made = experiment(REMEMBERS, ADAPTS, stream=paper.Options(at=300), rounds=500)
    mse = 10 * np.log10(np.mean([one_run(made, run).mse for run in range(2)], axis=0))
    before, later = mse[:, 6], mse[:, 9]  # rounds 300 and 450
    assert later[1] < before[1] + 1.5
    assert later[1] < later[0] - 2


def test_a_drift_is_seen_and_followed():
    made = experiment(REMEMBERS, ADAPTS, stream=paper.Options(period=1500), rounds=750)
    mse = 10 * np.log10(one_run(made, 0).mse)
    assert mse[1, -1] < mse[0, -1] - 1.5
    _, drifts = last(experiment(ADAPTS, stream=paper.Options(period=1500), rounds=750))
    assert len(drifts) > 100


def test_the_sums_of_the_server_are_those_of_its_clients_whatever_was_forgotten():
    server, _ = last(experiment(ADAPTS, stream=paper.Options(at=300), rounds=450))
    assert (server["birth"] > 250).any()
    for name in ("B", "g", "Br"):
        total = np.tensordot(server["weight"], server[name], 1)
        assert np.abs(server[f"sum_{name}"] - total).max() <= 1e-9 * max(np.abs(total).max(), 1)


@pytest.mark.parametrize("seed", range(2))
def test_a_client_that_forgets_tells_it_until_it_is_heard(seed):
    options = memofed.Options(size=6, budget=None, least=5, adapt=True)
    made = Experiment(clients=3, cohort=2, rounds=300, runs=1, dtype="float64",
                      features=Features(dim=12, width=1.5), methods=(options,))  # fmt: skip
    task = made.task(0, wire="float64")
    (method,) = made.start(task)
    (chunk,) = draw(made, task, everybody=True).chunks()
    y = chunk.y.copy()
    y[:, 150:] = 5 - 3 * y[:, 150:]
    clients = [Client(method, k, in_memory._Samples(chunk.x[k], y[k])) for k in range(3)]
    server, luck = Server(method), np.random.default_rng(seed)
    for n in range(300):
        for k, invitation in server.invite().items():
            answer = clients[k].take_part(n, invitation)
            if luck.random() < 0.5:
                server.collect(k, n, answer)
        heard = list(server.answers)
        server.commit()
        for k in heard:
            for name in ("r", "h"):
                assert np.array_equal(server.state[name][k], clients[k].state[name][0])
            known = max(float(clients[k].state["n"][0]), 1.0)
            assert server.state["count"][k] == pytest.approx(known, rel=0.05)
    assert (server.state["birth"] >= 150).all()


errors = st.lists(st.floats(-8, 8, width=32), min_size=40, max_size=200)


@given(errors, st.integers(0, 200), st.integers(-3, 3))
def test_alarms_do_not_depend_on_blocks_or_on_the_unit_of_the_labels(values, cut, power):
    memory, values = AdaptiveForgetting(1.0, 1), np.array(values * 3)
    values[len(values) // 2 :] *= 8
    whole, parts, scaled = (np.zeros(5) for _ in range(3))
    last = memory._alarm(whole, values)
    first, second = memory._alarm(parts, values[:cut]), memory._alarm(parts, values[cut:])
    assert last == (second + min(cut, len(values)) if second else first)
    assert np.array_equal(whole, parts)
    assert memory._alarm(scaled, values * 2.0**power) == last


def test_a_rise_of_the_error_is_found_within_some_samples_and_zeros_are_no_alarm():
    memory, luck = AdaptiveForgetting(1.0, 1), np.random.default_rng(3)
    steady = luck.standard_normal(1500)
    assert memory._alarm(np.zeros(5), steady) == 0
    found = memory._alarm(np.zeros(5), np.concatenate([steady, 3 * luck.standard_normal(40)]))
    assert 1500 < found <= 1530
    assert memory._alarm(np.zeros(5), np.zeros(100)) == 0


@given(
    st.integers(1, 9), st.sampled_from([None, 2, 4, 7]), st.sampled_from([2, 5, 14]),
    st.booleans(), st.one_of(st.none(), st.floats(1, 60_000)), st.integers(0, 99),
)  # fmt: skip
def test_messages_come_back_from_their_bytes(size, bits, moments, told, count, seed):
    values = Values(size, bits, "float64", moments, count is not None)
    luck = np.random.default_rng(seed)
    v = values.quantise(luck.standard_normal(size))
    given_moments = luck.standard_normal(moments).astype(np.float16).astype(float) if told else None
    message = values.upload(v, given_moments, count)
    data = values.encode(message, up=True)
    assert np.array_equal(values.decode(data, up=True), message)
    assert len(data) == values.uploaded(len(message))
    back = values.split(message)
    assert np.array_equal(back[0], v)
    assert (back[1] is None) == (not told)
    assert (back[2] is None) == (count is None)
    if count is not None:
        assert back[2] == pytest.approx(count, rel=0.03)
        alone = values.only(count)
        assert len(alone) not in (0, size, len(message))
        assert len(values.encode(alone, up=True)) == values.uploaded(len(alone)) == 1
        assert np.array_equal(values.decode(values.encode(alone, up=True), up=True), alone)
        assert values.split(alone)[::2] == (None, back[2])


def test_what_a_client_tells_of_its_samples_can_only_make_it_count_less():
    memory = AdaptiveForgetting(1.0, 1)
    server = memory.server(3, 2) | {"heard": np.array([9, -1, 9])}
    server["count"][:] = 10, 0, 10
    assert memory.hear(server, 0, 19, 1000.0, False) == 20
    assert memory.hear(server, 1, 19, 5.0, False) == 5
    assert memory.hear(server, 2, 19, None, True) == 20
    assert server["birth"].tolist() == [0, 15, 0]


@given(st.sampled_from([None, 2, 4, 7]), st.sampled_from([0, 5]), st.booleans(), st.booleans(),
       st.binary(max_size=24))  # fmt: skip
def test_bytes_that_nobody_can_have_sent_are_refused(bits, moments, counts, up, data):
    values = Values(3, bits, "float16", moments, counts)
    try:
        message = values.decode(data, up)
    except ValueError:
        return
    assert values.encode(message, up) == data
    if up:
        assert len(data) == values.uploaded(len(message))
    else:
        assert len(data) - values.nbytes(up) in (0, counts) or len(data) == 1


def test_a_message_is_refused_with_a_byte_more_or_less_and_with_bits_that_mean_nothing():
    values = Values(3, 4, "float32", 5, counts=True)
    sent = values.upload(values.quantise(np.array([1.0, -2.0, 0.5])), np.zeros(5), 7.0)
    data = values.encode(sent, up=True)
    assert np.array_equal(values.decode(data, up=True), sent)
    alone = values.encode(values.only(7.0), up=True)
    odd, padded = bytes([data[0] | 1]) + data[1:], data[:2] + bytes([data[2] | 1]) + data[3:]
    for wrong in (b"", data[:-2], data + b"\0", odd, padded, data[:-1] + b"\xff", alone * 2):
        with pytest.raises(ValueError, match=r"byte|bits"):
            values.decode(wrong, up=True)
    fixed = Values(3, 4, "float32", 5)
    for wrong in (alone, data):
        with pytest.raises(ValueError, match="none of its messages"):
            fixed.decode(wrong, up=True)
