"""What one method alone must do: its bytes, its coding, its averages."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.battery import exchange, prepare, samples, simulate, small
from psofed import rivals
from psofed.contract import coding
from psofed.experiment import Experiment
from psofed.methods import fedavg, onlinefed, paofed, psofed
from psofed.simulate import any_method
from psofed.simulate.draws import draw


def test_the_average_is_that_of_all_models_weighed_by_the_cube_of_their_age():
    plain, mean = (simulate(small(fedavg.Options(local_steps=2, average=a))) for a in (False, True))
    v = np.zeros(10)
    for n in range(30):
        v = v + (plain[n + 1] - v) * 4 / (n + 4)
        assert np.abs(mean[n + 1] - v).max() <= 1e-12


def test_messages_of_whole_runs_cost_what_they_should():
    def sent(options, **changes):
        return exchange(small(options, **changes)).traffic

    unfinished = sent(fedavg.Options(local_steps=7), rounds=30) > 0  # a block is not uploaded
    assert unfinished.sum(axis=0)[:2].tolist() == [4, 5]
    fixed, adaptive = (sent(rivals.FedSCR(5, rule=r, scale=0.0)) for r in ("fixed", "adaptive"))
    assert (adaptive[:, :2] - fixed[:, :2] == 2 * 8).all()  # two members' loss up, variance down
    visits, online = sent(rivals.ASOFed()), sent(onlinefed.Options())
    assert (visits[:, 0] == online[:, 0]).all()
    assert (visits[1:, 1] == online[1:, 1]).all()
    assert visits[0, 1] == 0  # there is nothing to reply to
    assert (visits[:, 1] == visits[:, 2]).all()  # every reply is another model
    one = sent(rivals.ASOFed(visitors=1), cohort=4)
    assert one[:, 0].sum() * 4 == sent(rivals.ASOFed(), cohort=4)[:, 0].sum()


BYTES = [  # of one upload at D = 200, float32
    (fedavg.Options(local_steps=1), 800),
    (psofed.Options(shared=40), 160),
    (rivals.Sketch(bits=1), 33),
    (rivals.Sketch(bits=2), 58),
    (rivals.Sketch(bits=1, rotate=True), 40),
    (rivals.Sketch(bits=None, shared=40), 160),
    (rivals.Sketch(bits=2, rotate=True, shared=40), 18),
    (rivals.QSGD(levels=1), 54),
    (rivals.QSGD(levels=15), 129),
    (rivals.TopK(kept=5), 25),
    (rivals.TopK(kept=40), 185),
    (rivals.Raw(), 20),
    (rivals.Structured(shared=40), 160),
    (rivals.Structured(form="subspace", shared=40), 160),
    (rivals.Structured(form="lowrank", shared=40), 160),
    (rivals.FedSCR(threshold=0.0), 803),
    (rivals.ETPSOFed(threshold=1e9), 1),
    (rivals.ETPSOFed(threshold=0.0), 160),
    (rivals.Quantised(), 28),
    (paofed.Options(shared=4), 16),
    (rivals.CMFL(local_steps=1), 804),
    (rivals.CMFL(rule="literal", local_steps=1, threshold=0.0), 800),
    (rivals.Quantised(bits=2, reference="last"), 18),
    (rivals.ASOFed(), 800),
    (rivals.PSORLS(shared=40), 160),
    (rivals.PdLMS(shared=40), 3 * 160),
    (rivals.Raw(solver="ridge"), 20),
    (fedavg.Options(local_steps=1, wire="float16"), 400),
    (fedavg.Options(local_steps=1, wire="4 bit"), 102),
    (psofed.Options(shared=40, wire="2 bit"), 12),
    (rivals.ETPSOFed(threshold=1e9, wire="4 bit"), 1),
    (rivals.CMFL(local_steps=1, wire="4 bit"), 4 + 102),
    (rivals.CMFL(rule="literal", local_steps=1, threshold=0.0, wire="2 bit"), 52),
    (rivals.TopK(kept=5, wire="float16"), 15),
    (rivals.TopK(kept=5, wire="4 bit"), 25),
    (rivals.QSGD(levels=15, wire="float16"), 127),
    (rivals.Sketch(bits=1, wire="float16"), 29),
    (rivals.Sketch(bits=1, wire="4 bit"), 33),
    (rivals.PdRLS(shared=4), 3 * 16),
    (rivals.Ditto(), 800),
    (rivals.FedPOE(), 800),
    (rivals.POFMKL(kernels=4, sent=1), 1 + 200),
    (rivals.POFMKL(kernels=10, sent=3), 2 + 240),
    (rivals.POFMKL(kernels=4, sent=4), 1 + 800),
]


@pytest.mark.parametrize(("options", "expected"), BYTES, ids=lambda value: str(value)[:40])
def test_an_upload_has_as_many_bytes_as_its_formula_says(options, expected):
    experiment = Experiment(clients=3, cohort=1, rounds=3, methods=(options,))
    task = experiment.task(0)
    [method] = experiment.start(task)
    play = any_method.play(method, any_method.RunSamples(draw(experiment, task, True)))
    assert [moment.traffic[0] for moment in play][1:] == [expected] * 3


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


@pytest.mark.parametrize(
    ("count", "dim", "data"),
    [
        (3, 8, bytes([0b11110000])), (3, 8, bytes([0b11000000])), (3, 8, bytes(2)),
        (3, 7, bytes([0b11100001])), (1, 9, bytes([0b11110000])), (2, 9, bytes([0b11001000])),
        (2, 9, bytes([0b10001000])), (2, 9, bytes([0b10000100, 1])),
    ],
    ids=[
        "one bit more", "one bit less", "a byte more", "a bit beyond", "a position beyond",
        "not in order", "twice the same", "padded",
    ],
)  # fmt: skip
def test_positions_that_nobody_would_send_are_refused(count, dim, data):
    with pytest.raises(ValueError, match=r"positions|bits are set|bytes were expected"):
        coding.decode_positions(data, count, dim)


def test_only_a_share_of_the_updates_passes_cmfl():
    method, draws = prepare(small(rivals.CMFL(keep=0.5, local_steps=1), rounds=600))
    up = np.array([m.traffic[0] for m in any_method.play(method, any_method.RunSamples(draws))])[
        200:
    ]
    share = (up - 2 * 8).sum() / (2 * 80 * len(up))  # without the agreements; float64 on this wire
    assert 0.4 < share < 0.7  # a half, and those that are forced


@pytest.mark.parametrize("ridge", [0.01, 2.0])
def test_the_model_of_all_samples_is_their_ridge_regression(ridge):
    method, draws = prepare(small(rivals.Raw(solver="ridge", ridge=ridge)))
    x, y = samples(draws)
    sums, other = ridge * np.eye(10), np.zeros(10)
    for n, moment in enumerate(any_method.play(method, any_method.RunSamples(draws))):
        expected = np.linalg.solve(sums, other)
        assert np.abs(method.models(moment.server, {}) - expected).max() <= 1e-9
        for k in method.cohort(n, moment.server) if n < draws.rounds else ():
            z = method.task.features(x[k, n])
            sums, other = sums + np.outer(z, z), other + y[k, n] * z
    assert np.abs(expected).max() > 0.1
