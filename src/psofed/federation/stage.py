"""A stage stands around a method: it changes what is learned, what travels, or what is folded.

A stage has the handlers of a method, each of which asks the one it stands around unless the stage
has its own. So stages are put around a method one after another, in any number, and neither the
method nor an executor has to know of them. What a stage remembers are arrays of its own in the
states of clients and of the server, under names that begin with the stage's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any

import numpy as np

from psofed.core.schedule import Indices
from psofed.errors import InputError
from psofed.federation.contract import ABSENT, Array, Message, Method, State, Task, rows
from psofed.federation.foreign import broken, kind

# A client that starts over has a fresh state, but for arrays whose names begin with this word.
LASTING = "lasting "
CONTRACT = "see the contract in docs/extend.md, or try `psofed check`"


class Stage:
    """A method, and what stands around it. A subclass writes the handlers that it changes."""

    answers = False  # whether clients answer with it, not with their own models
    entrywise = False  # of a class; a stage around a method is as that is

    def __init__(self, inner: Method) -> None:
        self.inner, self.task, self.step = inner, inner.task, inner.step
        self.idle, self.pace, self.delivery = inner.idle, inner.pace, inner.delivery
        self.entrywise, self.several, self.lazy = inner.entrywise, inner.several, inner.lazy

    def cohort(self, n: int, server: State) -> Indices:
        return self.inner.cohort(n, server)

    def server(self) -> State:
        return self.inner.server()

    def client(self) -> State:
        return self.inner.client()

    def download(self, server: State, k: Indices, n: int) -> Message:
        return self.inner.download(server, k, n)

    def receive(self, client: State, k: Indices, n: int, message: Message) -> None:
        self.inner.receive(client, k, n, message)

    def learn(self, client: State, x: Array, z: Array, y: Array) -> None:
        self.inner.learn(client, x, z, y)

    def upload(self, client: State, k: Indices, n: int) -> Message:
        return self.inner.upload(client, k, n)

    def fold(self, server: State, k: Indices, n: int, message: Message, weights: Array) -> None:
        self.inner.fold(server, k, n, message, weights)

    def models(self, server: State | None, clients: State) -> Array:
        return self.inner.models(server, clients)

    def entries(self, k: Indices, n: Any, up: bool) -> Indices:
        return self.inner.entries(k, n, up)

    def encode(self, values: Array, up: bool) -> bytes:
        return self.inner.encode(values, up)

    def decode(self, data: bytes, up: bool) -> Array:
        return self.inner.decode(data, up)

    def resize(self) -> None:
        """The task has places for other clients: what depends on their number follows."""

    def extra(self, uploads: int) -> tuple[int, int, int]:
        """Bytes of the last round besides its messages, of which `uploads` came up.

        They go up, down, and down where equal ones go once.
        """
        return 0, 0, 0


def around(method: Method) -> Iterator[Stage]:
    """The stages around a method, the outermost first."""
    while isinstance(method, Stage):
        yield method
        method = method.inner


def answering(method: Method) -> Any:
    """The stage with which clients answer, if there is one."""
    return next((stage for stage in around(method) if stage.answers), None)


def answer(method: Method, client: State, x: Array, z: Array) -> Array:
    """What clients predict [s], by that stage or their own models. A KeyError: they have none."""
    stage = answering(method)
    if stage is not None:
        return np.asarray(stage.answer(client, x, z)[0])
    return np.asarray(method.task.learner.predict(method.models(None, client), z))


def within(method: Method) -> Method:
    """The method without its stages."""
    while isinstance(method, Stage):
        method = method.inner
    return method


def resized(method: Method, task: Task) -> Method:
    """The method with its stages, for a task that has places for other clients."""
    more = copy(method)
    more.task = task
    if isinstance(more, Stage):
        more.inner = resized(more.inner, task)
        more.resize()
    return more


class Lifted(Stage):
    """A method of one client at a time, for stacks: what its handlers change in place is kept."""

    inner: Any

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.learner = inner.learner

    def download(self, server: State, k: Indices, n: int) -> Message:
        return self._rows("download", [self.inner.download(server, int(one), n) for one in k])

    def receive(self, client: State, k: Indices, n: int, message: Message) -> None:
        for i, one in enumerate(k):
            with self._one("receive", client, i) as state:
                self.inner.receive(state, int(one), n, message.row(i))

    def learn(self, client: State, x: Array, z: Array, y: Array) -> None:
        for i in range(len(y)):
            with self._one("learn", client, i) as state:
                self.inner.learn(state, x[i], z[i], y[i])

    def upload(self, client: State, k: Indices, n: int) -> Message:
        found = []
        for i, one in enumerate(k):
            with self._one("upload", client, i) as state:
                found.append(self.inner.upload(state, int(one), n))
        return self._rows("upload", found)

    def fold(self, server: State, k: Indices, n: int, message: Message, weights: Array) -> None:
        sent = [i for i in range(len(k)) if message.length[i] != ABSENT]
        uploads = {int(k[i]): message.values[i, : message.length[i]] for i in sent}
        self.inner.fold(server, n, uploads, {int(k[i]): float(weights[i]) for i in sent})

    def _rows(self, handler: str, messages: list[Any]) -> Message:
        """The messages of a stack; each is None or numbers [m]."""
        found: list[Array | None] = []
        for message in messages:
            try:
                values = None if message is None else np.asarray(message)
            except ValueError:
                raise self._wrong(handler, "returns a ragged list, not numbers [m]") from None
            if values is not None and (values.ndim != 1 or values.dtype.kind not in "biuf"):
                raise self._wrong(handler, f"returns {kind(message)}, not None or numbers [m]")
            found.append(values)
        return rows(found, self.task.dtype)

    @contextmanager
    def _one(self, handler: str, client: State, i: int) -> Iterator[State]:
        """The state of one client; arrays that a handler puts in the place of others are kept."""
        # An ellipsis keeps numbers as views, so that they can change.
        views = {name: array[i, ...] for name, array in client.items()}
        state = dict(views)
        yield state
        for name, array in state.items():
            if name not in views:
                found = f"adds state {name!r}; `client` has to name all of it at first"
                raise self._wrong(handler, found)
            if array is not views[name]:
                if np.shape(array) != views[name].shape:
                    made = f"{kind(views[name])}, into {kind(array)}"
                    raise self._wrong(handler, f"makes state {name!r}, {made}")
                client[name][i] = array

    def _wrong(self, handler: str, found: str) -> InputError:
        return broken(type(self.inner), handler, found, CONTRACT)
