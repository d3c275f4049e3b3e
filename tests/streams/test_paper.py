import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.battery import holds
from psofed.cli.laws import of_samples
from psofed.core.seeds import Seeds
from psofed.streams import change, drift, iid, paper
from psofed.streams.contract import BLOCK

STREAM = paper.Options()


@pytest.mark.parametrize("rule", of_samples.STREAM, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize(
    "stream", [STREAM, iid.Options(), change.Options(at=20), drift.Options(period=700)]
)
def test_every_stream_obeys_every_rule(stream, rule):
    holds(rule, stream)


def test_f_has_the_values_of_the_paper():
    x = np.array([[3.0, 0.0, 2.0, 0.5], [0.0, 1.0, -1.0, 0.25]])
    expected = [np.sqrt(10) + 0.6, np.sqrt(0.5) - (0.8 - 0.5 / np.e)]
    assert np.allclose(paper.f(x), expected, rtol=1e-14)


def test_the_laws_fill_their_ranges():
    laws = STREAM.laws(Seeds(0), np.arange(20_000))
    for field in laws._fields:
        values, (low, high) = getattr(laws, field), getattr(STREAM, field)
        assert low <= values.min() < low + 0.01 * (high - low)
        assert high - 0.01 * (high - low) < values.max() <= high
        assert abs(values.mean() - (low + high) / 2) < 0.02 * (high - low)


def test_the_series_is_ar1_and_windows_are_newest_first():
    clients = np.arange(3)
    laws = STREAM.laws(Seeds(1), clients)
    x = STREAM.samples(Seeds(1), clients, 0, 4000).x
    assert np.array_equal(x[:, 1:, 1:], x[:, :-1, :-1])
    innovation = x[:, :, 0] - laws.theta[:, None] * x[:, :, 1]
    innovation /= np.sqrt(1 - laws.theta**2)[:, None]
    assert np.allclose(innovation.mean(axis=1), laws.mean, atol=4 / np.sqrt(4000))
    assert np.allclose(innovation.var(axis=1) / laws.variance, 1, atol=4 * np.sqrt(2 / 4000))


def test_the_series_starts_in_its_stationary_law():
    clients = np.arange(20_000)
    laws = STREAM.laws(Seeds(2), clients)
    first = STREAM.samples(Seeds(2), clients, 0, 1).x[:, 0]
    mean = laws.mean * np.sqrt((1 + laws.theta) / (1 - laws.theta))
    standard = (first - mean[:, None]) / np.sqrt(laws.variance)[:, None]
    assert np.abs(standard.mean(axis=0)).max() < 4 / np.sqrt(20_000)
    assert np.abs(standard.var(axis=0) - 1).max() < 4 * np.sqrt(2 / 20_000)


@pytest.mark.parametrize(("clients", "count"), [(3, 10), (10, 10), (1000, 20)])
def test_a_snapshot_covers_the_clients_evenly(clients, count, monkeypatch):
    seen = []
    laws = paper.Options.laws
    monkeypatch.setattr(
        paper.Options, "laws", lambda self, s, ids: seen.append(ids) or laws(self, s, ids)
    )
    sample = STREAM.snapshot(Seeds(0), "test", clients, count)
    assert sample.x.shape == (count, 4)
    counts = np.bincount(seen[0], minlength=clients)
    assert counts.max() - counts.min() <= 1
    assert seen[0].max() < clients
    if clients > count:
        assert seen[0].max() > 0.9 * clients


def test_noise_has_the_variance_of_its_client():
    clients = np.arange(5)
    laws, sample = STREAM.laws(Seeds(0), clients), STREAM.samples(Seeds(0), clients, 0, 8000)
    assert np.allclose(sample.noise.var(axis=1) / laws.noise, 1, atol=4 * np.sqrt(2 / 8000))
    assert np.array_equal(sample.y, sample.clean + sample.noise)
    assert np.allclose(sample.clean, paper.f(sample.x))


@pytest.mark.parametrize("stream", [STREAM, iid.Options(), drift.Options(period=700)])
@given(blocks=st.integers(1, 3), more=st.integers(1, 300))
def test_a_stream_read_in_parts_is_the_stream_read_at_once_to_the_bit(stream, blocks, more):
    clients, middle = np.array([3, 7]), blocks * BLOCK
    whole = stream.samples(Seeds(0), clients, 0, middle + more)
    first = stream.samples(Seeds(0), clients, 0, middle)
    second = stream.samples(Seeds(0), clients, middle, middle + more, memory=first.memory)
    assert np.array_equal(np.hstack([first.x, second.x]), whole.x)
    assert np.array_equal(np.hstack([first.y, second.y]), whole.y)


def test_the_windows_of_the_iid_stream_are_independent_over_time():
    clients = np.arange(40)
    stream = iid.Options()
    x = stream.samples(Seeds(5), clients, 0, 3000).x
    mean, covariance = stream.input_law(Seeds(5), clients)
    centred = (x - mean[:, None]) / np.sqrt(covariance[:, None, 0, :1])
    lagged = np.einsum("kni,knj->kij", centred[:, 1:], centred[:, :-1]) / 2999
    assert np.abs(lagged).max() < 6 / np.sqrt(3000)


def test_runs_of_one_world_share_its_clients():
    clients = np.arange(5)
    one, two = Seeds(7, 1, shared_world=3), Seeds(7, 2, shared_world=3)
    assert np.array_equal(STREAM.laws(one, clients), STREAM.laws(two, clients))
    assert np.array_equal(STREAM.laws(one, clients), STREAM.laws(Seeds(7, 3), clients))
