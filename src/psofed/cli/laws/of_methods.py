"""The rules of a method: what it must do, whatever it is, in every way to play or deploy it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from psofed.cli.laws import drivers, of_handlers
from psofed.cli.laws.drivers import (
    deployment,
    exchange,
    fits,
    played,
    prepare,
    samples,
    simulate,
    small,
    stepwise,
    world,
)
from psofed.cli.laws.rules import TOLERANCE, BrokenError, applies, close, refuses, require
from psofed.federation import round as rounds
from psofed.federation.clients import learn
from psofed.federation.options import Options
from psofed.federation.policy import Admitted
from psofed.federation.policy import Options as PolicyOptions
from psofed.federation.stage import around
from psofed.fleet.protocol import in_memory
from psofed.fleet.protocol.client import Client
from psofed.rivals.policies import fedcs, optimal
from psofed.simulate import family
from psofed.stages.selection import Selected

LATE = fedcs.Options(share=0.6, deadline=1e-6)  # nobody is invited
ASKING = optimal.Options(asked=4, uploads=2)
ANY = fedcs.Options(share=0.6, deadline=float("inf"))


def _takes_no_policy(options: Options) -> str:
    return "" if fits(options, ANY) else "it takes no policy"


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
    if family.supports(method):
        marks = np.arange(draws.rounds + 1)
        known = family.traffic(draws, [method], marks)[:, 0, 1:].T
        require(np.array_equal(known, sent), "the kernel counts other bytes than are sent")


def zero_targets_leave_zero_models(options: Options) -> None:
    """Targets of zero leave a model of zero."""
    method, draws = prepare(small(options))
    x, y = samples(draws)
    models = in_memory.run(method, x, np.zeros_like(y)).models
    require(not models.any(), f"the model reaches {np.abs(models).max():.1e}")


def models_stay_finite(options: Options) -> None:
    """Models stay finite on the paper's stream, in both precisions, and keep their type."""
    for dtype in ("float32", "float64"):
        experiment = small(options, dtype=dtype, rounds=300)
        models = simulate(experiment)
        require(np.isfinite(models).all(), f"they do not in {dtype}, within 300 rounds")
        require(models.dtype == dtype, f"they are {models.dtype} where the task is {dtype}")
        shape, dim = models.shape[1:], experiment.dim
        require(shape in ((dim,), (experiment.clients, dim)), f"they have the shape {list(shape)}")


def _never_asked(options: Options) -> str:
    return "its clients learn alone" if options.alone else ""


@applies(_never_asked)
def asked_twice_answers_the_same(options: Options) -> None:
    """A client that is asked twice answers the same and learns once."""
    method, draws = prepare(small(options))
    x, y = samples(draws)
    client = Client(method, 0, in_memory._Samples(x[0], y[0]))
    down = rounds.open_round(method, method.server(), np.zeros(1, np.intp), 4)
    values = down.row(0)
    data = b"" if values is None else method.encode(values, up=False)
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


def _streams(options: Options) -> tuple[str, ...]:
    """One with a sample of everybody in each round, and one with gaps, which some cannot have."""
    if options.gapless:
        words = "needs a sample of every client in every round"
        refuses(lambda: world(options, "gaps"), words)
    return ("steady",) if options.gapless else ("steady", "gaps")


def every_driver_agrees(options: Options) -> None:
    """Monte Carlo, kernel, messages and tables give the same models in every round.

    They do with missing samples, silent rounds, a late joiner and one that stops, too.
    """
    for stream in _streams(options):
        experiment = world(options, stream)
        expected = stepwise(experiment)
        require(np.abs(expected).max() > 0, "the model stays 0: nothing is learned")
        for driver in (drivers.compiled, drivers.messages, drivers.tables):
            found = driver(experiment)
            if found is not None:
                close(found, expected, f"lockstep and {driver.__name__}, {stream},")


def _simulated(options: Options) -> str:
    return f"it is only simulated: {options.simulated}" if options.simulated else ""


@applies(_simulated)
def lockstep_deployment_agrees(options: Options) -> None:
    """Deployed in lockstep, with frames, records and restarts, it is the simulation."""
    for stream in _streams(options):
        experiment = world(options, stream)
        if stream == "gaps" and rounds.relays(prepare(small(options))[0]):
            words = "which sends samples", 'use clock = "live"'
            refuses(lambda given=experiment: deployment(given, "lockstep"), *words)  # type: ignore[misc]
            continue
        close(drivers.deployed(experiment), stepwise(experiment), "deployed and simulated models")


