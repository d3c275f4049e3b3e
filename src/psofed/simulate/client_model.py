"""A client of a federation by itself, and the samples that it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from psofed.core.native import Array
from psofed.errors import InputError, nearest
from psofed.experiment import Experiment
from psofed.extras import counted
from psofed.federation.clients import learn
from psofed.federation.contract import State
from psofed.federation.stage import answer
from psofed.simulate import kernel
from psofed.stages.surroundings import start

Name = str | int


@dataclass(eq=False)
class Inputs:
    """How many numbers a sample has and, if they are known, their names."""

    count: int
    names: tuple[str, ...] = ()
    nameless: bool = False  # whether a sample was learned that had no names

    def read(self, x: Any, dtype: str, learned: bool = False) -> Array:
        """x [1, L] of an array, or of a dict or row with names; the first one `learned` says which
        name is where."""
        names: tuple[str, ...] = ()
        if hasattr(x, "_fields"):
            x = x._asdict()
        if hasattr(x, "keys"):
            names = tuple(str(key) for key in x.keys())  # noqa: SIM118
            x = self._ordered(dict(zip(names, (x[key] for key in x.keys()), strict=True)))  # noqa: SIM118
        found = _numbers("x", x, dtype).reshape(1, -1)
        if found.shape[1] != self.count or np.size(x) != self.count:
            have = f"has {np.size(x)} numbers" if np.ndim(x) else f"is {x!r}"
            raise InputError("x", have, f"give {self.count}, one for each input")
        if not np.isfinite(found).all():
            raise InputError("x", f"is {x!r:.60}", "give finite numbers, or leave the sample out")
        if learned:
            self.names, self.nameless = self.names or names, self.nameless or not names
        return found

    def _ordered(self, row: Mapping[str, Any]) -> list[Any]:
        if not self.names:
            if len(row) != self.count:
                found = f"has {len(row)} numbers: {', '.join(row)}"
                raise InputError("x", found, f"give {self.count}, one for each input")
            if self.nameless:
                right = "give numbers in their order, or name the inputs at first"
                raise InputError("x", "has names, but earlier samples had none", right)
            return [*row.values()]
        for name in row:
            if name not in self.names:
                raise InputError("x", f"has {name!r}", nearest(name, [*self.names]))
        for name in self.names:
            if name not in row:
                raise InputError("x", f"has no {name!r}", f"give {', '.join(self.names)}")
        return [row[name] for name in self.names]


def _numbers(field: str, value: Any, dtype: str, right: str = "give numbers") -> Array:
    """What a user gives, in this precision: no text, time, complex or masked number."""
    try:
        given = np.asarray(value)
        with np.errstate(over="ignore"):  # what does not fit is not finite
            found = given.astype(dtype) if given.dtype.kind in "biufO" else None
    except (TypeError, ValueError, OverflowError):
        found = None
    if found is None or np.ma.is_masked(value):
        raise InputError(field, f"is {value!r:.60}", right)
    return np.asarray(found)


def label(y: Any, dtype: str, field: str = "y") -> Array:
    """y [1]."""
    found = _numbers(field, y, dtype, "give a number")
    if found.size != 1:
        raise InputError(field, f"is {y!r:.60}", "give a number")
    found = found.reshape(1)
    if not np.isfinite(found).all():
        raise InputError(field, f"is {y!r}", "give a finite number, or leave the sample out")
    return found


def inputs_of(inputs: int | Sequence[str]) -> Inputs:
    """What a user says of them: how many, or their names."""
    if type(inputs) is int and inputs >= 1:
        return Inputs(inputs)
    names = tuple(inputs) if isinstance(inputs, Sequence) and not isinstance(inputs, str) else ()
    if not names or len({*names}) < len(names) or not all(isinstance(n, str) for n in names):
        found = f"is {inputs!r:.60}"
        raise InputError("inputs", found, "say how many, or give a list of their names")
    return Inputs(len(names), names)


@dataclass(eq=False, repr=False)
class ClientModel:
    """A client by itself: it learns and answers anywhere, and joins its federation again later.

    It can be pickled. `+` adds two of one federation, by the samples that each has learned, where a
    client keeps a model and nothing else.
    """

    name: Name
    inputs: Inputs
    experiment: Experiment
    state: State
    samples: int
    touched: int  # changes of it in the federation, when it was copied

    @cached_property
    def _method(self) -> Any:
        experiment = self.experiment
        around = replace(experiment.around, mix=experiment.mix)
        return start(experiment.methods[0], kernel.faster(experiment.task(0)), around)

    @cached_property
    def _features(self) -> Any:
        return kernel.compiled(self._method.task.features, self.experiment.dtype)

    @property
    def model(self) -> Array:
        """Its own parameters."""
        try:
            found: Array = self._method.models(None, self.state)[0].copy()
        except KeyError:
            raise self._none("keep no model") from None
        return found

    def learn_one(self, x: Any, y: Any) -> None:
        """One sample."""
        dtype = self.experiment.dtype
        Y = label(y, dtype)
        X = self.inputs.read(x, dtype, learned=True)
        if not self._method.idle:
            raise self._none("learn only in rounds in which they take part")
        learn(self._method, self.state, X, self._features(X), Y)
        self.samples += 1

    def predict_one(self, x: Any) -> float:
        """Its answer."""
        X = self.inputs.read(x, self.experiment.dtype)
        try:
            return float(answer(self._method, self.state, X, self._features(X))[0])
        except KeyError:
            raise self._none("keep no model") from None

    def __add__(self, other: ClientModel) -> ClientModel:
        """(n_1 w_1 + n_2 w_2) / (n_1 + n_2) for n samples each."""
        if not isinstance(other, ClientModel):
            return NotImplemented
        other.check(self.experiment)
        if more := sorted(self.state.keys() - {"w"}):
            raise self._none(f"also keep {', '.join(map(repr, more))}, which cannot be added")
        if not self.state:
            raise self._none("keep no model")
        count = self.samples + other.samples
        share = self.samples / count if count else 0.5
        w = share * self.state["w"] + (1 - share) * other.state["w"]
        touched = max(self.touched, other.touched)
        state = {"w": w.astype(self.state["w"].dtype)}
        return ClientModel(self.name, self.inputs, self.experiment, state, count, touched)

    def check(self, experiment: Experiment) -> None:
        """Refuse a client of another federation."""
        if self.experiment != experiment:
            found = f"is {self.name!r}, of another federation"
            raise InputError("client", found, "only clients of equal settings go together")

    def _none(self, what: str) -> InputError:
        found = f"is {self.experiment.titles[0]}, whose clients {what}"
        return InputError("method", found, "leave it to the federation")

    def __getstate__(self) -> dict[str, Any]:
        """The fields; what is made of them is made again."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def __repr__(self) -> str:
        """In a line."""
        learned = counted(self.samples, "sample")
        return f"<ClientModel {self.name!r}: {self.experiment.titles[0]}, {learned}>"
