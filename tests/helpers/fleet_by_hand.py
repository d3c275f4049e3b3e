"""A fleet that changes, by hand: one client at a time, all messages as bytes."""

from copy import deepcopy

import numpy as np

from psofed.checks.bench import prepare, samples

ROWS = {"last": 0, "mail": 2, "full": 2}  # arrays over clients in the states of servers


class ByHand:
    """The server and all clients of a small experiment; `play` gives the states before rounds."""

    def __init__(self, experiment):
        self.method, draws = prepare(experiment)
        self.x, self.y = samples(draws)
        self.changes = sorted(experiment.fleet, key=lambda change: change.round)
        self.members = set(range(experiment.clients))
        self.server = self.method.server()
        self.clients = [self.method.client(k) for k in range(len(self.x))]
        self.has_model, self.anew = set(self.members), set()
        self.bytes = [0, 0]  # up, down

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
        stacked = {name: np.stack([c[name] for c in self.clients]) for name in self.clients[0]}
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
        for k in cohort:
            if k in new:
                self.clients[k] = method.client(k)
                self.has_model.add(k)
            send, read = (
                (method.welcome, method.welcomed) if k in new
                else (method.download, method.receive)
            )  # fmt: skip
            read(self.clients[k], k, n, self.sent(send(self.server, k, n), False))
        self.anew -= set(new)
        self.learn(n, cohort)
        for k in cohort:
            up[k] = self.sent(method.upload(self.clients[k], k, n), True)
        method.fold(self.server, n, up, dict.fromkeys(up, 1 / max(len(up), 1)))

    def learn(self, n, cohort=()):
        method = self.method
        for k in self.has_model if method.idle else cohort:
            x = self.x[k, n]
            method.learn(self.clients[k], x, method.task.features(x), self.y[k, n])

    def sent(self, message, up):
        if message is None:
            return None
        data = self.method.encode(message, up)
        self.bytes[0 if up else 1] += len(data)
        return self.method.decode(data, up)
