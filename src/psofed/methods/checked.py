"""A sample check before eq. (10): the same method, whose clients do not learn from everything."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from psofed.core.foreign import broken as wrong
from psofed.methods.contract import Plain
from psofed.methods.messages import Array, State
from psofed.sample_checks.contract import BROKEN, CLIPPED, VERDICTS, SampleCheck, by_name

# In a client's state: samples by verdict, and what the check remembers.
COUNTS, OWN = "check counts", "check."
RIGHT = "see the contract at the top of psofed/sample_checks/contract.py, or try `psofed check`"


@cache
def checked(plain: Any) -> Any:
    """The same method behind the check of its task. The compiled engine has no checks."""

    class Checked(plain):  # type: ignore[misc]
        __doc__ = plain.__doc__
        stacked, entrywise = plain.stacked, plain.entrywise

        def __init__(self, options: Any, task: Any) -> None:
            super().__init__(options, task)
            # Each sample is judged by the model as it is then, so samples come one after another.
            self.lazy = self.foresees = self.compiled = self.scripted = False
            self.check: SampleCheck = task.check

        def client(self, k: int) -> State:
            """The state of the method, the counts, and what the check remembers."""
            memory = self.check.memory(self.task.taps, self.task.dtype)
            state: State = super().client(k) | {COUNTS: np.zeros(len(VERDICTS), np.int64)}
            return state | {OWN + name: array for name, array in memory.items()}

        def learn(self, client: State, x: Array, z: Array, y: Any) -> None:
            """Eq. (10) for what the check lets pass; the state of the others stays as it is."""
            if COUNTS not in client:  # a method that takes the clients of a stack one by one
                super().learn(client, x, z, y)
                return
            y, verdict, z = self._judged(client, x, z, np.asarray(y))
            client[COUNTS] += verdict[..., None] == np.arange(len(VERDICTS))
            state = {n: a for n, a in client.items() if n != COUNTS and not n.startswith(OWN)}
            refused = verdict > CLIPPED
            if not refused.any():
                super().learn(state, x, z, y)
            elif not refused.all():
                before = {name: array[refused] for name, array in state.items()}
                some = np.where(refused[..., None], x.dtype.type(0), x)
                super().learn(state, some, z, np.where(refused, y.dtype.type(0), y))
                for name, array in before.items():
                    state[name][refused] = array

        def _judged(
            self, client: State, x: Array, z: Array, y: Array
        ) -> tuple[Array, Array, Array]:
            """y to learn, the verdicts, and z, which is 0 where a sample is not finite."""
            good = np.isfinite(y) & np.isfinite(x).all(axis=-1)
            if not good.all():
                z, y = np.where(good[..., None], z, z.dtype.type(0)), np.where(good, y, np.nan)
            w = self._models(client, y.shape)
            # A client that only sends its samples on knows no better than 0.
            guess = np.zeros_like(y) if w is None else self.task.learner.predict(w, z)
            kept = {n[len(OWN) :]: a for n, a in client.items() if n.startswith(OWN)}
            learned, verdict = self.check.judge(kept, x, y, np.asarray(guess))
            verdict = np.where(good, verdict, BROKEN)
            if verdict.shape != y.shape or not ((verdict >= 0) & (verdict < len(VERDICTS))).all():
                raise wrong(type(self.check), "judge", "gives no verdict on each sample", RIGHT)
            return np.asarray(learned, y.dtype), verdict, z

        def _models(self, client: State, shape: tuple[int, ...]) -> Array | None:
            """The models of all clients in a stack; `own` of a subclass may take one only."""
            if not shape or plain.own is Plain.own:
                return self.own(client)
            rows = [{n: a[at] for n, a in client.items()} for at in np.ndindex(shape)]
            models = [self.own(row) for row in rows]
            return None if models[0] is None else np.reshape(models, (*shape, -1))

    Checked.__name__, Checked.__qualname__ = plain.__name__, plain.__qualname__
    Checked.__module__ = plain.__module__
    return Checked


def acts(method: Any) -> bool:
    """Whether the samples of a method are checked."""
    return COUNTS in method.client(0)


def counts(clients: State) -> Array | None:
    """Samples by verdict [..., verdict] in the states of clients; None if there is no check."""
    return clients.get(COUNTS)


def found(clients: State) -> dict[str, int]:
    """The same by name, of all clients together; nothing if there is no check."""
    return by_name(clients[COUNTS]) if COUNTS in clients else {}
