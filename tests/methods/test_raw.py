"""Raw samples in bursts and few bits: what is sent, and that the server learns from just that."""

import numpy as np
import pytest

from helpers.battery import small
from psofed.cli.laws.drivers import prepare, samples, simulate
from psofed.federation.contract import Message
from psofed.rivals import raw

B, BITS, LAMBDA = 5, 6, 0.1
BURSTS = raw.Options(solver="ridge", burst=B, bits=BITS, ridge=LAMBDA)


def coded(numbers):
    """Each in the middle of one of 2^b equal steps between -s and s, s rounded up to 2 bytes."""
    largest = np.float32(max(abs(v) for v in numbers))
    s = float(
        (largest.view(np.uint32) + np.uint32(0xFFFF) & np.uint32(0xFFFF0000)).view(np.float32)
    )
    half = 2 ** (BITS - 1)
    codes = [min(int((v / s + 1) * half + 2.0**-10), 2 * half - 1) for v in numbers]
    return [(2 * c + 1 - 2 * half) * s / (2 * half) for c in codes]


def test_the_server_solves_a_ridge_regression_on_the_bursts_as_they_were_coded():
    experiment = small(BURSTS)
    method, draws = prepare(experiment)
    (x, y), models = samples(draws), simulate(experiment)
    taps, rows, labels = x.shape[-1], [], []
    for n in range(experiment.rounds):
        if rows:
            z = method.task.features(np.array(rows))
            A = z.T @ z + LAMBDA * np.eye(z.shape[1])
            expected = np.linalg.solve(A, z.T @ labels)
            np.testing.assert_allclose(models[n], expected, rtol=0, atol=1e-9)
        if (n + 1) % B == 0:
            first = n + 1 - B
            for k in method.task.cohorts.cohort(first).tolist():
                signal = [*x[k, first, ::-1], *x[k, first + 1 : n + 1, 0]]  # windows overlap
                sent = coded(signal)
                rows += [sent[i : i + taps][::-1] for i in range(B)]
                labels += coded(y[k, first : n + 1])
    assert len(rows) > 5 * B


@pytest.mark.parametrize(("bits", "short", "table"), [(None, 8 * 13, 8 * 25), (5, 13, 21)])
def test_windows_of_a_signal_cost_one_number_each_and_other_inputs_all_of_theirs(
    bits, short, table
):
    """With L = 4 and B = 5: 8 + 5 numbers, or 20 + 5; coded ones have two scales of two bytes."""
    method, _ = prepare(small(raw.Options(burst=B, bits=bits)))
    series, y = np.arange(8.0) - 3, np.linspace(-1, 1, B)
    windows = np.lib.stride_tricks.sliding_window_view(series, 4)[:, ::-1]
    for x, size in ((windows, short), (windows[::-1].copy(), table)):
        client, one = {n: a[None] for n, a in method.client().items()}, np.zeros(1, np.intp)
        for i in range(B):
            early = method.upload({n: a.copy() for n, a in client.items()}, one, 0)
            assert early.length.tolist() == [0]  # fewer than B samples are not sent
            method.learn(client, x[i : i + 1], np.zeros((1, 10)), y[i : i + 1])
        sent = method.upload(client, one, 0)
        data = method.encode(sent.row(0), up=True)
        assert len(data) == size
        values = method.decode(data, up=True)[None]
        known, labels = method._samples(Message(values, np.array([values.shape[1]])))
        apart = 0 if bits is None else np.abs(x).max() / 2**bits * 1.02
        assert np.abs(known[0] - x).max() <= apart
        assert np.abs(labels[0, :, 0] - y).max() <= apart
        assert method.upload(client, one, 0).length.tolist() == [0]  # each is sent once
