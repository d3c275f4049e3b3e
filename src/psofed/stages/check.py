"""A sample check before what is learned: clients do not learn from everything."""

from __future__ import annotations

import numpy as np

from psofed.federation.clients import learn
from psofed.federation.contract import Array, Method, State
from psofed.federation.foreign import broken as wrong
from psofed.federation.stage import Stage
from psofed.stages.checks.contract import BROKEN, CLIPPED, VERDICTS, SampleCheck, by_name

# In a client's state: samples by verdict, and what the check remembers.
COUNTS, OWN = "check counts", "check."
RIGHT = "see the contract at the top of psofed/stages/checks/contract.py, or try `psofed check`"


class Check(Stage):
    """What a sample check lets pass is learned from; each sample is judged by the model of then."""

    def __init__(self, inner: Method, check: SampleCheck) -> None:
        super().__init__(inner)
        self.check, self.lazy = check, False  # samples come one after another

    def client(self) -> State:
        """The state of the method, the counts, and what the check remembers."""
        memory = self.check.memory(self.task.taps, self.task.dtype)
        state = self.inner.client() | {COUNTS: np.zeros(len(VERDICTS), np.int64)}
        return state | {OWN + name: array for name, array in memory.items()}

    def learn(self, client: State, x: Array, z: Array, y: Array) -> None:
        """What the check lets pass is learned from; the state of the others stays as it is."""
        y, verdict, z = self._judged(client, x, z, y)
        client[COUNTS] += verdict[..., None] == np.arange(len(VERDICTS))
        refused = verdict > CLIPPED
        if not refused.any():
            learn(self.inner, client, x, z, y)
        elif not refused.all():
            own = [name for name in client if name != COUNTS and not name.startswith(OWN)]
            before = {name: client[name][refused] for name in own}
            some = np.where(refused[..., None], x.dtype.type(0), x)
            learn(self.inner, client, some, z, np.where(refused, y.dtype.type(0), y))
            for name, array in before.items():
                client[name][refused] = array

    def _judged(self, client: State, x: Array, z: Array, y: Array) -> tuple[Array, Array, Array]:
        """y to learn, the verdicts, and z, which is 0 where a sample is not finite."""
        good = np.isfinite(y) & np.isfinite(x).all(axis=-1)
        if not good.all():
            z, y = np.where(good[..., None], z, z.dtype.type(0)), np.where(good, y, np.nan)
        kept = {name[len(OWN) :]: a for name, a in client.items() if name.startswith(OWN)}
        learned, verdict = self.check.judge(kept, x, y, self._guess(client, z, y))
        verdict = np.where(good, verdict, BROKEN)
        if verdict.shape != y.shape or not ((verdict >= 0) & (verdict < len(VERDICTS))).all():
            raise wrong(type(self.check), "judge", "gives no verdict on each sample", RIGHT)
        return np.asarray(learned, y.dtype), verdict, z

    def _guess(self, client: State, z: Array, y: Array) -> Array:
        """What the clients' models say; who only passes samples on knows no better than 0."""
        try:
            w = self.inner.models(None, client)
        except KeyError:
            return np.zeros_like(y)
        return np.asarray(self.task.learner.predict(w, z))


def counts(clients: State) -> Array | None:
    """Samples by verdict [..., verdict] in the states of clients; None if there is no check."""
    return clients.get(COUNTS)


def found(clients: State) -> dict[str, int]:
    """The same by name, of all clients together; nothing if there is no check."""
    return by_name(clients[COUNTS]) if COUNTS in clients else {}
