"""What a client can have for no byte, and the mix of all it has: contenders of a back-test.

A straight line and a ridge regression learned alone, the last label, the label of a season ago.
The mix learns whom to trust while labels come (core/mixing.py). Frozen, it has one weight for each
kind of model, the same for all clients, which were right for models frozen earlier; and lines and
ridge regressions lean on the mean of all clients, or are it in part, if that was right for those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from psofed.core import alone, mixing, payload
from psofed.core.features import LINE as LABEL
from psofed.core.features import FeatureMap
from psofed.core.native import Array
from psofed.stages import mix as stage
from psofed.tables.plan import Span
from psofed.tables.player import Contender, Guesses, Lot, Player
from psofed.tables.scores import Score

NUMBERS = 4_000_000  # of the moments of all clients: 32 MB
OWN, START, LINE, RIDGE, LAST, SEASON = stage.EXPERTS
SHARED, MEAN = "shared", "mean"
HABITS = (LAST, SEASON)  # they need labels that keep coming
MODELS = (LINE, RIDGE, "line with labels", "ridge with labels")  # in the order of core/alone.py
LEANING = tuple(f"{name}, leaning on all" for name in MODELS)
MEANS = tuple(f"{name}, mean of all" for name in MODELS[alone.RIDGE_REGRESSION :: 2])
TITLES = ("Line, alone", "Ridge regression, alone", "Line with older labels, alone",
          "Ridge regression with older labels, alone")  # fmt: skip


class Repeat(Contender):
    """Repeats a label that is known: it learns nothing and sends nothing."""

    def __init__(self, title: str, clients: int, name: str) -> None:
        self.score, self.which = Score(title, clients, "free"), HABITS.index(name)

    def play(self, lot: Lot, span: Span) -> Guesses:
        """The same in all parts."""
        label = lot.older[..., self.which]
        self.answers = {part: {"global": label} for part in ("prequential", *span.freezes)}
        return self.answers


class Regression(Contender):
    """The models that each client learns alone from moments; those to be shown are `Shown`."""

    features: FeatureMap

    def __init__(self, clients: int, features: FeatureMap, taps: int, use: str) -> None:
        self.features, self.score = features, Score(TITLES[0], clients, "free")
        self.older = len(HABITS) if use == "live" else 0
        room = int(np.sqrt(NUMBERS / clients)) - taps - 1 - self.older
        self.size = int(np.clip(room, 0, features.dim))  # d: many clients have fewer cosines each
        self.models = alone.Alone(clients, self.size, taps, self.older)
        some = len(MODELS) if self.older else 2
        self.names, self.leaning = MODELS[:some], LEANING[:some] + MEANS[: some // 2]
        self.frozen: dict[str, Array] = {}  # [K, names and leaning, n] by part
        self.guesses: dict[str, dict[str, Array]] = {}  # [B, K] by part, then by model

    def warm(self, x: Array, y: Array, before: Array) -> None:
        """A client has kept its samples until it knows how to scale them."""
        for k in range(y.shape[1]):
            known = ~np.isnan(y[:, k])
            u = self._inputs(self.features(x[known, k]), x[known, k], before[known, k])
            self.models.follow(k, u, u, y[known, k])

    def play(self, lot: Lot, span: Span) -> Guesses:
        """Predict and learn in each round, client by client."""
        parts = span.overlap(lot.first, len(lot.y))
        found = {part: np.zeros((*lot.y.shape, len(self.names + self.leaning * (part in parts))))
                 for part in ("prequential", *parts)}  # fmt: skip
        for begin, end in span.cuts(lot.first, len(lot.y)):
            for part in parts:
                if begin >= span.freezes[part][0] and part not in self.frozen:
                    self.frozen[part] = self.models.frozen()
            here = slice(begin - lot.first, end - lot.first)
            self._some(lot.part(begin, end), {part: each[here] for part, each in found.items()})
        names = self.names + self.leaning
        self.guesses = {part: dict(zip(names, np.moveaxis(each, -1, 0), strict=False))
                        for part, each in found.items()}  # fmt: skip
        self.answers = {part: {"global": each[LINE]} for part, each in self.guesses.items()}
        return self.answers

    def _some(self, lot: Lot, found: dict[str, Array]) -> None:
        """Into `found` [B, K, names] by part."""
        for k in range(lot.y.shape[1]):
            fresh = known = self._inputs(lot.fresh[:, k], lot.now[:, k], lot.older[:, k])
            if not np.may_share_memory(lot.z, lot.fresh):  # labels come late
                known = self._inputs(lot.z[:, k], lot.x[:, k], lot.before[:, k])
            found["prequential"][:, k] = self.models.follow(k, fresh, known, lot.y[:, k])
            for part, w in self.frozen.items():
                if part in found:
                    found[part][:, k] = fresh @ w[k].T.astype(fresh.dtype)

    def _inputs(self, z: Array, x: Array, older: Array) -> Array:
        return alone.inputs(z, x, self.size, older if self.older else None)

    def vectors(self, weights: dict[str, float], dim: int) -> tuple[Array, Array]:
        """Their sum: of the inputs [K, D + L + 1], of older labels [K, 2]."""
        a = np.array([weights.get(name, 0.0) for name in self.names + self.leaning])
        w = np.einsum("m,kmn->kn", a, self.models.frozen())
        w, older = np.split(w, [w.shape[1] - self.older], axis=1)
        unused = np.zeros((len(w), dim - self.size))
        w = np.concatenate([w[:, : self.size], unused, w[:, self.size :]], axis=1)
        habits = np.array([weights.get(name, 0.0) for name in HABITS])
        return w, habits + (LABEL * older if self.older else np.zeros((len(w), 2)))


class Shown(Contender):
    """One of the models that each client learns alone."""

    def __init__(self, line: Regression, name: str) -> None:
        self.line, self.features, self.name = line, line.features, name
        self.score = Score(TITLES[MODELS.index(name)], line.score.clients, "free")

    def play(self, lot: Lot, span: Span) -> Guesses:
        """What was learned together with the line, which plays first."""
        self.answers = {p: {"global": v[self.name]} for p, v in self.line.guesses.items()}
        return self.answers


@dataclass(frozen=True)
class Free:
    """What a client has for no byte; all of it plays before any mix of it."""

    line: Regression
    others: dict[str, Contender]

    @property
    def all(self) -> tuple[Contender, ...]:
        """In the order in which they play."""
        return self.line, *self.others.values()


def free(clients: int, features: FeatureMap, taps: int, use: str) -> Free:
    """The contenders that send nothing."""
    line = Regression(clients, features, taps, use)
    others: dict[str, Contender] = {name: Shown(line, name) for name in line.names[1:]}
    others[LAST] = Repeat("Last value", clients, LAST)
    others[SEASON] = Repeat("Value of a season ago", clients, SEASON)
    return Free(line, others)


def sound(w: Array) -> Array:
    """Models w [..., D] without those that have diverged, which are 0: they say no more than that.

    >>> sound(np.array([[1.0, 2.0], [np.inf, 0.0]])).tolist()
    [[1.0, 2.0], [0.0, 0.0]]
    """
    return np.where((np.abs(w) <= mixing.FAR).all(axis=-1, keepdims=True), w, 0)


class Mixture(Contender):
    """All that a client can have where it takes part in a method: its answers, and their price."""

    def __init__(self, player: Player, free: Free, delay: int, use: str) -> None:
        self.player, self.free, self.features, self.delay = player, free, player.features, delay
        method, clients = player.score, player.score.clients
        self.score = Score(f"Mix with {method.title}", clients, method.kind, method.options)
        self.online = stage.EXPERTS
        # What a mix that is not changed any more has.
        self.still = (OWN, *free.line.names, *free.line.leaning, SHARED, MEAN)
        self.still += HABITS if use == "live" else ()
        self.mixer = mixing.Mixer(clients, np.array(stage.TRUST), delay)
        # By part, the moments of (guesses, label, 1), of labels that are known when the part ends.
        self.sums: dict[str, Array] = {}
        self.weights: dict[str, Array] = {}  # of each part, as they were when it began
        self.labels = np.zeros(clients, np.int64)  # that each has had

    def play(self, lot: Lot, span: Span) -> Guesses:
        """Mix what the others have said of these rounds."""
        parts = span.overlap(lot.first, len(lot.y))
        self.start = np.vecdot(lot.fresh, self.player.start)
        online = self._awake(self._guesses("prequential", self.online), lot.y)
        still = {part: mixing.bounded(self._guesses(part, self.still)) for part in parts}
        answers = []
        for begin, end in span.cuts(lot.first, len(lot.y)):
            # Weights of a part are chosen before any label of it is learned.
            for part, (start, _) in span.parts.items():
                if begin >= start and part not in self.weights:
                    self.weights[part] = self.trust()
            some, here = lot.part(begin, end), slice(begin - lot.first, end - lot.first)
            answers.append(self.mixer.follow(online[here], some.y))
            for part, guesses in still.items():
                if part != "choice":  # its quarters instead
                    self._weigh(part, some, guesses[here], span)
        self.answers = {"prequential": {"global": np.concatenate(answers)}}
        shown = {part: p @ self.weights[part] for part, p in still.items() if part in span.parts}
        self.answers |= {part: {"global": answers} for part, answers in shown.items()}
        return self.answers

    def _guesses(self, part: str, names: Sequence[str]) -> Array:
        method, free = self.player.answers[part], self.free
        found = {
            OWN: method.get("own", method["global"]), SHARED: method["global"],
            MEAN: np.zeros_like(method["global"]), START: self.start,
        }  # fmt: skip
        found |= free.line.guesses[part]
        found |= {name: other.answers[part]["global"] for name, other in free.others.items()}
        return np.stack([found[name] for name in names], axis=-1)

    def warm(self, x: Array, y: Array, before: Array) -> None:
        """A client with labels has something to learn alone from."""
        self.labels += (~np.isnan(y)).sum(axis=0)

    def _awake(self, guesses: Array, y: Array) -> Array:
        """With few labels, a client has only what others have taught it."""
        known = ~np.isnan(y)
        count = self.labels + known.cumsum(axis=0) - known
        self.labels += known.sum(axis=0)
        taps = self.free.line.models.taps
        return mixing.cold_start(guesses, count, self.player.start.any(axis=1), taps)

    def _weigh(self, part: str, lot: Lot, guesses: Array, span: Span) -> None:
        """Sums for the weights of the next part; labels that come after its begin are not seen."""
        (begin, end), n = span.freezes[part], lot.first + np.arange(len(lot.truth))
        known = min(end, (span.stop if part == "frozen" else span.frozen) - self.delay)
        here = ((n >= begin) & (n < known))[:, None] & np.isfinite(lot.truth)
        y = lot.truth[here].astype(np.float64)
        rows = np.column_stack([guesses[here], y, np.ones(len(y))])
        self.sums[part] = self.sums.get(part, 0.0) + rows.T @ rows

    def trust(self) -> Array:
        """One weight for each kind of model, which would have been best for frozen ones so far."""
        some = sum(self.sums.values(), np.zeros(()))
        if some.any():
            G, h = some[:-2, :-2], some[:-2, -2]
            return min((self._stacked(G, h, out) for out in (MODELS, (*LEANING, *MEANS))),
                       key=lambda a: float(a @ G @ a - 2 * a @ h))  # fmt: skip
        learned = dict(zip(self.online, self.mixer.weights.mean(axis=0), strict=True))
        learned |= {LEANING[i]: learned.pop(name) for i, name in enumerate(MODELS[:2])}
        found = np.array([learned.get(name, 0.0) for name in self.still])
        found += np.finfo(np.float64).tiny  # all of them may be 0 next to a perfect habit
        return np.asarray(found / found.sum())

    def _stacked(self, products: Array, with_label: Array, out: Sequence[str]) -> Array:
        """Without some models: all lean on the mean of all clients, or none does."""
        some = [i for i, name in enumerate(self.still) if name not in out]
        a = np.zeros(len(self.still))
        a[some] = mixing.stacked(products[np.ix_(some, some)], with_label[some])
        return a

    def late(self) -> tuple[float, float]:
        """Errors over the variance of the last part: with the weights of now, and of a mean.

        That is the mean of the part before. The weights know the last part, the models do not.
        """
        none = np.full((len(self.still) + 2,) * 2, np.nan)
        last = self.sums.get("frozen", none)
        before = sum(self.sums.values(), np.zeros_like(none)) - last  # of the quarters
        gaps = np.zeros((2, len(last)))
        gaps[:, -2], gaps[0, :-2] = -1, self.trust()
        with np.errstate(divide="ignore", invalid="ignore"):  # none, or all alike
            gaps[1, -1], count = before[-1, -2] / before[-1, -1], last[-1, -1]
            variance = last[-2, -2] / count - (last[-2, -1] / count) ** 2
            mix, constant = np.vecdot(gaps @ last, gaps) / count / variance
        return float(mix), float(constant)

    def beginning(self, season: int) -> stage.MixOptions:
        """What a device begins with: the mean trust of these clients, and a little in all."""
        trust = 0.9 * self.mixer.weights.mean(axis=0) + 0.1 / len(self.online)
        rounded = tuple(float(f"{weight:.4g}") for weight in trust)
        return stage.MixOptions(season, rounded, self.free.line.size or None)

    def close(self, labels: int) -> None:
        """It costs what its method costs; and once, w for who joined later, and means for all."""
        for name in ("up", "down", "multicast", "messages", "largest", "setup"):
            setattr(self.score, name, getattr(self.player.score, name))
        joined = int(self.player.start.any(axis=1).sum())
        size = len(self.player.method.encode(self.player.start[0], up=False)) if joined else 0
        self.score.setup += 2 * self.free.line.models.sent_once * payload.size("float32")
        self.score.down += joined * size
        self.score.multicast += joined * size
        self.score.messages += joined

    def vectors(self) -> tuple[Array, Array]:
        """The mix of each client: of its inputs [K, D + L + 1], of older labels [K, 2]."""
        a = dict(zip(self.still, self.trust().tolist(), strict=True))
        shared, own = sound(self.player.shared), self.player.own
        dim = shared.shape[-1]
        w, habits = self.free.line.vectors(a, dim)
        w[:, :dim] += a[SHARED] * shared + a[OWN] * (shared if own is None else sound(own))
        return w, habits
