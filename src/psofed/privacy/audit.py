"""The audit: play a file's messages, attack them, and judge what was read.

It is the only place that sees what an attack found and what the samples were.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from psofed.core.native import Array
from psofed.errors import InputError
from psofed.experiment import Experiment
from psofed.fleet.protocol.deployment import Deploy
from psofed.methods import onlinefed, psofed
from psofed.privacy.attack import EACH, MethodAudit, ReadColumn, Reconstruction, attack
from psofed.privacy.inversion import READ, spread
from psofed.privacy.reconstruction import Reader, Recovered, Slot
from psofed.privacy.view import ServerView, TrueSamples, decoded, deployed, play, truth
from psofed.streams.contract import Stream, about
from psofed.streams.table import Options as TableStream

Reporter = Callable[[str], Callable[[int, int], None]]
CONTACTS, BLOCKS = 20, 3  # contacts of a client and uploads until which rounds are played
CLIENTS = 3  # that are attacked
WITHIN = 0.05  # standard deviations, in every input: a sample that is that near is read
RANKED = 700  # unknowns, at most, of whose equations the rank is computed
SHOWN = 3  # samples that are shown next to the truth
MEANING = (
    '"not by our attacks" is no proof of privacy: it says that the attacks here, in these rounds'
    " and on these clients, have read no sample that guessing would not; others may read more."
    ' "determined": another search could find what ours has not. "closed": a round has at'
    " most a quarter as many numbers as its newest samples have unknowns, which no number of rounds"
    " makes up for; a server that knows errors, by models of its choice, may still read some."
)


@dataclass(frozen=True)
class Audit:
    """What was read of every method: as the file says and, where it has [privacy], without it."""

    experiment: Experiment
    wire: str
    rounds: int
    clients: int
    methods: tuple[MethodAudit, ...]  # without what [privacy] does
    private: tuple[MethodAudit, ...] = ()  # with it


def paper() -> Experiment:
    """The paper's setting: PSO-Fed with M = 40, 5 and 1, and Online-Fed."""
    ours = tuple(psofed.Options(shared) for shared in (40, 5, 1))
    return Experiment(methods=(*ours, onlinefed.Options()), rounds=500)


