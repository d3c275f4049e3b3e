"""A federation in three lines: samples come one by one, and rounds are played in between.

    fed = Federation(inputs=4, clients=["a", "b"])
    fed.learn_one("a", x, y)
    fed.predict_one("a", x)

`turns.py` has the round.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self
from warnings import warn

import numpy as np

from psofed.core.native import Array
from psofed.errors import InputError, PsofedWarning, nearest, written
from psofed.experiment import Experiment, parse
from psofed.extras import counted
from psofed.federation import plugins, schema
from psofed.federation.feature_table import Features
from psofed.federation.learners import lms
from psofed.federation.learners.contract import Learner
from psofed.federation.options import Options
from psofed.federation.records import DamagedError, Record, pack, unpack
from psofed.methods import psofed
from psofed.settings import choices
from psofed.simulate.client_model import ClientModel, Inputs, Name, inputs_of, label
from psofed.simulate.turns import Given, Turns
from psofed.stages.checks.contract import SampleCheck
from psofed.stages.defences.contract import Options as Defending
from psofed.stages.mix import MixOptions

KIND = "federation"
SMALLER = "use a smaller step, and inputs and targets of about 1"


def check_step(mu: float, stacklevel: int) -> None:
    """E|z|^2 = 1 of cosines, and a step of 2 / |z|^2 undoes all that was learned."""
    if mu >= 2:
        warn(f"step {mu:g} is unsafe; {SMALLER}", PsofedWarning, stacklevel)


class Traffic(NamedTuple):
    """Bytes of messages: up to the server, down to clients, and what each client gets once."""

    up: int
    down: int
    once: int


class Federation:
    """Clients with streams of their own, and a server, in this process.

    `inputs` is how many numbers a sample has, or their names. `clients` are names, or how many
    there are; others may come later. A round ends when as many samples have come as there are
    clients, after `every` samples, or with `every=0` when `round()` is called. It is the round of
    `psofed.run` and of a deployment: a member gets its download when the round opens, all learn
    their samples as these come, and members upload when it ends. Who joins later learns from its
    first contact on; `early` counts the samples before. Name clients at first if you know them. It
    belongs to one thread. Scale inputs and target to about
    1 before.

    >>> fed = Federation(inputs=["x"], clients=["a", "b"], features=Features(dim=50, width=0.5))
    >>> for i in range(400):
    ...     fed.learn_one("ab"[i % 2], {"x": i % 7 / 3}, float(i % 7 > 3))
    >>> round(fed.predict_one("a", {"x": 0.0})), round(fed.predict_one("b", [2.0]))
    (0, 1)
    >>> fed
    <Federation: PSO-Fed M=10 uncoordinated, 2 clients, 400 samples, 200 rounds, 32,000 bytes>
    """

    def __init__(
        self, inputs: int | Sequence[str], clients: int | Iterable[Name] = (),
        method: Options | str | None = None, *, cohort: int = 4, every: int | None = None,
        step: float = 0.5, features: Features | None = None, learner: Learner | str | None = None,
        mix: MixOptions | bool = False, check: SampleCheck | str | None = None,
        defence: Defending | str | None = None, seed: int = 0,
        dtype: Literal["float32", "float64"] = "float64",
    ) -> None:  # fmt: skip
        """Defaults are those of the paper, but the step; not set are features of the paper's kind
        with a width of sqrt(inputs), and as the method PSO-Fed that shares a fifth of the model.
        """
        self.inputs = inputs_of(inputs)
        self._rows = _rows(clients)
        learner = lms.Options() if learner is None else learner
        around: dict[str, Any] = {"learner": learner, "mix": mix, "check": check,
                                  "defence": defence}  # fmt: skip
        around = choices(around | {"features": features})
        known: Learner = around["learner"]
        if features is None:
            features = Features(width=self.inputs.count**0.5) if known.featured else Features()
        stream, several = Given(self.inputs.count), max(len(self._rows), 1)
        if method is None:
            method = psofed.Options(max(known.size(stream.taps, features.entries) // 5, 1))
        chosen: Any = method
        self._check(cohort, every)
        with _named():
            experiment = Experiment(
                clients=several, cohort=min(cohort, several), step=step, dtype=dtype, seed=seed,
                stream=stream, features=features, methods=(chosen,), runs=1, **around,
            )  # fmt: skip
            experiment = experiment.alone(experiment.methods[0])
        self._begin(experiment, cohort, every)
        if self._turns.task.learner.lms and experiment.features.name == "cosine":
            check_step(experiment.methods[0].step or step, stacklevel=3)

    def _begin(self, experiment: Experiment, cohort: int, every: int | None) -> None:
        self.experiment, self.cohort, self.every = experiment, cohort, every
        self._turns = Turns(experiment, cohort, len(self._rows))
        self._waiting = 0  # samples since the last round
        self.early = 0  # samples of newcomers before their first contact, which nobody learned

    @staticmethod
    def _check(cohort: int, every: int | None) -> None:
        for key, value, least in (("cohort", cohort, 1), ("every", every, 0)):
            if value is not None and (type(value) is not int or value < least):
                raise InputError(key, f"is {value!r}", f"use a whole number, {least} or more")

    @property
    def clients(self) -> list[Name]:
        """Those who are there, in the order in which they came."""
        there = self._turns.attendance.now
        return [name for name, row in self._rows.items() if row in there]

    @property
    def rounds(self) -> int:
        """Rounds that have ended."""
        return self._turns.n

    @property
    def model(self) -> Array:
        """The model of all: the server's, or the mean of the clients' if it has none."""
        return self._turns.shared.copy()

    @property
    def models(self) -> dict[Name, Array]:
        """The own model of each client who has one."""
        turns = self._turns
        try:
            found = turns.method.models(None, turns.clients.states)
        except KeyError:  # clients of this method keep none
            return {}
        return {name: found[k].copy() for name, k in self._rows.items() if turns.begun[k]}

    def features(self, x: Array) -> Array:
        """z(x) for x [..., L], the same for all clients."""
        return self._turns.features(np.asarray(x, self.experiment.dtype))

    @property
    def traffic(self) -> Traffic:
        """Bytes so far."""
        up, down = self._turns.sent.tolist()
        return Traffic(up, down, self._turns.once * len(self._rows))

    def learn_one(self, client: Name, x: Any, y: Any) -> None:
        """A sample of a client, who joins if it is not known. Then a round may end."""
        Y = label(y, self.experiment.dtype)
        X = self.inputs.read(x, self.experiment.dtype, learned=True)
        row = self._known(client)
        if row is None:
            row = self.join(client)
        elif row not in self._turns.attendance.now:
            found = f"is {client!r}, who has left"
            raise InputError("client", found, "let it join first: fed.join(client)")
        self._turns.learn(row, X, Y)
        self.early += not self._turns.begun[row]
        self._waiting += 1
        if self.every != 0 and self._waiting >= (self.every or len(self._turns.attendance.now)):
            self.round()

    def predict_one(self, client: Name, x: Any) -> float:
        """What a client answers; one that is not known has the model of all."""
        found = self._turns.predict(self._known(client), self.inputs.read(x, self.experiment.dtype))
        if not isfinite(found):
            warn(f"the model of {client!r} has diverged; {SMALLER}", PsofedWarning, stacklevel=2)
        return found

    def round(self) -> tuple[int, int]:
        """End the round: members upload, the server folds. Returns its bytes, up and down."""
        self._waiting = 0
        return self._turns.close()

    def client(self, name: Name) -> ClientModel:
        """A copy of a client, to be pickled, moved, and put back by `join`."""
        row, turns = self._row(name), self._turns
        if not turns.begun[row]:
            found = f"is {name!r}, who has not been asked in any round"
            raise InputError("client", found, "wait until it was, or let it join later")
        state = {key: array.copy() for key, array in turns.view(row).items()}
        counts = int(turns.samples[row]), int(turns.touched[row])
        return ClientModel(name, replace(self.inputs), self.experiment, state, *counts)

    def leave(self, name: Name) -> ClientModel:
        """A client goes, with its state; it is not asked until it joins again."""
        found = self.client(name)
        self._turns.check_open()
        self._turns.leave(self._row(name))
        return found

    def join(self, client: Name | ClientModel) -> int:
        """A client comes or comes back: a name starts over, at its first contact with the server;
        what `client` or `leave` returned goes on with what it has learned.
        """
        if not isinstance(client, ClientModel):
            client = _name(client)
            row = self._rows.get(client)
            if row is not None and row in self._turns.attendance.now:
                raise InputError("client", f"is {client!r}, who has joined", "give another name")
            self._rows[client] = self._turns.join(row)
            return self._rows[client]
        client.check(self.experiment)
        row = self._rows.get(client.name)
        if row is not None and self._turns.touched[row] != client.touched:
            found = f"is {client.name!r}, who has gone on here since it was copied"
            right = "copy it again, or let it `leave` before it learns elsewhere"
            raise InputError("client", found, right)
        row = self._rows[client.name] = self._turns.join(row, client.state)
        self._turns.samples[row] = client.samples
        return row

    def _known(self, client: Name) -> int | None:
        """The row of a client, if it is known."""
        return self._rows.get(_name(client))

    def _row(self, name: Name) -> int:
        row = self._known(name)
        if row is None or row not in self._turns.attendance.now:
            known = nearest(str(name), [str(each) for each in self.clients] or ["none"])
            raise InputError("client", f"is {name!r}, who is not there", known)
        return row

    def save(self, path: str | Path) -> None:
        """Everything, in one file that `Federation.load` reads; also in the middle of a round."""
        about = {
            "kind": KIND, "experiment": self.experiment.to_table(), "cohort": self.cohort,
            "every": self.every, "inputs": list(self.inputs.names), "clients": list(self._rows),
            "waiting": self._waiting, "early": self.early,
        }  # fmt: skip
        with written(path, "give another file"):
            Path(path).write_bytes(pack(Record(about, self._turns.to_arrays())))

    @classmethod
    def load(cls, path: str | Path, trusted: bool = False) -> Self:
        """What `save` wrote. No code runs, unless the file is `trusted`: a method of your own is
        then imported from where it was.
        """
        try:
            record = unpack(Path(path).read_bytes())
            if record.about.get("kind") != KIND:
                raise DamagedError("it is a record of something else")
            with schema.inside(where=str(path)):
                return cls._of(record, trusted)
        except OSError as error:
            found, right = f"cannot be read: {error.strerror}", "give a file that `save` wrote"
        except (DamagedError, KeyError, TypeError) as error:
            found, right = f"is not a saved federation, or is damaged: {error}", "give another file"
        raise InputError("", found, right, str(path))

    @classmethod
    def _of(cls, record: Record, trusted: bool) -> Self:
        about, fed = record.about, cls.__new__(cls)
        with plugins.refused("" if trusted else "load it with trusted=True if the file is yours"):
            experiment = parse(about["experiment"], lambda key, table: Given(table["taps"]))
        fed.inputs = Inputs(experiment.stream.taps, tuple(about["inputs"]))
        fed._rows = _rows(about["clients"])
        fed._begin(experiment, about["cohort"], about["every"])
        fed._turns.restore(record.arrays)
        fed._waiting, fed.early = about["waiting"], about["early"]
        return fed

    def __repr__(self) -> str:
        """In a line."""
        turns = self._turns
        counts = len(self.clients), int(turns.samples.sum()), self.rounds, int(turns.sent.sum())
        named = zip(counts, ("client", "sample", "round", "byte"), strict=True)
        facts = ", ".join(counted(count, name) for count, name in named)
        facts += f", {self.early:,} of newcomers not learned" if self.early else ""
        return f"<Federation: {self.experiment.titles[0]}, {facts}>"


def _name(name: Any) -> Name:
    name = int(name) if isinstance(name, np.integer) else name
    if type(name) is bool or not isinstance(name, str | int):
        raise InputError("client", f"is {name!r:.60}", "give a text or a whole number")
    return name


def _rows(names: int | Iterable[Name]) -> dict[Name, int]:
    """The row of each client."""
    count = isinstance(names, int) and names >= 0
    if isinstance(names, str) or not (count or isinstance(names, Iterable)):
        raise InputError("clients", f"is {names!r}", "give a list of names, or how many")
    given = [*range(names)] if isinstance(names, int) else [_name(name) for name in names]
    found = {name: row for row, name in enumerate(given)}
    if len(found) < len(given):
        twice = next(name for row, name in enumerate(given) if found[name] != row)
        raise InputError("clients", f"has {twice!r} twice", "name each once")
    return found


@contextmanager
def _named() -> Iterator[None]:
    """Errors of an experiment in the words of a federation, which has one method."""
    try:
        yield
    except InputError as error:
        key = error.field.replace("methods[0]", "method")
        raise InputError(key, error.found, error.right) from None
