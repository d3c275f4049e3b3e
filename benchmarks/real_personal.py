"""Personal models on real measurements: Ditto, Fed-POE and POF-MKL next to ours, at equal bytes.

    PSOFED_DATA=FOLDER python benchmarks/real_personal.py --seeds 5

Each client predicts with its own model before it learns: mean squared errors over the variance of
the target. Everybody is searched alike, within the warm-up: the widths of kernels, the step, and
what a method declares as its own. Everybody's clients learn alone from the warm-up before the first
message. Rivals may have three kernels, their papers' widths, and all clients in each contact
instead of four; they spend at least the bytes of PSO-Fed with M = 40. What the CSV file has already
(a set with a seed) is not computed again. --quick takes 4,000 rounds of each set.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import real_sets
from real_sets import SETS, Samples
from real_tables import Row, markdown, read, write
from threadpoolctl import threadpool_limits

from psofed.core import features
from psofed.core.seeds import Seeds
from psofed.federation.clients import learn_rows
from psofed.federation.feature_table import Features
from psofed.federation.options import Options
from psofed.methods import local, psofed
from psofed.rivals import ditto, fedpoe, pofmkl
from psofed.stages.surroundings import start
from psofed.tables import backtest, experts, fitting, player
from psofed.tables.experts import Mixture
from psofed.tables.plan import Plan, Span
from psofed.tables.player import Guesses, Lot, Player

Array = Any
DIM, COHORT, SHARED = 200, 4, 40
STEPS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
RATES = (0.001, 0.01, 0.1, 1.0)
APART = (10**-0.5, 1.0, 10**0.5)  # the three kernels of Fed-POE, as shares of a width
PUBLISHED = (0.1**0.5, 1.0, 10**0.5)
FAMILIES = {
    "PSO-Fed, own w_k": psofed.Options(SHARED),
    "KLMS alone (no bytes)": local.Options(),
    "Ditto": ditto.Options(),
    "Fed-POE": fedpoe.Options(kernels=1),
    "POF-MKL": pofmkl.Options(kernels=1),
}
OURS = "PSO-Fed, own w_k"


@dataclass(frozen=True)
class Try:
    """One setting of a method: its options, the widths of its kernels, its step, who takes part."""

    options: Any
    widths: tuple[float, ...]
    step: float = 0.2
    everybody: bool = False

    def fitted(self, clients: int) -> tuple[Options, int]:
        """The options with E such that no byte less is spent than PSO-Fed has, and the cohort."""
        cohort = clients if self.everybody else min(COHORT, clients)
        if not hasattr(self.options, "local_steps"):
            return self.options, cohort
        up = getattr(self.options, "sent", 1) / getattr(self.options, "kernels", 1)
        up = up if isinstance(self.options, pofmkl.Options) else 1.0
        budget = 2 * SHARED * min(COHORT, clients)
        pace = max(int(cohort * DIM * (1 + up) / budget), 1)
        return replace(self.options, local_steps=pace), cohort

    def words(self, clients: int) -> str:
        """For a person."""
        options, cohort = self.fitted(clients)
        widths = " ".join(f"{w:.3g}" for w in self.widths)
        return f"{options.title()}, widths {widths}, step {self.step:g}, {cohort} clients"


class Personal(Player):
    """A contender whose clients answer with their own models, and learn alone in the warm-up."""

    @property
    def own(self) -> Array:
        """What clients predict with."""
        return self.method.models(None, self.clients)

    def warm(self, x: Array, y: Array, before: Array) -> None:
        """Each label of a client, in order; nothing is exchanged."""
        assert self.features is not None
        for x_n, y_n in zip(x, y, strict=True):
            who = np.flatnonzero(~np.isnan(y_n))
            if len(who):
                some = x_n[who], self.features(x_n[who]), y_n[who]
                learn_rows(self.method, self.clients, who, some)

    def play(self, lot: Lot, span: Span) -> Guesses:
        """The personal answers are those that are judged; the shared w is next to them."""
        said = super().play(lot, span)["prequential"]
        self.said = {"prequential": {"global": said["own"], "shared": said["global"]}}
        return self.said


def contender(data: Samples, tried: Try, seed: int, begin: int, maps: dict[Any, Any]) -> Personal:
    """A method over the table; equal widths have one feature map."""
    seeds, clients, taps = Seeds(seed), data.rounds.clients, data.rounds.recipe.taps
    if tried.widths not in maps:
        several = Features(dim=DIM, widths=tried.widths).scale
        maps[tried.widths] = features.cosine(seeds, DIM, taps, several).astype(np.float32)
    options, cohort = tried.fitted(clients)
    task = player.task(data.rounds, maps[tried.widths], seeds, tried.step, cohort,
                       data.each.delay, begin=begin)  # fmt: skip
    return Personal("", start(options, task), maps[tried.widths], data.rounds, options)


def choices(best: Try, root: float) -> Generator[list[Try], Try, None]:
    """What is searched, one after another, each around the best so far; `send` tells it."""
    options, own = best.options, {f.name for f in dataclasses.fields(best.options)}
    forms = [replace(best, widths=(c * root,)) for c in fitting.WIDTHS]
    if "kernels" in own:
        three = replace(options, kernels=3)
        forms += [Try(three, tuple(c * w * root for w in APART)) for c in fitting.WIDTHS]
        forms.append(Try(three, PUBLISHED))
        ten = tuple((root * 10 ** np.linspace(-1, 1, 10)).tolist())
        forms.append(Try(replace(options, kernels=10), ten))
    best = yield forms
    best = yield [replace(best, step=step) for step in STEPS]
    for name, values in (
        ("rate", RATES), ("prox", (0.0, 1e-4, 1e-3, 1e-2, 1e-1)), ("explore", (0.1, 0.5, 1.0)),
        ("sent", (1, 2, 3, 5)),
    ):  # fmt: skip
        if name in own:
            kernels = getattr(best.options, "kernels", 1)
            some = [v for v in values if name != "sent" or v <= kernels]
            best = yield [replace(best, options=replace(best.options, **{name: v})) for v in some]
    if "local_steps" in own:
        best = yield [best, replace(best, everybody=True)]
    yield [replace(best, step=best.step * c) for c in (0.5, 1.0, 2.0)]


def tuned(data: Samples, options: Any) -> Try:
    """The setting with the lowest personal error in the second half of the warm-up, with seed 0.

    Of steps it is the smallest within 5 % of the best, as `psofed fit` has it: it forgets least.
    """
    first, root = data.span.first, float(np.sqrt(data.rounds.recipe.taps))
    begin = max(0, first - fitting.TUNING)
    own, found = Span(begin, first, first), Try(options, (root,))
    search = choices(found, root)
    some = next(search)
    while True:
        maps: dict[Any, Any] = {}
        players = [contender(data, each, 0, begin, maps) for each in some]
        scores = backtest.run(data.rounds, players, data.each.delay, own)
        late = scores.marks > (begin + first) // 2
        errors = [np.nan_to_num(np.sum(s.curve[late]), nan=np.inf) for s in scores.scores]
        steps = len({each.step for each in some}) > 1
        enough = (fitting.PATIENCE if steps else 1.0) * min(errors)
        best = some[int(np.flatnonzero(errors <= enough)[0])]
        try:
            some = search.send(best)
        except StopIteration:
            return best


def judged(data: Samples, settings: dict[str, Try], seed: int) -> dict[str, float]:
    """Errors of all rounds after the warm-up, and bytes a round as shares of PSO-Fed's."""
    rounds, span, each = data.rounds, data.span, data.each
    plan = Plan(each.columns, label_delay=each.delay, season=each.season, seed=seed, use="live")
    plan = fitting.tuned(rounds, plan, span, fitting.silent)
    waves, season = fitting.draw(plan, rounds.recipe), fitting.season(data.table, plan)
    shared = fitting.contender(rounds, plan, plan.methods[0], waves, span.first)
    free = experts.free(rounds.clients, waves, rounds.recipe.taps, "live")
    maps: dict[Any, Any] = {}
    mine = {n: contender(data, s, seed, span.first, maps) for n, s in settings.items()}
    mixes = {f"mix with {n}": Mixture(p, free, each.delay, "live") for n, p in mine.items()}
    named = {"mix (psofed fit)": Mixture(shared, free, each.delay, "live"), **mixes, **mine}
    line_up: Sequence[Any] = (*named.values(), shared, *reversed(free.all))
    until = Span(span.first, span.stop, span.stop)
    scores = backtest.run(rounds, line_up, each.delay, until, season=season)
    found = {name: scores.error(j, "prequential") for j, name in enumerate(named)}
    found["PSO-Fed, shared w"] = scores.error(len(named), "prequential")
    paid = {name: c.score.up + c.score.down for name, c in named.items()}
    assert paid["mix (psofed fit)"] == shared.score.up + shared.score.down == paid[OURS]
    for name in mine:
        assert "no bytes" in name or paid[name] >= 0.97 * paid[OURS], (name, paid)
        found[f"bytes, {name}"] = paid[name] / paid[OURS]
    return found


