"""The rules of a method: its handlers one by one, then whole runs, simulated and as messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from psofed.cli.laws.drivers import (
    CLIENTS,
    STREAMS,
    exchange,
    fits,
    largest,
    played,
    prepare,
    samples,
    simulate,
    small,
    stepwise,
    world,
)
from psofed.cli.laws.rules import TOLERANCE, BrokenError, applies, close, require
from psofed.core import payload
from psofed.core.schedule import Indices
from psofed.federation import round as rounds
from psofed.federation.clients import Clients, EachRound, learn
from psofed.federation.contract import ABSENT, Array, Message, Method, State
from psofed.federation.options import Options
from psofed.federation.stage import Lifted, around
from psofed.fleet.protocol import in_memory
from psofed.rivals.policies import fedcs
from psofed.simulate import any_method, kernel
from psofed.simulate.draws import Draws, draw

RUNS = (0, 2, 5)
LONG = 50  # times its length, no message can be
ANY = fedcs.Options(share=0.6, deadline=float("inf"))


def cohorts_are_clients(options: Options) -> None:
    """A cohort is an array of clients, in order, each once."""
    method, draws = prepare(small(options))
    for n, moment in enumerate(played(method, draws)):
        k = rounds.members(method, n, moment.server)
        found = f"in round {n} it is {k.tolist()}; there are {CLIENTS} clients"
        require(k.ndim == 1 and (np.diff(k) > 0).all(), f"{found}, in order")
        require(((k >= 0) & (k < CLIENTS)).all(), found)


class _Exchange(NamedTuple):
    """What the members of one round have before it, and learn from."""

    n: int
    k: Indices
    server: State
    client: State
    x: Array
    z: Array
    y: Array


def _exchanges(method: Method, draws: Draws) -> Iterator[_Exchange]:
    """The rounds of a run, with the states that their members have in them."""
    x, y = samples(draws)
    z = method.task.features(x)
    for n, moment in enumerate(played(method, draws)):
        if n < draws.rounds:
            k = rounds.members(method, n, moment.server)
            client = {name: array[k] for name, array in moment.clients.items()}
            yield _Exchange(n, k, _copy(moment.server), client, x[k, n], z[k, n], y[k, n])


def _copy(state: State) -> State:
    return {name: array.copy() for name, array in state.items()}


def _part(method: Method, one: _Exchange, rows: slice) -> tuple[Message, Message, State]:
    """What goes down to some members, what comes up from them, and their states after it."""
    k, given = one.k[rows], {name: array[rows].copy() for name, array in one.client.items()}
    sample, state = (one.x[rows], one.z[rows], one.y[rows]), dict(given)
    down = rounds.open_round(method, one.server, k, one.n)
    up = rounds.take_part(method, state, k, one.n, down, lambda: learn(method, state, *sample))
    for name, array in state.items():
        require(given.get(name) is array, f"state[{name!r}] is replaced, not changed in place")
    return down, up, state


def stacks_are_their_clients(options: Options) -> None:
    """A stack of clients gets, learns and sends what each of them does alone."""
    method, draws = prepare(small(options))
    tried = False
    for one in _exchanges(method, draws):
        tried = tried or len(one.k) > 1
        *messages, state = _part(method, one, slice(None))
        for i in range(len(one.k)):
            *others, own = _part(method, one, slice(i, i + 1))
            where = f"in round {one.n} client {one.k[i]}"
            for what, both, alone in zip(("gets", "sends"), messages, others, strict=True):
                _same_row(both, i, alone, f"{where} {what} something else alone")
            for name, array in own.items():
                apart = largest(array[0], state[name][i])
                require(apart <= TOLERANCE, f"{where} has another state[{name!r}] alone")
    require(tried or options.alone, "no round has two members")


def _same_row(message: Message, i: int, alone: Message, found: str) -> None:
    length = int(message.length[i])
    require(length == alone.length[0], f"{found}: {length} values, not {alone.length[0]}")
    values = message.values[i]
    require(not values[max(length, 0) :].any(), f"{found}: more than its {length} values")
    if length != ABSENT:
        require(largest(values[:length], alone.values[0, :length]) <= TOLERANCE, found)


def _one_run(options: Options) -> str:
    method, _ = prepare(small(options))
    if any(isinstance(stage, Lifted) for stage in around(method)):
        return "its handlers have one client at a time"
    if not method.several:
        return "it declares `several = False`"
    return "it learns several samples in a row" if method.lazy else ""


@applies(_one_run)
def several_runs_are_each_alone(options: Options) -> None:
    """Several runs in one call are what each of them is alone."""
    experiment = small(options)
    tasks = [kernel.faster(experiment.task(run, wire="float64")) for run in RUNS]
    draws = [draw(experiment, task, everybody=True, in_order=True) for task in tasks]
    task = any_method.joined(tasks, draws)
    (method,) = experiment.start(task)
    moments = any_method.play(method, any_method.RunSamples(*draws, task=task))
    found = np.array([method.models(m.server, m.clients).copy() for m in moments])
    for r, run in enumerate(RUNS):
        close(found[:, r], stepwise(experiment, run), f"run {run} among others and alone")


def _not_common(options: Options) -> str:
    method, _ = prepare(small(options))
    return "" if method.delivery == "common" else f"its `delivery` is {method.delivery!r}"


@applies(_not_common)
def common_downloads_are_equal(options: Options) -> None:
    """A common download is the same for the whole cohort."""
    method, draws = prepare(small(options))
    for one in _exchanges(method, draws):
        down = rounds.open_round(method, one.server, one.k, one.n)
        same = (down.values == down.values[:1]).all() and len(set(down.length.tolist())) <= 1
        require(same, f"`common` is declared, but in round {one.n} the downloads differ")


def _sent(method: Any, draws: Draws) -> list[tuple[Array, bool, bytes]]:
    """All messages of a run: their values, whether they go up, and their bytes."""
    seen, encode = [], method.encode

    def watched(values: Array, up: bool) -> bytes:
        data: bytes = encode(values, up)
        seen.append((values, up, data))
        return data

    method.encode = watched
    try:
        in_memory.run(method, *samples(draws))
    finally:
        del method.encode
    return seen


def messages_survive_the_wire(options: Options) -> None:
    """Decoding gives back what was encoded, and refuses with a ValueError what cannot have been."""
    method, draws = prepare(small(options))
    tried = set()
    for values, up, data in _sent(method, draws):
        if values.any():  # zeros are what the ends measure sizes by, and no message of some
            same = np.array_equal(method.decode(data, up), values)
            way = "upload" if up else "download"
            require(same, f"an {way} of {len(values)} values is another one after the wire")
        if data != payload.NOTHING and (up, len(data)) not in tried:
            tried.add((up, len(data)))
            for other in (data[:-1], data[: len(data) // 2], data + b"\0", data * LONG):
                found = f"{len(other)} bytes instead of {len(data)}"
                _refused_or_made(method, other, up, found, len(other) < LONG * len(data))


def _refused_or_made(method: Method, data: bytes, up: bool, what: str, may: bool) -> None:
    """A ValueError or, if it may be, values of which these bytes are made."""
    try:
        values = method.decode(data, up)
    except ValueError:
        return
    except Exception as error:
        raise BrokenError(f"{what}: {type(error).__name__}: {error}") from None
    made = may and method.encode(values, up) == data and not method.entrywise
    require(made, f"{what} are read as {len(values)} values")


def saved_states_go_on(options: Options) -> None:
    """A state that is saved and loaded goes on as if nothing had happened."""
    whole = _part_of_run(options, 0, 30)
    found = _part_of_run(options, 15, 30, *_part_of_run(options, 0, 15))
    for expected, states in zip(whole, found, strict=True):
        for key, array in expected.items():
            same = np.array_equal(array, states[key], equal_nan=array.dtype.kind == "f")
            require(same, f"state[{key!r}] is another one: something is kept outside the state")


def _part_of_run(
    options: Options,
    first: int,
    stop: int,
    server: State | None = None,
    states: State | None = None,
) -> tuple[State, State]:
    """The states of server and clients after some rounds, by a method object of their own."""
    method, draws = prepare(small(options))
    server = method.server() if server is None else server
    clients, source = Clients(method, CLIENTS), any_method.RunSamples(draws)
    for name, array in (states or {}).items():
        clients.states[name][...] = array
    feed, sizes = EachRound(clients, source), rounds.Sizes(method)
    for n in range(first, stop):
        source.move_to(n)
        rounds.play(n, server, clients, feed, sizes)
    return server, clients.states


def seeds_decide(options: Options) -> None:
    """The same seed gives the same bits, and another one does not."""
    first, again = simulate(small(options)), simulate(small(options))
    require(np.array_equal(first, again), "a second run of the same seed gives other models")
    for other in (simulate(small(options, seed=1)), simulate(small(options), run=1)):
        require(not np.array_equal(first, other), "another seed or run gives the same models")


def bytes_counted_are_sent(options: Options) -> None:
    """The bytes counted are the bytes sent."""
    experiment = small(options)
    sent = exchange(experiment).traffic
    counted = [moment.traffic for moment in played(*prepare(experiment))][1:]
    for n, (one, other) in enumerate(zip(counted, sent, strict=True)):
        what = f"in round {n} {one} bytes are counted, {tuple(other.tolist())} sent"
        require(one == tuple(other), f"{what} (up, down, multicast down)")


def zero_targets_leave_zero_models(options: Options) -> None:
    """Targets of zero leave a model of zero."""
    method, draws = prepare(small(options))
    x, y = samples(draws)
    models = in_memory.run(method, x, np.zeros_like(y)).models
    require(not models.any(), f"the model reaches {np.abs(models).max():.1e}")


def models_stay_finite(options: Options) -> None:
    """Models stay finite on the paper's stream, in both precisions, and keep their type."""
    for dtype, length in (("float32", 300), ("float64", 30)):  # what grows ends in float32 first
        experiment = small(options, dtype=dtype, rounds=length)
        models = simulate(experiment)
        require(np.isfinite(models).all(), f"they do not in {dtype}, within {length} rounds")
        require(models.dtype == dtype, f"they are {models.dtype} where the task is {dtype}")
        shape, dim = models.shape[1:], experiment.dim
        require(shape in ((dim,), (experiment.clients, dim)), f"they have the shape {list(shape)}")


