"""The contract battery: what every method must do, whatever it is."""

import numpy as np
import pytest

from helpers.battery import every_method, exchange, prepare, samples, simulate, small, stepwise
from psofed.methods import psofed
from psofed.protocol import in_memory
from psofed.protocol.client import Client
from psofed.protocol.server import RefusedError, Server
from psofed.simulate import any_method, family


@every_method
@pytest.mark.parametrize("run", range(1, 2))  # the drivers have run 0
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
    play = list(any_method.play(draws, method, any_method.RunSamples(draws)))
    assert [moment.traffic for moment in play[1:]] == [tuple(row) for row in sent]
    if method.compiled:
        marks = np.arange(draws.rounds + 1)
        counted = family.traffic(draws, [method], marks)[:, 0, 1:].T
        assert np.array_equal(counted, sent)


@every_method
def test_a_common_download_is_the_same_for_the_whole_cohort(options):
    method, draws = prepare(small(options))
    for n, moment in enumerate(any_method.play(draws, method, any_method.RunSamples(draws))):
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
    in_memory.run(method, *samples(draws))
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
    in_memory.run(method, *samples(draws))
    for n, message in seen:
        lengths = method.lengths(n)
        if lengths is not None:
            assert lengths == () if message is None else len(message) in lengths


@every_method
def test_zero_targets_leave_zero_models(options):
    method, draws = prepare(small(options))
    x, y = samples(draws)
    result = in_memory.run(method, x, np.zeros_like(y))
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
        return [Client(method, k, in_memory._Samples(x[k], y[k])) for k in range(5)]

    whole, server = clients(), Server(method)
    for _ in range(n):
        in_memory._round(server, whole)
    first, before = clients(), Server(method)
    for _ in range(half):
        in_memory._round(before, first)
    second, after = clients(), Server(method)
    after.state, after.n = {k: v.copy() for k, v in before.state.items()}, half
    for old, new in zip(first, second, strict=True):
        new.state, new.position = {k: v.copy() for k, v in old.state.items()}, old.position
    for _ in range(half, n):
        in_memory._round(after, second)
    for a, b in zip([server, *whole], [after, *second], strict=True):
        assert all(np.array_equal(a.state[key], b.state[key]) for key in a.state)


@every_method
def test_a_client_that_is_asked_twice_answers_the_same_and_learns_once(options):
    method, draws = prepare(small(options))
    x, y = samples(draws)
    client = Client(method, 0, in_memory._Samples(x[0], y[0]))
    message = method.download(method.server(), 0, 4)
    data = b"" if message is None else method.encode(message, up=False)
    answer = client.take_part(4, data)
    state = {key: value.copy() for key, value in client.state.items()}
    assert client.take_part(4, data) == answer
    assert all(np.array_equal(client.state[key], state[key]) for key in state)
    with pytest.raises(ValueError, match="round 2 is over"):
        client.take_part(2, data)


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
