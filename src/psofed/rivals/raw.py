"""Raw samples: the cohort sends (x, y), and the server learns from them.

Source: ours, a control.

Faithful: with the solver "lms" its models are those of Online-Fed; with "ridge" they are those of a
ridge regression on the samples that were sent.

Ours: everything else.

Unverified: nothing.

The update of one LMS step is mu e z(x), so the L + 1 numbers of a sample hold as much as D. With
`solver = "ridge"` the server keeps the sums of all samples that it was sent, and its model is the
ridge regression on them. Bytes are no argument against either; learning between contacts is one.
Privacy is not one by itself: from an upload of Online-Fed a server can compute the sample, and from
40 entries of PSO-Fed too where it can follow the client's model (docs/privacy.md).

As a prior, lambda is the variance of the noise over that of a weight, 0.017 over about 1 in the
paper's setting. There, 5 runs, dB after 50, 200, 500 and 1,500 rounds: -9.4, -12.1, -12.7, -13.0 at
0.001; -10.8, -12.3, -12.8, -13.0 at 0.01; -10.9, -12.1, -12.7, -12.9 at 0.1; -8.8, -11.1, -12.1,
-12.6 at 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from psofed.contract import (
    Array,
    Common,
    Indices,
    InputError,
    Learner,
    Learns,
    Message,
    State,
    Task,
    centralised,
    require,
)


@dataclass(frozen=True)
class Raw(Common):
    """What the server does with the samples."""

    name: ClassVar[str] = "raw"
    attackable: ClassVar[bool] = False
    learners: ClassVar[Learns] = "descending"
    role: ClassVar[Literal["reference", "method", "control"]] = "control"
    uncoded: ClassVar[str] = "sends samples, not models"
    solver: Literal["lms", "ridge"] = "lms"  # mean steps, or a regression on all samples so far
    ridge: float = 0.01  # lambda: about the noise variance over that of a weight

    @classmethod
    def compared(cls, dim: int) -> tuple[Self, ...]:
        """Both solvers."""
        return cls(), cls(solver="ridge")

    @property
    def steps(self) -> bool:  # type: ignore[override]
        """A regression has no step."""
        return self.solver == "lms"

    def describe(self) -> str:
        usual = self.ridge == type(self).ridge
        ridge = f", ridge{'' if usual else f' {self.ridge:g}'}"
        return f"Raw samples{ridge if self.solver == 'ridge' else ''}"

    def check(self, dim: int, clients: int) -> None:
        """Clients have no model, so they cannot say how much theirs has changed."""
        require(self, "ridge", 0 < self.ridge < np.inf, "use a number above 0")
        if self.policy is None:
            return
        if self.solver == "ridge":
            found = "is given, but a regression takes every sample as it is, without a weight"
            raise InputError("policy", found, 'leave it out, or use solver = "lms"')
        if self.policy.scores == "client":
            found = f"is {self.policy.name}, but clients that send samples have no update to report"
            raise InputError("policy", found, "use another")

    def check_learner(self, learner: Learner) -> None:
        """A regression needs a linear model, whatever its steps are."""
        if self.solver == "lms":
            super().check_learner(learner)
        elif not learner.linear:
            found = f"is 'ridge', which needs a linear model, and {learner.name} is not one"
            raise InputError("solver", found, 'use solver = "lms", or the learner "lms"')

    def defended(self, defence: Any) -> Self | None:
        """A regression has no model that an upload changes; as mean steps nothing of its own."""
        if self.solver == "ridge":
            found = "is 'ridge', whose server has no fold that [defence] could change"
            raise InputError("solver", found, 'use solver = "lms", or leave [defence] out')
        return None


Options = Raw


class Method(centralised.Method):
    """Eq. (5) and (6) at the server, w <- w + (mu/|S_n|) sum_k e_k z_k, with the samples sent.

    Or w = (R + lambda I)^-1 r, R = sum z z^T and r = sum y z over all samples sent, in float64. It
    is solved when somebody asks for the model.
    """

    def __init__(self, options: Options, task: Task) -> None:
        super().__init__(
            centralised.Options("batch", step=options.step, policy=options.policy), task
        )
        self.ridge = options.ridge if options.solver == "ridge" else None

    def cohort(self, n: int, server: State) -> Indices:
        return self.task.cohorts.cohort(n)

    def server(self) -> State:
        """w, or the sums of which it is made."""
        D = self.task.dim
        return super().server() if self.ridge is None else {"R": np.zeros((D, D)), "r": np.zeros(D)}

    def fold(self, server: State, k: Indices, n: int, message: Message, weights: Array) -> None:
        """A mean step, or R <- R + sum_k z_k z_k^T, r <- r + sum_k y_k z_k."""
        if self.ridge is None:
            super().fold(server, k, n, message, weights)
        elif message.heard.any():
            samples = message.values
            z: Any = self.task.features(samples[..., :-1].astype(self.task.dtype))
            z = np.where(message.heard[..., None], z, 0).astype(np.float64)
            across = np.ascontiguousarray(z.swapaxes(-1, -2))
            server["R"] += across @ z
            server["r"] += (across @ samples[..., -1:].astype(np.float64))[..., 0]

    def models(self, server: State | None, clients: State) -> Array:
        """w, or (R + lambda I)^-1 r."""
        if self.ridge is None or server is None:
            return super().models(server, clients)
        A = server["R"] + self.ridge * np.eye(self.task.dim)
        w: Array = np.linalg.solve(A, server["r"][..., None])[..., 0].astype(self.task.dtype)
        return w