def enough(experiment: Experiment) -> int:
    """Rounds that are played, if nobody says how many."""
    contacts = -(-CONTACTS * experiment.clients // experiment.cohort)
    blocks = max(BLOCKS * options.pace for options in experiment.methods)
    return min(max(contacts, blocks), experiment.rounds)


def check(experiment: Experiment) -> None:
    """Refuse what cannot be played."""
    if experiment.fleet:
        found = "is given, but an audit has the first clients only"
        raise InputError("fleet", found, "leave it out")
    about(experiment.stream).check_rounds(experiment.rounds)


def audit(
    experiment: Experiment, deploy: Deploy, rounds: int, clients: int, report: Reporter
) -> Audit:
    """Every method of an experiment, without and with what its table [privacy] does."""
    plain = replace(experiment, privacy=None)
    acts = experiment.privacy is not None and experiment.privacy.acts
    found = [
        tuple(_one(each, j, deploy, rounds, clients, report) for j in range(len(each.methods)))
        for each in ([plain, experiment] if acts else [plain])
    ]
    private = found[1] if acts else ()
    return Audit(experiment, deploy.wire, rounds, clients, found[0], private)


def _one(
    experiment: Experiment, j: int, deploy: Deploy, rounds: int, clients: int, report: Reporter
) -> MethodAudit:
    options, title = experiment.methods[j], experiment.titles[j]
    if options.alone:
        return MethodAudit(title, options.name, note="nothing is sent")
    try:
        plan = deployed(experiment, j, deploy)
    except InputError as error:
        if error.field not in ("method", "policy"):
            raise
        return MethodAudit(title, options.name, note=f"not attacked: it {error.found}")
    view = play(plan, rounds, report(f"playing {title}"))
    return of_view(view, whom(view, clients), title, report)


def whom(view: ServerView, count: int) -> list[int]:
    """The clients to attack: of those that took part, the lowest numbers; of sums, all."""
    met = sorted({k for contact in view.contacts for k in contact.clients})
    return met if view.masked else met[:count]


@threadpool_limits.wrap(limits=1, user_api="blas")  # type: ignore[untyped-decorator] # small matrices
def of_view(view: ServerView, clients: list[int], title: str, report: Reporter) -> MethodAudit:
    """Attack a view, then judge it by the samples that its plan has."""
    name = view.plan.world.methods[0].name
    if not clients:
        return MethodAudit(title, name, note="nobody has taken part in these rounds")
    found = attack(view, clients, report(f"attacking {title}"))
    true = truth(view.plan, clients, view.stop)
    judged = judge(found, true, view.plan.experiment.stream)
    return replace(
        judged, title=title, name=name, bytes_up=view.bytes_up,
        determined=determined(found, view, true), count=view.plan.world.counts[0],
    )  # fmt: skip


def determined(attacked: Reconstruction, view: ServerView, truth: TrueSamples) -> float:
    """The share of samples that the equations of the first rounds determine, by rank at the truth.

    Noise and guess leave their inputs a deviation below READ (Cramer and Rao), which needs no
    search; of all rounds jointly, as long as there are at most RANKED unknowns.
    """
    shares, a = [], _steps(view, truth)
    for reader in attacked.readers:
        slots, rows = _first(reader, a)
        if slots:
            problem = reader.posed(slots, rows, {})
            u = np.empty(len(problem.known))
            u[problem.layout] = np.array([truth[k][0][n] for k, n in slots])
            shares.append(spread(problem, u, np.array([a[slot] for slot in slots])) <= READ)
    return float(np.concatenate(shares).mean()) if shares else float("nan")


def _first(reader: Reader, learned: Collection[Slot]) -> tuple[list[Slot], Any]:
    """As many of the first samples as the rank is computed of, and the equations about them."""
    found: tuple[list[Slot], Any] = [], None
    rows = reader.received
    for n in np.unique(rows.until) if rows is not None else ():
        assert rows is not None
        some = rows[rows.until <= n]
        slots = [slot for slot in reader.slots if slot[1] <= n and slot in learned]
        if not slots:
            continue
        held = some.holding(*np.array(slots).T).any(axis=0)
        slots = [slots[i] for i in np.flatnonzero(held)]
        if len(reader.names(slots)) + len(slots) > RANKED:
            break
        found = slots, some
    return found


def _steps(view: ServerView, truth: TrueSamples) -> dict[tuple[int, int], float]:
    """a = mu e of each true sample (k, n), by eq. (9) and (10) from what came down."""
    method, found = view.method, {}
    for k, (x, y) in truth.items():
        down = {each.n: decoded(method, replace(each, up=b""), view.masked) for each in view.of(k)}
        w = np.asarray(method.task.initial(), np.float64).copy()
        z = np.asarray(method.task.features(x.astype(method.task.dtype)), np.float64)
        learning = range(len(y)) if method.idle else sorted(down)
        for n in learning:
            if n in down:
                w[down[n].down] = down[n].before
            if np.isfinite(y[n]):
                before = w.copy()
                method.task.learner.learn(w, z[n], np.float64(y[n]), method.step)
                found[k, n] = float((w - before) @ z[n] / max(z[n] @ z[n], 1e-300))
    return found


def judge(attacked: Reconstruction, truth: TrueSamples, stream: Stream) -> MethodAudit:
    """The shares, over the samples that messages depend on."""
    true, found, scale = compared(attacked, truth)
    if not len(true):
        return attacked.counts
    with np.errstate(invalid="ignore"):
        off = np.abs(found - true) / scale
        x, both = (off[:, :-1] <= WITHIN).all(axis=1), (off <= WITHIN).all(axis=1)
    middle = np.abs(true - true.mean(axis=0))[:, :-1]
    return replace(
        attacked.counts, read=float(both.mean()), inputs=float(x.mean()),
        error=float(np.median(off[x, :-1].max(axis=1))) if x.any() else float("nan"),
        chance=float((middle <= WITHIN * scale[:-1]).all(axis=1).mean()), samples=len(true),
        columns=columns(true, found, x, both, stream),
    )  # fmt: skip


def compared(attacked: Reconstruction, truth: TrueSamples) -> tuple[Array, Array, Array]:
    """Each true sample [N, L + 1], the nearest of what was said of its round, and deviations."""
    rows = [
        (k, n, np.append(x[n], y[n]))
        for k, (x, y) in truth.items()
        for n in attacked.learned.get(k, [])
        if n < len(y) and np.isfinite(y[n])
    ]
    size = next(x.shape[1] for x, _ in truth.values()) + 1
    true = np.array([row for _, _, row in rows], np.float64).reshape(len(rows), size)
    scale = true.std(axis=0) if len(rows) else np.ones(size)
    scale = np.where(scale > 1e-9, scale, 1.0)
    said: dict[tuple[int, int], list[Recovered]] = {}
    for k, some in attacked.samples.items():
        for sample in some:
            said.setdefault((k, sample.n), []).append(sample)
    found = np.full_like(true, np.nan)
    for i, (k, n, row) in enumerate(rows):
        of = said.get((k, n), []) + said.get((EACH, n), [])
        options = np.array([np.append(sample.x, sample.y) for sample in of])
        if len(options):
            away = np.abs(options[:, :-1] - row[:-1]) / scale[:-1]
            found[i] = options[away.max(axis=1).argmin()]
    return true, found, scale


def columns(
    true: Array, found: Array, x: Array, both: Array, stream: Stream
) -> tuple[ReadColumn, ...]:
    """For tables, what was read in the units of their columns."""
    if not isinstance(stream, TableStream):
        return ()
    recipe = stream.recipe
    pairs = {name: recipe.scaling[name] for name in recipe.numeric}
    target = recipe.columns.target
    pairs[target] = float(recipe.centre[-1]), float(recipe.scale[-1])
    some = []
    for j, name in enumerate([*recipe.names, target]):
        centre, scale = pairs.get(name.partition("[")[0], (0.0, 1.0))
        which = x if j < len(recipe.names) else both
        real, said = (scale * each[:, j] + centre for each in (true, found))
        error = float(np.median(np.abs(said - real)[which])) if which.any() else float("nan")
        shown = tuple(tuple(each[which][:SHOWN].tolist()) for each in (said, real))
        some.append(ReadColumn(name, error, float(real.std()), *shown))
    return tuple(some)