@applies(_simulated)
def live_deployment_learns(options: Options) -> None:
    """Deployed on a live clock it learns, and does what its clock means."""
    for stream in _streams(options):
        experiment = world(options, stream)
        if options.not_live:
            words = "cannot run on a live clock", 'use clock = "lockstep"'
            refuses(lambda given=experiment: deployment(given, "live"), *words)  # type: ignore[misc]
            continue
        found = drivers.live(experiment)
        close(found, drivers.expected_live(experiment), "the models and those that are meant")
        require(np.abs(found[-1]).max() > 0.01, "it does not learn")


def undeployable_is_refused(options: Options) -> None:
    """What cannot be deployed is refused with a reason."""
    experiment = world(options, "steady")
    for clock in ("lockstep", "live"):
        if options.simulated:
            words = f"{options.name}, which cannot be deployed: "
            refuses(lambda clock=clock: deployment(experiment, clock), words)  # type: ignore[misc]
        elif clock == "lockstep" or not options.not_live:
            deployment(experiment, clock)


@applies(_takes_no_policy)
def a_policy_that_prefers_nobody_is_the_cohort(options: Options) -> None:
    """A policy that prefers nobody gives the models of the uniform cohort."""
    uniform = stepwise(world(options, "steady", cohort=3))
    found = drivers.chosen(world(options, "steady", cohort=3), ANY)
    close(found, uniform, "the models under the policy and without it")


@applies(_takes_no_policy)
def folds_are_linear(options: Options) -> None:
    """A fold is linear in the weights, and leaves the model where they are zero."""
    method, draws = prepare(small(options))
    moved, (x, y) = False, samples(draws)
    z = method.task.features(x)
    for n, moment in enumerate(played(method, draws)):
        if not rounds.closes(method, n) or n == draws.rounds:
            continue
        k = method.cohort(n, moment.server)
        members = {name: array[k] for name, array in moment.clients.items()}
        learn(method, members, x[k, n], z[k, n], y[k, n])
        message = method.upload(members, k, n)
        change = []
        for scale in (0.0, 1.0, 2.0):
            server = {name: array.copy() for name, array in moment.server.items()}
            weights = np.where(message.heard, scale * (0.3 + np.arange(len(k))), 0.0)
            method.fold(server, k, n, message, weights)
            change.append(server["w"] - moment.server["w"])
        require(not change[0].any(), f"weights of 0 move the model in round {n}")
        apart = np.abs(change[2] - 2 * change[1]).max()
        require(apart <= TOLERANCE, f"twice the weights are off by {apart:.1e} in round {n}")
        moved = moved or change[1].any()
    require(moved, "no fold moves the model")


@applies(_takes_no_policy)
def nobody_uploads_nothing_moves(options: Options) -> None:
    """Where nobody is invited or admitted, the model stays."""
    for policy in (LATE, ASKING) if fits(options, ASKING) else (LATE,):
        nobody_is_admitted(options, policy)


def nobody_is_admitted(options: Options, policy: PolicyOptions) -> None:
    """Where nobody is admitted, or all have the weight 0, the model stays."""
    method, draws = prepare(small(replace(options, policy=policy)))
    bound: Any
    (bound,) = (stage.policy for stage in around(method) if isinstance(stage, Selected))
    asks = policy.scores == "client"  # else all have uploaded, and each has a weight
    bound.admit = lambda state, n, scores: Admitted({} if asks else dict.fromkeys(scores, 0.0))
    for moment in played(method, draws):
        require(not moment.server["w"].any(), "the model moves")


RULES = (
    *of_handlers.RULES, seeds_decide, bytes_counted_are_sent, zero_targets_leave_zero_models,
    models_stay_finite, asked_twice_answers_the_same, every_driver_agrees,
    lockstep_deployment_agrees, live_deployment_learns, undeployable_is_refused,
    a_policy_that_prefers_nobody_is_the_cohort, folds_are_linear, nobody_uploads_nothing_moves,
)  # fmt: skip
