"""The clients of one process, as handlers take them: one at a time, or several as a stack."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from psofed.core.schedule import Indices
from psofed.methods.contract import Array, Message, Messages, Method, Partly, Rows, State
from psofed.methods.noisy import lasting


class RoundSamples(Protocol):
    """x, z and y of round n. `known` are those with a sample, in order; None: all have one."""

    def known(self, n: int) -> Indices | None: ...

    def of(self, n: int, clients: Indices | None) -> tuple[Array, Array, Array]: ...


class Members(Protocol):
    """Those who take part in a round."""

    ids: list[int]
    new: Collection[int]  # those of them who begin anew

    @property
    def keys(self) -> Indices | list[int]: ...

    def receive(self, n: int, messages: Any) -> None: ...

    def learn(self, n: int, samples: RoundSamples) -> None: ...

    def upload(self, n: int) -> Messages: ...

    def models(self) -> Array: ...

    def upload_as(self, n: int, models: Array, which: NDArray[np.bool_]) -> Messages: ...

    def by_client(self, messages: Any) -> Mapping[int, Message]: ...

    def fetch(self) -> None: ...

    def put_back(self) -> None: ...


def among(keys: Indices, known: Indices) -> NDArray[np.bool_]:
    """Which of the clients `keys` are among the `known`, which are in order.

    >>> among(np.array([2, 7]), np.array([1, 2, 5])).tolist()
    [True, False]
    """
    if not len(known):
        return np.zeros(len(keys), bool)
    found: NDArray[np.bool_] = known.take(known.searchsorted(keys), mode="clip") == keys
    return found


class OneByOne:
    """Members of a method whose handlers take one client at a time."""

    def __init__(
        self, method: Method, ids: list[int], states: list[State], new: Collection[int] = ()
    ) -> None:
        self.method, self.ids, self.states, self.new = method, ids, states, new

    @property
    def keys(self) -> list[int]:
        return self.ids

    def only(self, ids: Iterable[int]) -> OneByOne:
        """Some of them."""
        some = list(ids)
        return OneByOne(self.method, some, [self.states[self.ids.index(k)] for k in some])

    def receive(self, n: int, messages: Any) -> None:
        for state, k, message in zip(self.states, self.ids, messages, strict=True):
            read = self.method.welcomed if k in self.new else self.method.receive
            read(state, k, n, message)

    def learn(self, n: int, samples: RoundSamples) -> None:
        if not self.ids:
            return
        x, z, y = samples.of(n, None)
        known = samples.known(n)
        fresh = None if known is None else set(known.tolist())
        for state, k in zip(self.states, self.ids, strict=True):
            if fresh is None or k in fresh:
                self.method.learn(state, x[k], z[k], y[k])

    def upload(self, n: int) -> Messages:
        return [self.method.upload(*one, n) for one in zip(self.states, self.ids, strict=True)]

    def models(self) -> Array:
        """w_k of all, [s, D]."""
        return np.stack([state["w"] for state in self.states])

    def upload_as(self, n: int, models: Array, which: NDArray[np.bool_]) -> Messages:
        """The same, where some pretend to have other models; their own stay as they are."""
        real = self.states
        self.states = [
            {**state, "w": w} if one else state
            for state, w, one in zip(real, models, which, strict=True)
        ]
        up = self.upload(n)
        self.states = real
        return up

    def by_client(self, messages: Any) -> Mapping[int, Message]:
        return dict(zip(self.ids, messages, strict=True))

    def fetch(self) -> None:
        """States are views of those of all clients: there is nothing to do."""

    put_back = fetch


class Apart(Mapping[int, Message]):
    """The uploads of several runs that are no rows of one array: to be folded run by run."""

    def __init__(self, keys: Indices, messages: Sequence[Message]) -> None:
        size = keys.shape[1]
        self.runs = [
            dict(zip(ids, messages[r * size : (r + 1) * size], strict=True))
            for r, ids in enumerate(keys.tolist())
        ]

    def __getitem__(self, k: int) -> Message:
        raise KeyError(k)

    def __iter__(self) -> Iterator[int]:
        return iter(())

    def __len__(self) -> int:
        return len(self.runs[0])


class Together:
    """Members of a method whose handlers take them all, their states copied to a stack."""

    new: Collection[int] = ()

    def __init__(self, clients: Clients, keys: Indices) -> None:
        self.method, self.clients, self.keys = clients.method, clients, keys
        self.ids: list[int] = keys.tolist() if keys.ndim == 1 else keys[0].tolist()
        self.all = keys.shape[-1] == clients.count and keys.ndim == 1
        self.rows = keys if keys.ndim == 1 else keys + clients.first
        self.fetch()

    def receive(self, n: int, messages: Any) -> None:
        if self.keys.ndim == 2:
            if messages is None:
                return
            if not isinstance(messages, list) and messages.ndim == 2:
                messages = messages[:, None]  # the same for all members of a run
        self.method.receive(self.stack, self.keys, n, messages)

    def learn(self, n: int, samples: RoundSamples) -> None:
        known = samples.known(n)
        here = None if known is None else among(self.keys, known)
        if here is None or here.all():
            self.method.learn(self.stack, *samples.of(n, None if self.all else self.keys))
        elif here.any():
            rows = np.flatnonzero(here)
            _learn_rows(self.method, self.stack, rows, samples.of(n, self.keys[rows]))

    def upload(self, n: int) -> Messages:
        messages: Messages = self.method.upload(self.stack, self.keys, n)
        return messages

    def models(self) -> Array:
        """w_k of all, [s, D] or [run, s, D]."""
        return self.stack["w"]

    def upload_as(self, n: int, models: Array, which: NDArray[np.bool_]) -> Messages:
        """The same, where some pretend to have other models; their own stay as they are."""
        real, pretended = self.stack["w"], np.where(which[..., None], models, self.stack["w"])
        up: Messages = self.method.upload({**self.stack, "w": pretended}, self.keys, n)
        np.copyto(real, pretended, where=~which[..., None])  # an upload may change its client
        return up

    def by_client(self, messages: Messages) -> Mapping[int, Message]:
        if self.keys.ndim == 2:
            if messages is None:
                return {}
            if isinstance(messages, list):
                return Apart(self.keys, messages)
            if isinstance(messages, Partly):
                return Rows(self.keys, messages.array, messages.sent)
        if messages is None:
            return dict.fromkeys(self.ids)
        if isinstance(messages, list):
            return dict(zip(self.ids, messages, strict=True))
        return Rows(self.keys, messages)

    def fetch(self) -> None:
        """Read the members' states, after those of all clients may have changed."""
        if self.all:
            self.stack = self.clients.states
        else:
            flat = self.clients.flat
            self.stack = {name: array.take(self.rows, 0) for name, array in flat.items()}

    def put_back(self) -> None:
        """Write the members' states, before those of all clients are used."""
        if not self.all:
            for name, array in self.clients.flat.items():
                array[self.rows] = self.stack[name]


