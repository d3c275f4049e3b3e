"""The rules of a method: what it must do, whatever it is, in every way to play it."""

from __future__ import annotations

from typing import Any

import numpy as np

from psofed.checks import drivers, of_deployments, of_policies
from psofed.checks.bench import (
    CLIENTS,
    exchange,
    fits,
    played,
    prepare,
    samples,
    simulate,
    small,
    stepwise,
)
from psofed.checks.drivers import stacked, world
from psofed.checks.rules import TOLERANCE, BrokenError, close, only_if, refuses, require
from psofed.methods.contract import Options
from psofed.policies import fedcs, optimal
from psofed.protocol import in_memory
from psofed.protocol.client import Client
from psofed.protocol.server import Server
from psofed.simulate import family


def engine_lockstep_and_messages_agree(options: Options, run: int = 1) -> None:
    """Engine, lockstep and messages give the same models."""
    experiment = small(options)
    expected = exchange(experiment, run).models
    require(np.abs(expected).max() > 0, "the model stays 0: nothing is learned")
    for found in (simulate(experiment, run), stepwise(experiment, run)):
        close(found, expected, "simulated and sent models")


def seeds_decide(options: Options) -> None:
    """The same seed gives the same bits, and another one does not."""
    first, again = simulate(small(options)), simulate(small(options))
    require(np.array_equal(first, again), "a second run of the same seed gives other models")
    for other in (simulate(small(options, seed=1)), simulate(small(options), run=1)):
        require(not np.array_equal(first, other), "another seed or run gives the same models")


def bytes_counted_are_sent(options: Options) -> None:
    """The bytes counted are the bytes sent."""
    experiment = small(options)
    method, draws = prepare(experiment)
    sent = exchange(experiment).traffic
    counted = [moment.traffic for moment in played(method, draws)][1:]
    for n, (one, other) in enumerate(zip(counted, sent, strict=True)):
        what = f"in round {n} {one} bytes are counted, {tuple(other.tolist())} sent"
        require(one == tuple(other), f"{what} (up, down, multicast down)")
    if method.compiled:
        marks = np.arange(draws.rounds + 1)
        known = family.traffic(draws, [method], marks)[:, 0, 1:].T
        require(np.array_equal(known, sent), "the kernel counts other bytes than are sent")


def common_downloads_are_equal(options: Options) -> None:
    """A common download is the same for the whole cohort."""
    method, draws = prepare(small(options))
    only_if(method.common, "it does not declare `common`")
    for n, moment in enumerate(played(method, draws)):
        cohort = [int(k) for k in method.cohort(n, moment.server)]
        downloads = [method.download(moment.server, k, n) for k in cohort]
        same = all(np.array_equal(downloads[0], other) for other in downloads)
        require(same, f"`common` is declared, but in round {n} the downloads differ")


def messages_survive_the_wire(options: Options) -> None:
    """Decoding gives back what was encoded."""
    method, draws = prepare(small(options))
    seen, encode = [], method.encode

    def watched(message: Any, up: bool) -> bytes:
        data: bytes = encode(message, up)
        seen.append((message, up, data))
        return data

    method.encode = watched
    in_memory.run(method, *samples(draws))
    for message, up, data in seen:
        if message.any():  # zeros are what the ends measure sizes by, and no message of cmfl
            way = "upload" if up else "download"
            same = np.array_equal(method.decode(data, up), message)
            require(same, f"an {way} of {len(message)} entries is another one after the wire")


def uploads_have_their_lengths(options: Options) -> None:
    """Uploads have a length that `lengths` names."""
    method, draws = prepare(small(options))
    upload, seen = method.upload, []

    def watched(client: Any, k: Any, n: int) -> Any:
        message = upload(client, k, n)
        seen.append((n, message))
        return message

    method.upload = watched
    in_memory.run(method, *samples(draws))
    for n, message in seen:
        lengths = method.lengths(n)
        if lengths is not None:
            fine = lengths == () if message is None else len(message) in lengths
            length = None if message is None else len(message)
            require(fine, f"in round {n} it is {length}, and lengths({n}) says {lengths}")


def zero_targets_leave_zero_models(options: Options) -> None:
    """Targets of zero leave a model of zero."""
    method, draws = prepare(small(options))
    x, y = samples(draws)
    models = in_memory.run(method, x, np.zeros_like(y)).models
    require(not models.any(), f"the model reaches {np.abs(models).max():.1e}")


def models_stay_finite(options: Options) -> None:
    """Models stay finite on the paper's stream, in both precisions, and keep their type."""
    for dtype in ("float32", "float64"):
        models = simulate(small(options, dtype=dtype, rounds=300))
        require(np.isfinite(models).all(), f"they do not in {dtype}, within 300 rounds")
        require(models.dtype == dtype, f"they are {models.dtype} where the task is {dtype}")


