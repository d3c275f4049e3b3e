"""From an experiment to its predicted curves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from warnings import warn

import numpy as np

from psofed import extras
from psofed.errors import InputError, PsofedWarning
from psofed.experiment import Experiment, given
from psofed.federation.contract import Array, Task
from psofed.federation.workers import Tell, Workers, in_parallel
from psofed.streams.contract import about
from psofed.theory.lifted import SLOW, Chain, LiftedRecursion, chains
from psofed.theory.moments import Moments, Population, Yardstick, moments, population, yardstick
from psofed.theory.reduced import ReducedRecursion
from psofed.theory.system import System, started, system, unknown_threat

MOST_DIM = 1000
UNCOVERED = "the theory is that of Algorithm 1, without a policy or averaging"
CORRELATED = (
    "samples are NOT independent over time, as the theory assumes: where clients learn from"
    " successive ones it is too optimistic"
)
DIVERGED = 100.0  # times the initial MSE: a model that is worse is lost


def check(experiment: Experiment) -> None:
    """Refuse an experiment that the theory does not describe, whatever its methods are."""
    _check_worlds(experiment)
    if not experiment.learner.has_theory:
        found = f"is {experiment.learner.name!r}, but the theory is that of LMS from w_0 = 0 on"
        right = 'leave [learner] out, use "linear", or simulate: `psofed run`'
        raise InputError("learner.name", found, right)
    if experiment.check is not None and experiment.check.acts:
        found = f"is {experiment.check.name!r}, but in the theory clients learn from every sample"
        raise InputError("check.name", found, "leave [check] out, or simulate: `psofed run`")
    if (threat := unknown_threat(experiment)) is not None:
        raise threat
    if experiment.privacy is not None and experiment.privacy.acts:
        found = "is given, but in the theory uploads are neither rounded, clipped nor noisy"
        raise InputError("privacy", found, "leave [privacy] out, or simulate: `psofed run`")
    if about(experiment.stream).changes:
        found = f"is {experiment.stream.name!r}, whose f changes over time"
        raise InputError("stream.name", found, "leave out at, period and change")
    if about(experiment.stream).gaps:
        found = f"is {experiment.stream.name!r}, in which clients have no sample in some rounds"
        raise InputError("stream.name", found, "leave out away, late and rate")
    if experiment.judge == "personal":
        found = 'is "personal", but the theory is that of the global model'
        raise InputError("judge", found, "leave it out")
    if experiment.absent:
        found = f"is {experiment.absent}, but the theory assumes that all clients take part"
        raise InputError("absent", found, "leave it out")
    if experiment.fleet:
        found = "is given, but in the theory all clients take part from the beginning to the end"
        raise InputError("fleet", found, "leave [[fleet]] out, or simulate: `psofed run`")
    if experiment.dim > MOST_DIM:
        found = f"is {experiment.dim}, but the theory follows D x D matrices through every round"
        raise InputError("features.dim", found, f"use at most {MOST_DIM}")


def _check_worlds(experiment: Experiment) -> None:
    """Refuse methods with features or a learner of their own."""
    for i, options in enumerate(experiment.methods):
        if options.apart:
            what = "learner" if options.features is None else "features"
            found = f"is that of {options.name} alone, but the theory follows one world"
            right = f"give it to the whole experiment, as [{what}]"
            raise InputError(f"methods[{i}].{what}", found, right)


def uncovered(experiment: Experiment) -> list[str]:
    """The titles of the methods that the theory does not cover; an InputError if it covers none."""
    _check_worlds(experiment)
    methods = started(experiment, experiment.task(0))
    known = [system(method, np.arange(1), experiment.cohort) for method in methods]
    rest = [t for t, each in zip(experiment.titles, known, strict=True) if each is None]
    if len(rest) == len(known):
        found = f"has none with a theory: {', '.join(rest)}: {UNCOVERED}"
        raise InputError("methods", found, "use psofed or onlinefed")
    return rest


@dataclass(frozen=True, eq=False)
class World:
    """Everything about the data of one world that predictions need."""

    experiment: Experiment
    task: Task
    moments: Moments
    test: Yardstick

    @cached_property
    def population(self) -> Population:
        """What the recursions of all methods and steps share."""
        return population(self.moments)

    @cached_property
    def chains(self) -> tuple[Chain, ...] | None:
        """What correlated inputs of a small system are followed by."""
        return chains(self.experiment, self.task, self.moments)

    @property
    def caveat(self) -> str:
        """Which assumption of the theory does not hold here; empty if all do."""
        theta = sorted(each.theta for each in self.chains or ())
        followed = len(theta) == 1 or (theta and theta[-1] <= SLOW)
        return "" if self.experiment.stream.independent or followed else CORRELATED


@dataclass(frozen=True, eq=False, repr=False)
class Prediction:
    """The expected test MSE of one method before rounds `rounds`."""

    title: str
    step: float
    rounds: Array
    mse: Array  # up to the last round before it is lost; nan from there on
    bias: Array  # the part of the means: what would be left if nothing were random
    lost: int | None  # the round at which the MSE is DIVERGED times the initial one
    judged: str = "noise-free targets"  # what the MSE is of
    caveat: str = ""  # which assumption of the theory does not hold; empty if all do

    @property
    def mse_db(self) -> Array:
        """10 log10 of the MSE."""
        return 10 * np.log10(self.mse)

    def __repr__(self) -> str:
        end = f"{self.mse_db[-1]:.2f} dB after {extras.counted(int(self.rounds[-1]), 'round')}"
        end = end if self.lost is None else f"diverges by round {self.lost:,}"
        caveat = f"; {self.caveat}" if self.caveat else ""
        return f"<Prediction of {self.title}: {end}, {self.judged}{caveat}>"


def fix_world(experiment: Experiment, number: int | None = None) -> Experiment:
    """The experiment in one world: that number, or its own, or 0."""
    return replace(experiment, world=number if number is not None else (experiment.world or 0))


def world(experiment: Experiment) -> World:
    """The data of the world that the experiment is fixed to, in float64."""
    check(experiment)
    task = replace(experiment, dtype="float64").task(0)
    return World(experiment, task, moments(experiment, task), yardstick(experiment, task))


def systems(world: World) -> dict[str, System]:
    """The methods of the experiment that the theory covers, by title."""
    experiment = world.experiment
    methods = started(experiment, world.task)
    clients, cohort = world.moments.clients, experiment.cohort
    found = [system(method, clients, cohort) for method in methods]
    titles = experiment.titles
    return {title: each for title, each in zip(titles, found, strict=True) if each is not None}


def one(
    world: World,
    title: str,
    system: System,
    data: Population | None = None,
    on_round: Callable[[int], None] | None = None,
) -> Prediction:
    """The prediction for one method; with `data` by the recursion for independent samples."""
    experiment = world.experiment
    marks = set(experiment.evaluated.tolist())
    rows, lost = [], None
    with np.errstate(over="ignore", invalid="ignore"):
        for n, (mean, covariance) in enumerate(_models(world, system, data)):
            if on_round is not None:
                on_round(n)
            if n not in marks:
                continue
            mse = world.test.mse(mean, covariance)
            if not mse <= DIVERGED * world.test.c:
                lost = n
                break
            bias = max(world.test.mse(mean), 0.0)  # a perfect model's is rounding, of any sign
            rows.append((mse, bias))
    table = np.full((len(marks), 2), np.nan)
    table[: len(rows)] = rows
    errors, biases = table.T
    rounds = experiment.evaluated
    return Prediction(
        title, system.step, rounds, errors, biases, lost, experiment.judged, world.caveat
    )


def _models(world: World, system: System, data: Population | None) -> Iterator[tuple[Array, Array]]:
    """Mean and covariance of the server's model, round by round."""
    rounds = world.experiment.rounds
    if world.chains is not None and data is None:
        yield from LiftedRecursion(system, world.chains).models(rounds)
        return
    recursion = ReducedRecursion(system, data or world.population)
    for state in recursion.trajectory(rounds):
        yield state.means.server[0].astype(np.float64), state.second.A


