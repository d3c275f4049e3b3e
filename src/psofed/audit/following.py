"""Following a client: every number that comes up is an equation about its samples.

Both ends know w_0, features, windows and step. An entry whose value was known after sample s (it
went up then) or before sample s (it came down) and that comes up after sample n has changed by the
sum of a_t z(x_t) over the samples t between: eq. (10), a_t = mu e_t. Downloads overwrite (eq. 9),
so entries that go down and come up in the same contact have changed by one sample alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.audit.server_view import Contact, ServerView, Total
from psofed.core import payload
from psofed.methods import fedavg
from psofed.methods.contract import Method
from psofed.privacy import fixed_point

Array = NDArray[Any]
NONE = np.empty(0, np.intp)


@dataclass(frozen=True, eq=False)
class Exchanged:
    """One contact, decoded: which entries had which values before sample n, and after it."""

    n: int
    down: Array  # entries [M]
    before: Array  # their values
    up: Array
    after: Array
    count: int = 1  # clients of which these values are the sum
    anew: bool = False  # whether the client began with a fresh model
    owed: bool = False  # `after` are changes, with all that was held back since they were last sent


@dataclass(frozen=True, eq=False)
class Told:
    """Equations [E]: entry i has changed by `change` through the samples after `since`, up to n."""

    n: int
    entries: Array
    change: Array
    since: Array
    noise: Array  # deviation of what rounding adds


def exchanges(view: ServerView, k: int) -> list[Exchanged]:
    """The contacts of client k, decoded as the server decodes them."""
    return [_decoded(view.method, contact) for contact in view.of(k)]


def _decoded(method: Method, contact: Contact) -> Exchanged:
    k, n = contact.client, contact.n
    down, before = _values(method, contact.down, window(method, k, n, False), up=False)
    if not isinstance(method, fedavg.Compressed):
        up = _values(method, contact.up, window(method, k, n, True), up=True)
        return Exchanged(n, down, before, *up, anew=contact.anew)
    if contact.up in (b"", payload.NOTHING):
        return Exchanged(n, down, before, NONE, np.empty(0), anew=contact.anew)
    update = np.asarray(method.unpack(method.decode(contact.up, up=True), k, n), np.float64)
    sent = np.flatnonzero(update)
    return Exchanged(n, down, before, sent, update[sent], anew=contact.anew, owed=True)


def of_total(view: ServerView, total: Total) -> Exchanged:
    """The same of a sum over a cohort: c times what went down, and the sum of what came up."""
    method: Any = view.method
    k, count = total.clients[0], len(total.clients)
    down, before = _values(method, total.down, window(method, k, total.n, False), up=False)
    words = np.frombuffer(total.up, "<u4")
    after = count * fixed_point.mean(words, method.scale, method.range, count)
    return Exchanged(total.n, down, count * before, window(method, k, total.n, True), after, count)


def window(method: Any, k: int, n: int, up: bool) -> Array:
    """S_{k,n} down, S_{k,n+1} up; of a whole model, all entries."""
    found: Array = method.entries(k, n, up)
    return found


def _values(method: Method, data: bytes, entries: Array, up: bool) -> tuple[Array, Array]:
    """The entries and their values; nothing if no values were sent, or others than expected."""
    if data in (b"", payload.NOTHING):
        return NONE, np.empty(0)
    values = np.asarray(method.decode(data, up), np.float64)
    if len(values) == len(entries):
        return entries, values
    if len(values) == method.task.dim:  # a welcome: the whole model
        return np.arange(method.task.dim), values
    return NONE, np.empty(0)


class Track:
    """What is known of one client's model, entry by entry: a value, and the sample it follows."""

    def __init__(self, method: Method, known: bool, count: int = 1) -> None:
        dim = method.task.dim
        start = count * np.asarray(method.task.initial(), np.float64)
        self.start, self.value = start, start.copy() if known else np.full(dim, np.nan)
        self.since, self.sent = np.full(dim, -1), np.where(np.isnan(self.value), np.nan, -1.0)
        self.rounding, self.floor = rounding(method, count)
        self.own = float(np.finfo(method.task.dtype).eps)
        self.remembers = getattr(method, "memory", 0.0) == 1  # what it did not send, it sends later

    def meet(self, exchanged: Exchanged) -> Told:
        """Eq. (9), then what came up, as equations."""
        n, up = exchanged.n, exchanged.up
        if exchanged.anew:
            self.value[:], self.since[:], self.sent[:] = self.start, n - 1, n - 1
        self.value[exchanged.down], self.since[exchanged.down] = exchanged.before, n - 1
        since = self.since[up].astype(np.float64)
        if exchanged.owed:
            since = self.sent[up] if self.remembers else since
            change, self.sent[up] = exchanged.after, n
            size = np.abs(exchanged.after) + np.abs(self.value[up])
        else:
            change = exchanged.after - self.value[up]
            size = np.abs(exchanged.after) + np.abs(self.value[up])
            self.value[up], self.since[up] = exchanged.after, n
        known = np.isfinite(change + since)
        change, since, size = change[known], since[known], np.nan_to_num(size[known])
        steps = np.sqrt(np.maximum(n - since, 1))  # the client's own arithmetic rounds, too
        noise = (size + 1e-9) * (self.rounding + self.own * steps) / 3 + self.floor
        noise += 2 * self.own * np.abs(change).max(initial=0)  # and so do its features
        return Told(n, up[known], change, since, noise)


def rounding(method: Method, count: int) -> tuple[float, float]:
    """Deviation of a value on the wire: relative, and absolute by masked words and by noise."""
    kinds = {"float16": 2.0**-11, "float32": 2.0**-24, "float64": 2.0**-53}
    privacy = method.task.privacy
    noise = float(getattr(method, "sigma", 0.0)) * np.sqrt(count)  # how much there is, is public
    if privacy is None or not privacy.masks:
        return kinds[method.task.wire], noise
    # Less than it is: a search then goes on for longer, and what it finds is surer.
    words = np.sqrt(count / 12) / privacy.scale(method.task.cohorts.size) / 2
    return 0.0, float(np.hypot(noise, words))
