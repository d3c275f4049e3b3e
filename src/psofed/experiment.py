"""One description of a run: TOML in, and what every executor asks of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from psofed import extras
from psofed.core import features
from psofed.core.features import FeatureMap, Linear
from psofed.core.schedule import PresentCohorts, UniformCohorts
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.federation import feature_table, plugins, schema
from psofed.federation import membership as fleet
from psofed.federation.contract import Method, Task, exchanged
from psofed.federation.feature_table import Features as Features
from psofed.federation.foreign import PROBES
from psofed.federation.learners import lms
from psofed.federation.membership import FleetCohorts, FleetHistory
from psofed.federation.options import settings
from psofed.federation.schema import inside
from psofed.settings import Settings, no_features, no_targets
from psofed.stages import privacy as private
from psofed.stages.mix import MixOptions
from psofed.stages.noise import noise_of
from psofed.stages.privacy import Count, Mechanism, Privacy
from psofed.stages.surroundings import Surroundings, start
from psofed.streams import contract
from psofed.streams.contract import about, measured
from psofed.streams.synthetic import Synthetic

TABLE_ROUNDS = (100, 200, 500, 1000, 2000)  # those of the tables


class Unseen(NamedTuple):
    """What models are tested on: inputs x, targets y, and y after f has changed, if it does."""

    x: np.ndarray[Any, Any]
    y: np.ndarray[Any, Any]
    later: np.ndarray[Any, Any] | None


@dataclass(frozen=True, repr=False)
class Experiment(Settings):
    """Everything that decides the numbers of a run. The defaults are the paper's setting.

    >>> Experiment(rounds=10, runs=2).cohort
    4
    >>> Experiment(cohort=101)
    Traceback (most recent call last):
    psofed.errors.InputError: cohort is 101, but there are only 100 clients; use 1 to 100
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.features.name, str):
            self.draw_features(Seeds(0))  # tried now, so that mistakes are found at the start

    def only(self, which: Sequence[int]) -> Experiment:
        """The experiment with some of its methods, which keep the titles that they have here."""
        kept = replace(self, methods=tuple(self.methods[j] for j in which))
        if kept.titles == [self.titles[j] for j in which]:
            return kept
        named = (replace(self.methods[j], label=self.titles[j]) for j in which)
        return replace(self, methods=tuple(named))

    def shortened(self, rounds: int) -> Experiment:
        """The first rounds of it, without what changes in the fleet after them."""
        fleet = tuple(change for change in self.fleet if change.round < rounds)
        return replace(self, rounds=rounds, evaluate_every=None, fleet=fleet)

    def parts(self) -> list[tuple[list[int], Experiment]]:
        """The methods by their features and learners: their places here, and they as an experiment.

        In it no method has its own. The titles are those that they have here.
        """
        if not any(options.apart for options in self.methods):
            return [(list(range(len(self.methods))), self)]
        found: list[tuple[list[int], Experiment]] = []
        for j, (options, title) in enumerate(zip(self.methods, self.titles, strict=True)):
            one = self.alone(replace(options, label=title))
            for i, (places, part) in enumerate(found):
                if (part.features, part.learner) == (one.features, one.learner):
                    joined = replace(part, methods=part.methods + one.methods)
                    found[i] = [*places, j], joined
                    break
            else:
                found.append(([j], one))
        return found

    @property
    def evaluated(self) -> np.ndarray[Any, Any]:
        """The rounds n at which w_n is judged: 0, every, ..., the table's, and the last, N."""
        marks = np.arange(0, self.rounds + 1, self.every)
        more = [n for n in (*TABLE_ROUNDS, self.rounds) if n <= self.rounds and n % self.every]
        return np.union1d(marks, more) if more else marks

    def check_simulated(self) -> None:
        """Refuse rounds for which the stream has no samples; not needed on a live clock."""
        about(self.stream).check_rounds(self.rounds)
        masked = self.privacy is not None and self.privacy.masks
        if masked and about(self.stream).presence() is not None:
            found = "is true, but a table says who is there in which round"
            raise InputError("privacy.masks", found, 'deploy it with clock = "live"')

    def task(self, run: int, wire: str = "float32", live: bool = False) -> Task:
        """What the methods of Monte-Carlo run number `run` may know.

        On a live clock it is not known beforehand which clients are there in a round.
        """
        seeds = Seeds(self.seed, run, self.world)
        return Task(
            clients=self.clients,
            dim=self.dim,
            taps=self.stream.taps,
            step=self.step,
            seeds=seeds,
            features=self.draw_features(seeds).astype(self.dtype),
            cohorts=self._cohorts(seeds, live),
            dtype=self.dtype,
            wire=wire,
            learner=self.learner,
        )

    def _cohorts(self, seeds: Seeds, live: bool) -> UniformCohorts:
        size, stream = (self.clients, self.cohort), self.stream
        awake = None
        if isinstance(stream, Synthetic) and stream.switches and not live:
            awake = partial(stream.awake, seeds)
        if self.fleet or awake is not None:
            history = FleetHistory(self.clients, self.fleet)
            room = history.everybody
            return FleetCohorts(seeds, *size, room=room, history=history, awake=awake)
        present = None if live else about(self.stream).presence()
        if present is None:
            return UniformCohorts(seeds, *size, self.gone)
        first, stop, busy = present
        return PresentCohorts(seeds, *size, self.gone, first=first, stop=stop, busy=busy)

    @property
    def around(self) -> Surroundings:
        """What stands around each of the methods; answers matter only where clients are judged."""
        longest = self.features.longest if self.learner.featured else None
        mix = self.mix if self.judge == "personal" else None
        return Surroundings(
            self.check, self.privacy, self.attack, self.defence, self.rounds, longest,
            contract.copies(self.stream), mix,
        )  # fmt: skip

    def draw_features(self, seeds: Seeds) -> FeatureMap:
        """The map from x to z of one run, common to all clients: features, or the inputs."""
        if not self.learner.featured:
            return Linear(self.stream.taps)
        return self.features.in_basis(self._base(seeds), self.stream.taps)

    def _base(self, seeds: Seeds) -> FeatureMap:
        """The features without a basis."""
        f = self.features
        if f.name == "cosine":
            return features.cosine(seeds, f.dim, self.stream.taps, f.scale)
        if f.name == "exponential":
            return features.exponential(seeds, f.dim, self.stream.taps, f.width)
        if f.name != "gaussian":
            return f.own_map(seeds, self._few_inputs())
        centres = contract.snapshot(self.stream, seeds, "centres", self.clients, f.dim).x
        return features.Gaussians(centres, f.width)

    def draw_test(self, seeds: Seeds) -> Unseen:
        """The test set of one run; clean and noisy targets are of the same inputs."""
        clients = self.tested if self.judge == "personal" else self.clients
        drawn = contract.snapshot(self.stream, seeds, "test", clients, self.test_samples)
        later = about(self.stream).later(drawn.x)
        if self.targets == "clean":
            return Unseen(drawn.x, drawn.clean, later)
        return Unseen(drawn.x, drawn.y, None if later is None else later + drawn.noise)

    @property
    def tested(self) -> np.ndarray[Any, Any]:
        """The clients whose samples the test has, in turn: all, or evenly spread ones of many."""
        some = min(self.clients, self.test_samples)
        return np.arange(some) * self.clients // some

    @property
    def judged(self) -> str:
        """The targets of the test in words; those of a table are what was measured."""
        if measured(self.stream):
            return "measured targets"
        own = ", each client's own model by its own samples" * (self.judge == "personal")
        return ("noisy targets" if self.targets == "noisy" else "noise-free targets") + own

    def _few_inputs(self) -> Any:
        """Inputs with which a user's map is tried; those of a table may be elsewhere."""
        count, seeds = PROBES, Seeds(0)
        if measured(self.stream):
            return seeds.generator("probe").standard_normal((count, self.stream.taps))
        return contract.snapshot(self.stream, seeds, "probe", self.clients, count).x

    @property
    def noises(self) -> list[Mechanism | None]:
        """The noise of each method's clients, and what it promises."""
        found: dict[int, Mechanism | None] = {}
        for places, part in self.parts():
            task = part.task(0)
            around = part.around
            known = task, self.privacy, self.rounds, around.longest, around.copies
            found |= {j: noise_of(o, *known) for j, o in zip(places, part.methods, strict=True)}
        return [found[j] for j in range(len(self.methods))]

    @property
    def counts(self) -> list[Count]:
        """What uploads of each method tell by counting: of one client, or of a sum.

        Unknowns are counted where they are free: inputs of a law with a density in each round, and
        errors as they are.
        """
        privacy = self.privacy or Privacy()
        members = privacy.fewest(self.cohort) if privacy.masks else 1
        lags = {(name, lag) for name, lag in contract.origins(self.stream) if lag is not None}
        fresh = sum(lag == 0 for _, lag in lags)
        stream, clips = about(self.stream), privacy.clip_error or privacy.clip_change
        free = stream.input_law(Seeds(0), np.arange(1)) and not (clips or stream.gaps)
        counts: dict[int, Count] = {}
        for places, part in self.parts():
            dense = not part.learner.featured or part.features.name in feature_table.LONGEST
            ours = all(plugins.is_ours(type(each)) for each in (part.learner, *part.methods))
            new = 1 + fresh if free and dense and ours else 0
            for j, method in zip(places, part.start(part.task(0, live=True)), strict=True):
                shared = exchanged(method, up=True).shape[-1]
                counts[j] = Count(shared, members, new, len(lags) - fresh)
        return [counts[j] for j in range(len(self.methods))]

    def start(self, task: Task) -> list[Method]:
        """The methods of the experiment, bound to one run."""
        return [start(options, task, self.around) for options in self.methods]

    def __repr__(self) -> str:
        names = self.titles[0] if len(self.methods) == 1 else f"{len(self.methods)} methods"
        return f"<Experiment: {names}, {', '.join(self._facts())}>"

    def _facts(self) -> list[str]:
        counted = extras.counted
        runs = f"{counted(self.runs, 'run')} of {counted(self.rounds, 'round')}"
        who = f"{self.cohort:,} of {counted(self.clients, 'client')} in a round"
        noisy = [self.judged] if self.targets == "noisy" else []
        facts = [runs, who, f"D = {self.dim:,}", f"stream {self.stream.name}", *noisy]
        return facts + [self.threat] * bool(self.threat)

    @property
    def threat(self) -> str:
        """What malicious clients do, and the server about it; nothing where all is well."""
        if self.attack is None and self.defence is None:
            return ""
        done = "no defence" if self.defence is None else f"defence: {self.defence.describe()}"
        if self.attack is None or not self.attack.share:
            return f"no client is malicious; {done}"
        share = f"{100 * self.attack.share:.3g} % of the clients are malicious"
        return f"{share}: {self.attack.describe()}; {done}"

    def _repr_html_(self) -> str:
        """For notebooks: the methods, and what they share."""
        rows = [
            [title, f"{settings(options, self.step).get('step', '-')}", options.name]
            for title, options in zip(self.titles, self.methods, strict=True)
        ]
        title = f"Experiment: {', '.join(self._facts())}, seed {self.seed}"
        return extras.table(title, ["method", "step", "name in a file"], rows)

    def to_table(self) -> dict[str, Any]:
        """The experiment as plain values: what `to_toml` writes and `read` reads."""
        table = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        for key in ("stream", "learner", "attack", "defence", "check"):
            table[key] = None if table[key] is None else schema.table(table[key])
        table["features"] = self.features.to_table() if self.learner.featured else None
        table["mix"] = None if self.mix is None else schema.values(self.mix)
        table["privacy"] = self.privacy and self.privacy.to_table()
        table["fleet"] = [change.to_table() for change in self.fleet]
        table["methods"] = [schema.table(options) for options in self.methods]
        usual = {"absent": 0.0, "targets": "clean", "judge": "global",
                 "learner": schema.table(lms.Options()), "fleet": [], "privacy": {}}  # fmt: skip
        return {k: v for k, v in table.items() if v is not None and v != usual.get(k)}

    def to_toml(self) -> str:
        """The experiment as TOML: `read` gives back the same."""
        import tomli_w

        return tomli_w.dumps(self.to_table())


