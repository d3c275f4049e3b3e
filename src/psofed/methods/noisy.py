"""Differential privacy: the same method, whose clients clip what they send and add noise to it.

A client keeps r_k, the last value of each entry that both ends know: that of w_0, of a download, or
of its own last upload, with noise. On the window S' of an upload,

    U = w_k[S'] - r_k[S'], clipped to the norm C        what it has learned since
    v = r_k[S'] + U + sigma N(0, I)                     is uploaded
    w_k[S'] = r_k[S'] = v                               and put back

so that a sample which is told of is not told of again. It is not put back where each download
overwrites the whole model anyway. Errors are clipped to +-E before eq. (10), so that one sample
moves a model by mu E |z| at most. docs/privacy.md proves what follows from that.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from psofed.core import equations
from psofed.learners.contract import Learner
from psofed.methods.messages import Array, Messages, State, Who
from psofed.methods.options import Options
from psofed.privacy.mechanism import Mechanism, mechanism, planned, secret_normals

# In a client's state: the values that both ends know, and how many uploads have told something.
PUBLIC, SPENT = "public", "spent uploads"


class Clipped:
    """Eq. (10) with a clipped error: w <- w + mu clip(e, +-E) g; not finite: no step."""

    def __init__(self, learner: Learner, most: float) -> None:
        self.learner, self.most = learner, most

    def learn(self, w: Array, z: Array, y: Any, step: Any) -> Any:
        """In place; returns the error before it is clipped."""
        prediction, g = self.learner.both(w, z)
        error = np.asarray(y - prediction)
        known = np.isfinite(error)
        if not known.all():
            error, g = np.where(known, error, 0), np.where(known[..., None], g, 0)
        w += (step * np.clip(error, -self.most, self.most))[..., None] * g
        return error


@cache
def noisy(plain: Any) -> Any:
    """The same method with clipped and noisy uploads. The compiled engine has none."""

    class Noisy(plain):  # type: ignore[misc]
        __doc__ = plain.__doc__
        stacked, entrywise, sums = plain.stacked, plain.entrywise, plain.sums

        def __init__(self, options: Any, task: Any) -> None:
            super().__init__(options, task)
            self.lazy = self.foresees = self.compiled = self.scripted = False
            privacy = task.privacy
            self.noise, self.most = noise_of(options, task), privacy.change
            self.again = not overwritten(options, task)
            self.secret = task.secret
            self.sigma: Any = 0.0 if self.noise is None else self.noise.sigma
            if privacy.level == "sample" and not isinstance(self.mu, float | int):
                # That of a sample is in proportion to mu, in which several runs may differ.
                self.sigma = (self.mu * self.sigma).reshape(-1, 1, 1)
            if privacy.error is not None:
                self.learner: Any = Clipped(self.task.learner, privacy.error)

        @property
        def tells(self) -> bool:
            """Whether uploads are changed, not just what is learned."""
            return self.noise is not None or self.most is not None

        def client(self, k: int) -> State:
            """The state of the method, r_k, and the uploads that were spent."""
            state: State = super().client(k)
            if not self.tells:
                return state
            return state | {PUBLIC: state["w"].copy(), SPENT: np.zeros((), np.int64)}

        def receive(self, client: State, k: Who, n: int, message: Any) -> None:
            """What comes down is known to both ends."""
            super().receive(client, k, n, message)
            if self.tells and message is not None:
                here = equations.at(self.entries(k, n, up=False))
                client[PUBLIC][here] = client["w"][here]

        def welcomed(self, client: State, k: int, n: int, message: Any) -> None:
            """A fresh model, and what comes down: both ends know all of it."""
            super().welcomed(client, k, n, message)
            if self.tells:
                client[PUBLIC][:] = client["w"]

        def upload(self, client: State, k: Who, n: int) -> Messages:
            """r_k + clip(w_k - r_k) + noise on the window; r_k alone if the budget is spent."""
            found: Messages = super().upload(client, k, n)
            if found is None or not self.tells:
                return found
            here = equations.at(self.entries(k, n, up=True))
            public = client[PUBLIC][here]
            change, left = self._clipped(found - public), self._left(client)
            noise = self._drawn(k, n, change.shape).astype(change.dtype)
            # Others of a sum rely on the noise of all of its members.
            spent = noise if self.noise is not None and self.noise.shares > 1 else 0 * noise
            sent: Array = public + np.where(left[..., None], change + noise, spent)
            client[SPENT] += left
            if self.again:
                client[PUBLIC][here] = sent
                client["w"][here] = np.where(left[..., None], sent, found)
            return sent

        def _clipped(self, change: Array) -> Array:
            """The change, no longer than C; one that is not finite would tell that it is not."""
            if not np.isfinite(change).all():
                change = np.nan_to_num(change, nan=0.0, posinf=0.0, neginf=0.0)
            if self.most is None:
                return change
            with np.errstate(over="ignore"):
                length = np.sqrt(np.vecdot(change, change))[..., None]
            return change * np.minimum(1, self.most / np.maximum(length, self.most)).astype(
                change.dtype
            )

        def _drawn(self, k: Who, n: int, shape: tuple[int, ...]) -> Array:
            """Noise that only this client knows; in a simulation, from the seeds."""
            if self.noise is None:
                return np.zeros(shape)
            if self.secret:
                normals = secret_normals(*shape)
            else:
                normals = self.task.seeds.normals("privacy", k, shape[-1], n)
            return np.asarray(self.sigma * normals)

        def _left(self, client: State) -> Array:
            """Whose budget is not spent: always, where samples are what is hidden."""
            if self.noise is None or self.noise.level == "sample":
                return np.ones(np.shape(client[SPENT]), bool)
            return client[SPENT] < self.noise.uploads

    Noisy.__name__, Noisy.__qualname__ = plain.__name__, plain.__qualname__
    Noisy.__module__ = plain.__module__
    return Noisy


def noise_of(options: Options, task: Any) -> Mechanism | None:
    """The noise of a method, for mu = its step; where runs have steps of their own, for mu = 1."""
    privacy, mu = task.privacy, task.step if options.step is None else options.step
    if privacy is None:
        return None
    contacts, share = max(task.rounds // options.pace, 1), task.cohorts.size / task.clients
    # Without self-masks a server reads single uploads, if only those of who was slow.
    told_together = privacy.self_masks and overwritten(options, task)
    shares = privacy.fewest(task.cohorts.size) if told_together else 1
    step = mu if isinstance(mu, float | int) else 1.0
    return mechanism(privacy, step, task.longest, planned(privacy, contacts, share), shares)


def overwritten(options: Options, task: Any) -> bool:
    """Whether each upload comes after a download of the whole model."""
    return options.sharing[0] in (None, task.dim)


def lasting(state: State) -> State:
    """What of a client's state outlives a new beginning: what it has told stays told."""
    return {SPENT: state[SPENT]} if SPENT in state else {}
