"""Differential privacy: clients clip what they send, and add noise to it.

A client keeps r_k, the last value of each entry that both ends know: that of w_0, of a download, or
of its own last upload, with noise. On the window S' of an upload,

    U = w_k[S'] - r_k[S'], clipped to the norm C        what it has learned since
    v = r_k[S'] + U + sigma N(0, I)                     is uploaded
    w_k[S'] = r_k[S'] = v                               and put back

so that what is released of a sample is released once. It is not put back where each download
overwrites the whole model anyway. Errors are clipped to +-E before eq. (10), so that one sample
moves a model by mu E |z| at most. docs/privacy.md proves what follows from that.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from psofed.core import equations
from psofed.core.schedule import Indices
from psofed.errors import InputError
from psofed.federation.contract import Array, Message, Method, State, Task
from psofed.federation.learners.contract import Learner
from psofed.federation.options import Options
from psofed.federation.stage import LASTING, Stage, around
from psofed.stages.checks import range as ranges
from psofed.stages.checks.contract import SampleCheck
from psofed.stages.privacy import Mechanism, Privacy, mechanism, planned, secret_normals

# In a client's state: the values that both ends know, and how many uploads have released something.
PUBLIC, SPENT = "noise public", LASTING + "noise uploads"


class Clipped:
    """A learner with a clipped error: w <- w + mu clip(e, +-E) g; not finite: no step."""

    def __init__(self, learner: Learner, most: float) -> None:
        self.learner, self.most = learner, most

    def learn(self, w: Array, z: Array, y: Any, step: Any) -> Any:
        """In place; returns the error before it is clipped."""
        prediction, g = self.learner.both(w, z)
        error = np.asarray(y - prediction)
        known = np.isfinite(error)
        if not known.all():
            error, g = np.where(known, error, 0), np.where(known[..., None], g, 0)
        w += equations.descent(np.clip(error, -self.most, self.most), g, step)
        return error


class Noise(Stage):
    """Uploads are clipped and noisy; put back (`again`) where a download does not overwrite all."""

    def __init__(
        self, inner: Method, privacy: Privacy, noise: Mechanism | None, again: bool, secret: bool
    ) -> None:
        super().__init__(inner)
        self.noise, self.most, self.again, self.secret = noise, privacy.change, again, secret
        self.sigma: Any = 0.0 if noise is None else noise.sigma
        if privacy.level == "sample" and np.ndim(self.step):
            # That of a sample is in proportion to mu, in which several runs may differ.
            self.sigma = (self.step * self.sigma)[..., None]

    def client(self) -> State:
        """The state of the method, r_k, and the uploads that were spent."""
        state = self.inner.client()
        return state | {PUBLIC: state["w"].copy(), SPENT: np.zeros((), np.int64)}

    def receive(self, client: State, k: Indices, n: int, message: Message) -> None:
        """What comes down is known to both ends."""
        self.inner.receive(client, k, n, message)
        here = equations.at(self.inner.entries(k, n, up=False))
        client[PUBLIC][here] = client["w"][here]

    def upload(self, client: State, k: Indices, n: int) -> Message:
        """r_k + clip(w_k - r_k) + noise on the window; r_k alone if the budget is spent."""
        found = self.inner.upload(client, k, n)
        here = equations.at(self.inner.entries(k, n, up=True))
        public = client[PUBLIC][here]
        change, left = self._clipped(found.values - public), self._left(client)
        noise = self._drawn(k, n, change.shape).astype(change.dtype)
        # Others of a sum rely on the noise of all of its members.
        spent = noise if self.noise is not None and self.noise.shares > 1 else 0 * noise
        sent: Array = public + np.where(left[..., None], change + noise, spent)
        client[SPENT] += left
        if self.again:
            client[PUBLIC][here] = sent
            client["w"][here] = np.where(left[..., None], sent, found.values)
        return Message(sent, found.length)

    def _clipped(self, change: Array) -> Array:
        """The change, no longer than C; one that is not finite would show that it is not."""
        if not np.isfinite(change).all():
            change = np.nan_to_num(change, nan=0.0, posinf=0.0, neginf=0.0)
        if self.most is None:
            return change
        with np.errstate(over="ignore"):
            length = np.sqrt(np.vecdot(change, change))[..., None]
        return change * np.minimum(1, self.most / np.maximum(length, self.most)).astype(
            change.dtype
        )

    def _drawn(self, k: Indices, n: int, shape: tuple[int, ...]) -> Array:
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


def noise_of(
    options: Options,
    task: Task,
    privacy: Privacy | None,
    rounds: int,
    longest: float | None,
    copies: int = 1,
) -> Mechanism | None:
    """The noise of a method, for mu = its step; where runs have steps of their own, for mu = 1.

    `rounds` are planned, `longest` is the largest |z| of any input, if it is known, and one
    measurement is in `copies` samples.
    """
    mu = task.step if options.step is None else options.step
    if privacy is None:
        return None
    contacts, share = max(rounds // options.pace, 1), task.cohorts.size / task.clients
    # Without self-masks a server reads single uploads, at least those of slow clients.
    together = privacy.self_masks and overwritten(options, task)
    shares = privacy.fewest(task.cohorts.size) if together else 1
    step = mu if isinstance(mu, float | int) else 1.0
    return mechanism(privacy, step, longest, planned(privacy, contacts, share), shares, copies)


def noise_in(method: Method) -> Mechanism | None:
    """What the clients of a method add to their uploads; None: nothing."""
    return next((stage.noise for stage in around(method) if isinstance(stage, Noise)), None)


def overwritten(options: Options, task: Task) -> bool:
    """Whether each upload comes after a download of the whole model."""
    return options.sharing[0] in (None, task.dim)


RIGHT = "use psofed, onlinefed or fedavg, or leave out epsilon and clips under [privacy]"


def check_noise(
    privacy: Privacy | None, options: Options, learner: Learner, longest: float | None, step: float
) -> None:
    """Refuse a method, a learner, features or a step for which there is no proof."""
    if privacy is None or not privacy.noisy:
        return
    if not options.sums:
        found = f"is {options.name}, which sends other things than noise could hide"
        raise InputError("name", found, RIGHT)
    if options.policy is not None or options.selects:
        found = "is given, but who takes part would depend on the data, and has no noise"
        raise InputError("policy", found, "leave it out")
    if options.wire is not None:
        found = f"is {options.wire!r}, but noise is added to numbers"
        raise InputError("wire", found, "leave it out; [deploy] wire may be float16")
    if privacy.error is not None and not (options.learners == "any" and learner.descends):
        found = f"is {options.name} with the learner {learner.name}: their errors are not clipped"
        raise InputError("name", found, 'use psofed, onlinefed or fedavg with the learner "lms"')
    if privacy.hides_samples:
        _check_step(learner, longest, step if options.step is None else options.step)


def _check_step(learner: Learner, longest: float | None, step: float) -> None:
    """One sample pays once if a later step never drives two models apart: mu |z|^2 <= 2."""
    right = 'use level = "client"'
    if not learner.lms:
        found = f"is {learner.name}, of which it is not known how far one sample moves a model"
        raise InputError("learner", found, f'use "lms", or {right} under [privacy]')
    if longest is None:
        found = "have no known largest length, so one sample can move a model by any amount"
        raise InputError("features", found, f'use "cosine" or "exponential", or {right}')
    if step * longest**2 > 2 * (1 + 1e-9):
        found = f"is {step:g}: a later sample could enlarge what one has left in a model"
        raise InputError("step", found, f"use {2 / longest**2:.3g} at most, or {right}")


def check_samples(privacy: Privacy | None, check: SampleCheck | None) -> None:
    """Refuse a check of samples that remembers: one sample would decide about later ones."""
    if privacy is None or not privacy.hides_samples:
        return
    if check is None or not check.acts or type(check) is ranges.Options:
        return
    found = f"is {check.name}, which judges a sample by others, so one moves a model through them"
    raise InputError("check", found, 'use "range" or "none", or level = "client"')