class Clients:
    """All clients of this process, their states stacked along the first axis.

    With `runs`, they are those of several Monte-Carlo runs: [run, client, ...].
    """

    def __init__(
        self, method: Method, ids: Iterable[int], together: bool = False, runs: int = 0
    ) -> None:
        self.method, self.together, self.runs = method, together, runs
        states = [method.client(k) for k in ids]
        self.count, self.first = len(states), len(states) * np.arange(runs)[:, None]
        self.flat = {
            name: np.stack([state[name] for state in states] * max(runs, 1)) for name in states[0]
        }
        self.states = self.flat
        if runs:
            self.states = {
                name: array.reshape(runs, self.count, *array.shape[1:])
                for name, array in self.flat.items()
            }

    def some(self, cohort: Indices, new: Collection[int] = ()) -> Members:
        """Those who take part in a round; if there are none, without a stack.

        Those of them who are `new` begin with a fresh state.
        """
        if self.together and cohort.size and not new:
            return Together(self, cohort)
        for k in new:
            fresh = self.method.client(k) | lasting(self.state(k))
            for name, array in fresh.items():
                self.states[name][k] = array
        ids = cohort.tolist()
        return OneByOne(self.method, ids, [self.state(k) for k in ids], new)

    def state(self, k: int) -> State:
        """The state of client k; an ellipsis keeps scalars as views, so that they can change."""
        return {name: array[k, ...] for name, array in self.states.items()}

    def learn(self, n: int, samples: RoundSamples) -> None:
        """All clients that have a sample learn from it."""
        known = samples.known(n)
        if known is None or len(known) == self.count:
            self.method.learn(self.states, *samples.of(n, None))
        elif len(known):
            _learn_rows(self.method, self.states, known, samples.of(n, known))


def _learn_rows(
    method: Method, states: State, rows: Indices, samples: tuple[Array, Array, Array]
) -> None:
    some = {name: array[rows] for name, array in states.items()}
    method.learn(some, *samples)
    for name, array in states.items():
        array[rows] = some[name]