def main() -> int:
    """All sets with all seeds, then the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sets", type=lambda text: text.split(","), default=list(SETS))
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    out = Path("results", "real_personal_quick.csv" if given.quick else "real_personal.csv")
    if set(given.sets) - set(SETS) or not real_sets.folder().is_dir():
        print(f"no such sets; there are {', '.join(SETS)}", file=sys.stderr)
        return 2
    rows = read(out)
    for name in given.sets:
        seeds = set(range(given.seeds)) - {row.seed for row in rows if row.set == name}
        rows += measured(name, seeds, given.quick, out) if seeds else []
    rows.sort(key=lambda row: list(SETS).index(row.set))
    print(markdown([row for row in rows if row.set in given.sets]))
    return 0


def measured(name: str, seeds: set[int], quick: bool, out: Path) -> list[Row]:
    """The figures of a set with some seeds."""
    begin, frame = time.process_time(), SETS[name].load()
    found = []
    with threadpool_limits(1):
        data = real_sets.samples(
            SETS[name], real_sets.shortened(frame, real_sets.QUICK) if quick else frame
        )
        settings = {title: tuned(data, options) for title, options in FAMILIES.items()}
        for tried in settings.values():
            print(f"{name}: {tried.words(data.rounds.clients)}", file=sys.stderr, flush=True)
        for seed in sorted(seeds):
            figures = judged(data, settings, seed)
            rows = [Row("personal", name, seed, what, value) for what, value in figures.items()]
            write(out, rows)
            found += rows
    print(f"{name}: {time.process_time() - begin:.0f} s of CPU time", file=sys.stderr, flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