def predict(
    world: World, jobs: int = 1, on_round: Callable[[int, int], None] | None = None
) -> list[Prediction]:
    """The predictions for all methods that the theory covers, on `jobs` processes where useful.

    `on_round` is called from time to time with the number of rounds done, of all.
    """
    with in_parallel(world, jobs) as workers:
        return predictions(workers, on_round)


def predictions(
    workers: Workers, on_round: Callable[[int, int], None] | None = None
) -> list[Prediction]:
    """The same, by workers that have the world."""
    world: World = workers.known
    rounds, numbers = world.experiment.rounds, world.experiment.rounds * world.task.dim**2
    known = systems(world)
    costs = [numbers * _cost(system) for system in known.values()]
    total = len(known) * rounds

    def tell(share: float) -> None:
        if on_round is not None:
            on_round(int(share * total), total)

    return workers.work(_curve, list(known), costs, tell)


def _curve(world: World, title: str, tell: Tell) -> Prediction:
    rounds = world.experiment.rounds

    def on_round(n: int) -> None:
        if n % 20 == 0:
            tell(n / rounds)

    found = one(world, title, systems(world)[title], on_round=on_round)
    tell(1.0)
    return found


def _cost(system: System) -> float:
    """How long a round takes, roughly: whole models are cheap, own windows are expensive."""
    if system.whole:
        return 1.0
    return 2.0 + system.method.shared / system.dim if system.coordinated else 3.5


def curves(experiment: Experiment, number: int | None = None, jobs: int = 1) -> list[Prediction]:
    """The predicted curves of an experiment in one world: `number`, or its own, or 0.

    Only PSO-Fed and Online-Fed have a theory, without a policy and without averaging: a warning
    names the methods that are left out, and an InputError says so if none is left. Where samples
    are correlated in time, and the system is too large for `lifted`, another says what that costs.

    With `jobs` above 1 the script that calls this needs an `if __name__ == "__main__":` guard.

    >>> import psofed
    >>> few = psofed.Experiment(clients=2, cohort=1, rounds=20, methods=psofed.PSOFed(3),
    ...                         features=psofed.Features(dim=8))
    >>> [prediction] = psofed.predict_curves(few)
    >>> prediction.title, bool(prediction.mse[20] < prediction.mse[0])
    ('PSO-Fed M=3 uncoordinated', True)
    """
    check(given(experiment))
    if rest := uncovered(experiment):
        warn(f"no prediction for {', '.join(rest)}: {UNCOVERED}", PsofedWarning, stacklevel=2)
    found = world(fix_world(experiment, number))
    if found.caveat:
        warn(found.caveat, PsofedWarning, stacklevel=2)
    return predict(found, jobs)
