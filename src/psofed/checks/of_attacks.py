"""The rules of an attack: honest clients are left alone, alike in every executor."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.attacks.contract import Attack, Insiders, Options, bind
from psofed.checks.bench import CLIENTS, exchange, prepare, samples, small, stepwise
from psofed.checks.rules import largest, only_if, require
from psofed.core.seeds import Seeds
from psofed.core.several import PlacedSeeds
from psofed.errors import InputError
from psofed.experiment import Experiment
from psofed.methods import fedavg, onlinefed, psofed
from psofed.protocol.deployment import Deployment
from psofed.simulate import family
from psofed.simulate.onerun import one_run, some_runs

Array = NDArray[Any]
ROUNDS, DIM, MEMBERS, RUNS = 20, 7, 4, (0, 1, 2)
SHARE = 0.4  # of five clients: two
METHODS = (onlinefed.Options(), psofed.Options(3, allow_uneven=True), fedavg.Options(3))


def _bound(options: Options, seeds: Seeds) -> Attack:
    return bind(options, Insiders(CLIENTS, DIM, SHARE, seeds))


def _worlds(options: Options, **changes: Any) -> list[Experiment]:
    hurt = {"attack": replace(options, share=SHARE), "rounds": ROUNDS}
    return [small(method, **hurt | changes) for method in METHODS]


def _models(attack: Attack, n: int, shape: tuple[int, ...]) -> tuple[Array, ...]:
    """What members send, who of them is bad, their own models and the server's, at random."""
    rng = np.random.default_rng(n)
    own, w = rng.standard_normal((*shape, MEMBERS, DIM)), rng.standard_normal((*shape, DIM))
    k = np.broadcast_to(np.arange(MEMBERS), (*shape, MEMBERS))
    bad = np.broadcast_to(np.arange(MEMBERS) % 3 == 0, k.shape)
    return attack.models(n, k, own, bad, w), bad, own, w


def seeds_decide(options: Options) -> None:
    """What is sent follows from the seed, and from nothing else."""
    only_if(options.on == "values", "it changes samples")
    for n in range(3):
        (first, *_), (again, *_) = (_models(_bound(options, Seeds(3)), n, ()) for _ in range(2))
        require(np.array_equal(first, again, equal_nan=True), "the second time it is another model")


def its_own_model_is_kept(options: Options) -> None:
    """The models that clients have learned stay as they are, in shape and precision too."""
    only_if(options.on == "values", "it changes samples")
    attack = _bound(options, Seeds(3))
    for kind in (np.float32, np.float64):
        rng = np.random.default_rng(0)
        own = rng.standard_normal((MEMBERS, DIM)).astype(kind)
        before, bad = own.copy(), np.arange(MEMBERS) < 2
        for n in range(4):
            sent = attack.models(n, np.arange(MEMBERS), own, bad, np.zeros(DIM, kind))
            require(np.array_equal(own, before), "models() changes its argument")
            require(sent.shape == own.shape, f"models() gives {sent.shape}, not {own.shape}")
            require(sent.dtype == kind, f"models() gives {sent.dtype}, not {np.dtype(kind)}")


def finite_models_are_sent(options: Options) -> None:
    """Finite models give finite ones, also where all members are malicious, or one is alone."""
    only_if(options.on == "values", "it changes samples")
    attack = _bound(options, Seeds(3))
    for bad in ([True, True], [True, False], [True]):
        own = np.random.default_rng(1).standard_normal((len(bad), DIM))
        for n in range(4):
            sent = attack.models(n, np.arange(len(bad)), own, np.array(bad), np.zeros(DIM))
            found = f"{sum(bad)} of {len(bad)} members are bad, and what they send is not finite"
            require(np.isfinite(sent).all(), found)