def saved_states_go_on(options: Options) -> None:
    """A state that is saved and loaded goes on as if nothing had happened."""
    method, draws = prepare(small(options))
    n, half = draws.rounds, draws.rounds // 2
    x, y = samples(draws)

    def clients() -> list[Client]:
        return [Client(method, k, in_memory._Samples(x[k], y[k])) for k in range(CLIENTS)]

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
    ends: list[Any] = [server, *whole]
    again: list[Any] = [after, *second]
    for a, b in zip(ends, again, strict=True):
        for key in a.state:
            same = np.array_equal(a.state[key], b.state[key])
            require(same, f"state[{key!r}] is another one: something is kept outside the state")


def asked_twice_answers_the_same(options: Options) -> None:
    """A client that is asked twice answers the same and learns once."""
    method, draws = prepare(small(options))
    x, y = samples(draws)
    client = Client(method, 0, in_memory._Samples(x[0], y[0]))
    message = method.download(method.server(), 0, 4)
    data = b"" if message is None else method.encode(message, up=False)
    answer = client.take_part(4, data)
    state = {key: value.copy() for key, value in client.state.items()}
    require(client.take_part(4, data) == answer, "the second answer differs")
    same = all(np.array_equal(client.state[key], state[key]) for key in state)
    require(same, "the second question changes the client's state")
    try:
        client.take_part(2, data)
    except ValueError as error:
        require("round 2 is over" in str(error), f"an old round is refused with {error}")
    else:
        raise BrokenError("a round that is over is answered")


def every_driver_agrees(options: Options, stream: str = "steady") -> None:
    """Monte Carlo, kernel, reference, messages and tables give the same models in every round."""
    if stream == "gaps" and options.gapless:
        words = "needs a sample of every client in every round"
        refuses(lambda: world(options, stream), words)
        return
    experiment = world(options, stream)
    expected = stacked(experiment)
    require(np.abs(expected).max() > 0, "the model stays 0: nothing is learned")
    for driver in (drivers.compiled, drivers.dense, drivers.messages, drivers.tables):
        found = driver(experiment)
        if found is not None:
            close(found, expected, f"lockstep and {driver.__name__}")


def every_driver_agrees_with_gaps(options: Options) -> None:
    """They agree with missing samples, silent rounds, a late joiner and one that stops, too."""
    every_driver_agrees(options, "gaps")


def a_policy_that_prefers_nobody_is_the_cohort(options: Options) -> None:
    """A policy that prefers nobody gives the models of the uniform cohort."""
    policy = fedcs.Options(share=0.6, deadline=float("inf"))
    only_if(fits(options, policy), "it takes no policy")
    uniform = stacked(world(options, "steady", cohort=3))
    found = drivers.chosen(world(options, "steady", cohort=3), policy)
    close(found, uniform, "the models under the policy and without it")


def folds_are_linear(options: Options) -> None:
    """A fold is linear in the weights, and leaves the model where they are zero."""
    only_if(fits(options, fedcs.Options(share=0.8)), "it takes no policy")
    method, draws = prepare(small(options))
    moved, (x, y) = False, samples(draws)
    for n, moment in enumerate(played(method, draws)):
        if not method.ends(n) or n == draws.rounds:
            continue
        cohort, uploads = method.cohort(n, moment.server).tolist(), {}
        for k in cohort:
            member = {name: array[k, ...].copy() for name, array in moment.clients.items()}
            method.learn(member, x[k, n], method.task.features(x[k, n]), y[k, n])
            uploads[k] = method.upload(member, k, n)
        change = []
        for scale in (0.0, 1.0, 2.0):
            server = {name: array.copy() for name, array in moment.server.items()}
            weights = {k: scale * (0.3 + i) for i, k in enumerate(cohort)}
            method.fold(server, n, uploads, weights)
            change.append(server["w"] - moment.server["w"])
        require(not change[0].any(), f"weights of 0 move the model in round {n}")
        apart = np.abs(change[2] - 2 * change[1]).max()
        require(apart <= TOLERANCE, f"twice the weights are off by {apart:.1e} in round {n}")
        moved = moved or change[1].any()
    require(moved, "no fold moves the model")


def nobody_uploads_nothing_moves(options: Options) -> None:
    """Where nobody is invited or admitted, the model stays."""
    late = fedcs.Options(share=0.6, deadline=1e-6)  # nobody is invited
    only_if(fits(options, late), "it takes no policy")
    asking = optimal.Options(asked=4, uploads=2)
    for policy in (late, asking) if fits(options, asking) else (late,):
        of_policies.nobody_uploads_nothing_moves(options, policy)


RULES = (
    engine_lockstep_and_messages_agree, seeds_decide, bytes_counted_are_sent,
    common_downloads_are_equal, messages_survive_the_wire, uploads_have_their_lengths,
    zero_targets_leave_zero_models, models_stay_finite, saved_states_go_on,
    asked_twice_answers_the_same, every_driver_agrees, every_driver_agrees_with_gaps,
    *of_deployments.RULES, a_policy_that_prefers_nobody_is_the_cohort, folds_are_linear,
    nobody_uploads_nothing_moves,
)  # fmt: skip
