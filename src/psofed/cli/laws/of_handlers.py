"""The rules of a method's handlers, called one by one: stacks, runs, cohorts and bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psofed.cli.laws.drivers import CLIENTS, largest, played, prepare, samples, small, stepwise
from psofed.cli.laws.rules import BrokenError, applies, close, require
from psofed.core import payload
from psofed.core.schedule import Indices
from psofed.federation import round as rounds
from psofed.federation.clients import Clients, EachRound, learn
from psofed.federation.contract import ABSENT, Message, Method, State
from psofed.federation.options import Options
from psofed.federation.stage import Lifted, around
from psofed.fleet.protocol import in_memory
from psofed.simulate import any_method, kernel
from psofed.simulate.draws import Draws, draw

Array = NDArray[Any]
RUNS = (0, 2, 5)
SAME = 1e-12
LONG = 50  # times its length, no message can be


def cohorts_are_clients(options: Options) -> None:
    """A cohort is an array of clients, in order, each once."""
    method, draws = prepare(small(options))
    for n, moment in enumerate(played(method, draws)):
        k = rounds.members(method, n, moment.server)
        found = f"in round {n} it is {k.tolist()}; there are {CLIENTS} clients"
        require(k.ndim == 1 and (np.diff(k) > 0).all(), f"{found}, in order")
        require(((k >= 0) & (k < CLIENTS)).all(), found)


class _Exchange(NamedTuple):
    """What the members of one round have before it, get and learn from."""

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


def _part(method: Method, one: _Exchange, rows: Any) -> tuple[Message, Message, State]:
    """What goes down to some members, what comes up from them, and their states after it."""
    k, given = one.k[rows], {name: array[rows].copy() for name, array in one.client.items()}
    lesson, state = (one.x[rows], one.z[rows], one.y[rows]), dict(given)
    down = rounds.open_round(method, one.server, k, one.n)
    up = rounds.take_part(method, state, k, one.n, down, lambda: learn(method, state, *lesson))
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
                require(apart <= SAME, f"{where} has another state[{name!r}] alone")
    require(tried or options.alone, "no round has two members")


def _same_row(message: Message, i: int, alone: Message, found: str) -> None:
    length = int(message.length[i])
    require(length == alone.length[0], f"{found}: {length} values, not {alone.length[0]}")
    values = message.values[i]
    require(not values[max(length, 0) :].any(), f"{found}: behind its {length} values are others")
    if length != ABSENT:
        require(largest(values[:length], alone.values[0, :length]) <= SAME, found)


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
    """Decoding gives back what was encoded."""
    method, draws = prepare(small(options))
    for values, up, data in _sent(method, draws):
        if values.any():  # zeros are what the ends measure sizes by, and no message of some
            way = "upload" if up else "download"
            same = np.array_equal(method.decode(data, up), values)
            require(same, f"an {way} of {len(values)} values is another one after the wire")


def decoding_refuses_the_rest(options: Options) -> None:
    """Decoding refuses, with a ValueError, what encoding cannot have made."""
    method, draws = prepare(small(options))
    tried = set()
    for _, up, data in _sent(method, draws):
        if (up, len(data)) in tried or data == payload.NOTHING:
            continue
        tried.add((up, len(data)))
        for other in (data[:-1], data[: len(data) // 2], data + b"\0", data + data[:9]):
            _refused_or_made(method, other, up, f"{len(other)} bytes instead of {len(data)}")
        _refused_or_made(method, data * LONG, up, "", f"a message {LONG} times as long is accepted")


def _refused_or_made(method: Method, data: bytes, up: bool, what: str, never: str = "") -> None:
    """A ValueError, or values of which these bytes are made."""
    try:
        values = method.decode(data, up)
    except ValueError:
        return
    except Exception as error:
        raise BrokenError(f"{what or 'a long message'}: {type(error).__name__}: {error}") from None
    require(not never, never)
    made = method.encode(values, up) == data and not method.entrywise
    require(made, f"{what} are read as {len(values)} values")


def saved_states_go_on(options: Options) -> None:
    """A state that is saved and loaded goes on as if nothing had happened."""
    whole, first, second = (_Run(*prepare(small(options))) for _ in range(3))
    half, end = whole.rounds // 2, whole.rounds
    whole.play(0, end)
    first.play(0, half)
    second.load(first)
    second.play(half, end)
    states = ((whole.server, second.server), (whole.clients.states, second.clients.states))
    for expected, found in states:
        for key, array in expected.items():
            same = np.array_equal(array, found[key], equal_nan=array.dtype.kind == "f")
            require(same, f"state[{key!r}] is another one: something is kept outside the state")


class _Run:
    """A run of which another method object can take over the states."""

    def __init__(self, method: Method, draws: Draws) -> None:
        self.server, self.clients = method.server(), Clients(method, CLIENTS)
        self.rounds, self.samples = draws.rounds, any_method.RunSamples(draws)
        self.sizes = rounds.Sizes(method)

    def play(self, first: int, stop: int) -> None:
        lessons = EachRound(self.clients, self.samples)
        for n in range(first, stop):
            self.samples.move_to(n)
            rounds.play(n, self.server, self.clients, lessons, self.sizes)

    def load(self, other: _Run) -> None:
        self.server = _copy(other.server)
        for name, array in other.clients.states.items():
            self.clients.states[name][...] = array


RULES = (
    cohorts_are_clients, stacks_are_their_clients, several_runs_are_each_alone,
    common_downloads_are_equal, messages_survive_the_wire, decoding_refuses_the_rest,
    saved_states_go_on,
)  # fmt: skip