def executors_agree(options: Options) -> None:
    """Deployed, it gives the models of the simulation in every round, with missing samples too."""
    for stream in ("steady",) if options.gapless else STREAMS:
        experiment = world(options, stream)
        expected = stepwise(experiment)
        require(np.abs(expected).max() > 0, "the model stays 0: nothing is learned")
        method, draws = prepare(experiment)
        if not (draws.gaps and rounds.relays(method)):
            close(exchange(experiment).models, expected, f"sent and simulated models, {stream},")


@applies(lambda options: "" if fits(options, ANY) else "it takes no policy")
def folds_are_linear(options: Options) -> None:
    """A fold is linear in the weights, and leaves the model where they are zero.

    A step of the server's own comes after it.
    """
    method, draws = prepare(small(replace(options, server=None)))
    moved = False
    for one in _exchanges(method, draws):
        if not rounds.closes(method, one.n):
            continue
        learn(method, one.client, one.x, one.z, one.y)
        message = method.upload(one.client, one.k, one.n)
        change = []
        for scale in (0.0, 1.0, 2.0):
            server = _copy(one.server)
            weights = np.where(message.heard, scale * (0.3 + np.arange(len(one.k))), 0.0)
            method.fold(server, one.k, one.n, message, weights)
            change.append(server["w"] - one.server["w"])
        require(not change[0].any(), f"weights of 0 move the model in round {one.n}")
        apart = np.abs(change[2] - 2 * change[1]).max()
        require(apart <= TOLERANCE, f"twice the weights are off by {apart:.1e} in round {one.n}")
        moved = moved or bool(change[1].any())
    require(moved, "no fold moves the model")


RULES = (
    cohorts_are_clients, stacks_are_their_clients, several_runs_are_each_alone,
    common_downloads_are_equal, messages_survive_the_wire, saved_states_go_on, seeds_decide,
    bytes_counted_are_sent, zero_targets_leave_zero_models, models_stay_finite, executors_agree,
    folds_are_linear,
)  # fmt: skip