def only_the_malicious_change(options: Options) -> None:
    """Honest clients upload, learn and measure to the bit what they would without an attack."""
    for world in _worlds(options):
        method, draws = prepare(world)
        clean = samples(prepare(replace(world, attack=None))[1])
        honest = ~method.task.attack.insiders.among(np.arange(CLIENTS))
        for found, true in zip(samples(draws), clean, strict=True):
            require(np.array_equal(found[honest], true[honest]), "honest clients measure otherwise")
            if options.on == "values":
                require(np.array_equal(found, true), "malicious clients measure otherwise")


def a_share_of_nobody_is_clean(options: Options) -> None:
    """With a share of 0 it is the federation without attack, to the bit."""
    for world in _worlds(options):
        none = stepwise(replace(world, attack=replace(options, share=0.0)))
        require(np.array_equal(none, stepwise(replace(world, attack=None))), "the models differ")


def the_share_is_exact(options: Options) -> None:
    """In every executor the same clients are malicious, and as many as the share says."""
    for world in _worlds(options):
        alone = [prepare(world, run)[0].task.attack.insiders.ids for run in RUNS]
        require(all(len(ids) == 2 for ids in alone), f"{SHARE} of {CLIENTS} clients are {alone}")
        many = Insiders(CLIENTS, world.dim, SHARE, Seeds(world.seed, RUNS))
        require(
            np.array_equal(many.ids, alone), "several runs at once have other malicious clients"
        )


def runs_are_apart(options: Options) -> None:
    """Several runs computed at once are what each of them is alone."""
    if options.on == "values":
        everybody = np.broadcast_to(np.arange(CLIENTS), (len(RUNS), CLIENTS))
        together = _bound(options, PlacedSeeds(3, RUNS, None, everybody))
        for n in range(4):
            sent, bad, own, w = _models(together, n, (len(RUNS),))
            for run in RUNS:
                one, k = _bound(options, Seeds(3, run)), np.arange(MEMBERS)
                alone = one.models(n, k, own[run], bad[run], w[run])
                same = np.array_equal(sent[run], alone, equal_nan=True)
                require(same, f"members of run {run} send something else in round {n}")
    for world in _worlds(options):
        for run, found in zip(RUNS, some_runs(world, RUNS), strict=True):
            apart = largest(found.mse, one_run(world, run).mse)
            require(apart <= 1e-12, f"the errors of run {run} differ by {apart:.1e}")


def the_engine_agrees(options: Options) -> None:
    """Where the compiled engine has it, it gives the models of the handlers, to 1e-12."""
    tried = 0
    for world in _worlds(options):
        method, draws = prepare(world)
        if not family.knows(method):
            continue
        expected, tried = stepwise(world), tried + 1
        size = max(float(np.abs(expected).max()), 1.0)
        apart = largest(family.replay(draws, [method]).w[:, 0], expected)
        require(apart <= 1e-12 * size, f"models of {size:.1e} differ by {apart:.1e}")
    only_if(tried, "the engine does not have it")


def executors_agree(options: Options) -> None:
    """Deployed clients that are malicious do the same as simulated ones, to 1e-12."""
    only_if(not options.omniscient, "it knows what others send, as no deployed client does")
    for world in _worlds(options):
        expected = stepwise(world)
        size = float(np.abs(expected).max())
        if size > 1e6:
            continue  # deployed servers refuse such values
        apart = largest(exchange(world).models, expected)
        require(apart <= 1e-12 * max(size, 1.0), f"models of {size:.1e} differ by {apart:.1e}")


def the_omniscient_are_not_deployed(options: Options) -> None:
    """A deployment refuses it if it needs to know what others send, and only then."""
    [world, *_] = _worlds(options)
    try:
        Deployment(world)
    except InputError as error:
        require(options.omniscient, f"it is refused: {error}")
        return
    require(not options.omniscient, "it is accepted")


RULES = (
    seeds_decide, its_own_model_is_kept, finite_models_are_sent, only_the_malicious_change,
    a_share_of_nobody_is_clean, the_share_is_exact, runs_are_apart, the_engine_agrees,
    executors_agree,
    the_omniscient_are_not_deployed,
)  # fmt: skip
