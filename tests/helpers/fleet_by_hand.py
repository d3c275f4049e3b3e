"""A fleet that changes, by hand: one client at a time, all messages as bytes."""

from copy import deepcopy

import numpy as np

from psofed.cli.laws.drivers import prepare, samples
from psofed.federation.contract import BEFORE, rows

ROWS = {"code last": 0, "mail": 2, "full": 2}  # arrays over clients in the states of servers


class ByHand:
    """The server and all clients of a small experiment; `play` gives the states before rounds."""

    def __init__(self, experiment):
        self.method, draws = prepare(experiment)
        self.x, self.y = samples(draws)
        self.changes = sorted(experiment.fleet, key=lambda change: change.round)
        self.members = set(range(experiment.clients))
        self.server = self.method.server()
        self.clients = [self.fresh() for _ in self.x]
        self.has_model, self.anew = set(self.members), set()
        self.bytes = [0, 0]  # up, down

    def fresh(self):
        """A client before round 0, as a stack of one."""
        return {name: array[None].copy() for name, array in self.method.client().items()}

    def play(self):
        """The global models, the local ones and the bytes so far before every round."""
        before = []
        for n in range(self.y.shape[1]):
            before.append(deepcopy(self.server))
            yield self.now()
            for change in self.changes:
                if change.round == n:
                    self.change(change, before)
            void = any(c.void is not None and c.void <= n < c.round for c in self.changes)
            self.learn(n) if void else self.round(n)
        yield self.now()

    def now(self):
        stacked = {
            name: np.concatenate([c[name] for c in self.clients]) for name in self.clients[0]
        }
        model = self.method.models(self.server, stacked).copy()
        return model, stacked.get("w", np.empty(0)), list(self.bytes)

    def change(self, change, before):
        fresh = self.method.server()
        gone = {*change.exclude, *change.remove}
        self.members = (self.members | {*change.add, *change.readmit}) - gone
        if change.restore is not None:
            for name, old in before[change.restore].items():
                if name not in ROWS:
                    self.server[name] = old.copy()
            if not change.keep:
                self.server |= {name: fresh[name] for name in ROWS if name in fresh}
        begin = {*change.add, *change.readmit}
        if change.restore is not None and not change.keep:
            begin |= self.members
        self.anew |= begin
        for name, axis in ROWS.items():
            if name in fresh:
                here = np.moveaxis(self.server[name], axis, 0)
                for k in begin:
                    here[k] = np.moveaxis(fresh[name], axis, 0)[k]

    def round(self, n):
        method, up = self.method, {}
        cohort = [k for k in method.cohort(n, self.server).tolist() if k in self.members]
        new = [k for k in cohort if k in self.anew]
        first = n - n % method.pace
        for k in cohort:
            if k in new:
                self.clients[k] = self.fresh()
                self.has_model.add(k)
            # Who keeps what does not come down begins with all entries.
            keeps = k in new and method.idle and method.entrywise
            when, one = BEFORE if keeps else first, np.array([k])
            if first == n or k in new:
                down = self.sent(method.download(self.server, one, when).row(0), False)
                method.receive(self.clients[k], one, when, self.message([down]))
        self.anew -= set(new)
        self.learn(n, cohort)
        if (n + 1) % method.pace == 0:
            for k in cohort:
                up[k] = self.sent(method.upload(self.clients[k], np.array([k]), n).row(0), True)
        message = self.message(list(up.values()))
        weights = np.where(message.heard, 1 / max(len(up), 1), 0.0)
        method.fold(self.server, np.array(list(up), np.intp), n, message, weights)

    def message(self, parts):
        return rows(parts, self.method.task.dtype)

    def learn(self, n, cohort=()):
        method = self.method
        for k in self.has_model if method.idle else cohort:
            x, y = self.x[k, n : n + 1], self.y[k, n : n + 1]
            sample = x, method.task.features(x), y
            if method.lazy:
                sample = tuple(each[:, None] for each in sample)
            method.learn(self.clients[k], *sample)

    def sent(self, message, up):
        if message is None:
            return None
        data = self.method.encode(message, up)
        self.bytes[0 if up else 1] += len(data)
        return self.method.decode(data, up)