def given(experiment: Any) -> Experiment:
    """The experiment, or an InputError where something else was given, such as its file."""
    if isinstance(experiment, Experiment):
        return experiment
    found = f"is {experiment!r}, which is not a psofed.Experiment"
    raise InputError("experiment", found, "make one, or use psofed.read(FILE)")


def read(path: str | Path) -> Experiment:
    """The experiment in a TOML file; every mistake in it is an InputError that names it."""
    with _reading(path) as table:
        return parse(table)


def read_for(path: str | Path, missing: dict[str, Any]) -> tuple[Experiment, dict[str, Any], bool]:
    """The same with other defaults for missing keys, and whether none of these was missing.

    Attack and defence are given by themselves, because they may not fit all of the methods.
    """
    threat: dict[str, Any] = {}
    with _reading(path) as table:
        for key in ("attack", "defence"):
            if key in table:
                threat[key] = schema.reader(f"psofed.{key}s")(key, table.pop(key))
        return parse(missing | table), threat, missing.keys() <= table.keys()


@contextmanager
def _reading(path: str | Path) -> Iterator[dict[str, Any]]:
    """The tables of a file; errors about them name it, and plug-ins are found next to it."""
    table = load(path)
    table.pop("deploy", None)  # read by `serve` and `client`
    with inside(where=str(path)), plugins.relative_to(Path(path).parent):
        yield table


def load(path: str | Path) -> dict[str, Any]:
    """The tables of an experiment file as they are."""
    right = "correct that line, or start from `psofed init`"
    return schema.read_toml(path, "an experiment file", right)


def parse(table: dict[str, Any], stream: schema.Reader | None = None) -> Experiment:
    """An experiment from plain values, as `to_table` makes them; another may read its stream."""
    nested = {
        "stream": stream or schema.reader("psofed.streams"),
        "features": feature_table.read,
        "learner": schema.reader("psofed.learners"),
        "attack": schema.reader("psofed.attacks"),
        "defence": schema.reader("psofed.defences"),
        "check": schema.reader("psofed.sample_checks"),
        "mix": schema.section(partial(schema.build, MixOptions)),
        "privacy": private.read,
        "fleet": fleet.read,
        "methods": schema.each(schema.reader("psofed.methods")),
    }
    experiment: Experiment = schema.build(Experiment, table, nested)
    if "features" in table and not experiment.learner.featured:
        raise no_features(experiment.learner)
    if "targets" in table and measured(experiment.stream):
        raise no_targets(experiment.targets)
    return experiment
