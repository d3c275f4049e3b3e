"""What leaves a client, by method: a part of the page of methods.

Numbers come from the code, words from here: a new method needs a row of words. Whether masks can
hide its uploads is asked of the code.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any, NamedTuple

import numpy as np

from psofed.errors import InputError
from psofed.experiment import Experiment
from psofed.federation import schema
from psofed.federation.contract import ABSENT, Array, Message
from psofed.federation.options import Options
from psofed.federation.round import Sizes, relays
from psofed.federation.stage import within
from psofed.methods import psofed
from psofed.simulate.any_method import RunSamples, play
from psofed.simulate.draws import draw
from psofed.stages.privacy import Level, Privacy

HEAD = """## What leaves a client

All methods with their default options in the paper's setting: K = 100, |S_n| = 4, D = 200, L = 4,
float32. *T* is the mean number of samples that a client has seen since its previous upload.
*Unknowns* are their inputs and labels, (L + 1) T numbers; where inputs are the last L values of a
signal, each sample adds one new value, 2 T + L - 1 unknowns in all. *Fresh* entries come down and
go up at the same contact, so that they tell of the newest sample alone. "Not attacked" says that
nobody has tried, "not read" that our attack failed; neither says that it is safe. Masked sums of
these cohorts are *open* or *closed* by the counting rule.
[Privacy](privacy.md) explains the attacks, masks and noise.
"""
ROUNDS, CLIENTS = 120, 8  # that are played; what is counted does not depend on more clients


class Words(NamedTuple):
    """What cannot be counted."""

    tells: str  # what an upload is, if one knows what the server knows
    masks: str = ""  # why masks cannot hide it; empty: they can
    read: str = "not attacked"  # or by our attacks: yes, up to a bound, not read


UNEQUAL = "each client sends other entries"
CODED = "codes have a scale for each client"
CHOSEN = "who uploads depends on the data"
NOBODY = "there is no server"
SAMPLE = "the samples are the message"
UNDONE = "not done yet"
ALL = "nothing to attack"
METHODS = {
    "asofed": Words("model after T samples", "the server replaces what a client sent before"),
    "centralised": Words("the samples themselves", SAMPLE, ALL),
    "cmfl": Words("model after T samples; how many signs agree", CHOSEN),
    "ditto": Words("mu e z(x) of one sample; the personal model stays"),
    "etpsofed": Words(
        "entries of a model after T samples; whether the error was large", CHOSEN, "up to a bound"
    ),
    "fedavg": Words("model after T samples", read="yes"),
    "fedpoe": Words("mu e_p z_p(x) of one sample, for each kernel p; weights stay"),
    "fedprox": Words("model after T samples", read="not read"),
    "fedscr": Words("large blocks of mu e z(x) and of what was left out before", UNEQUAL),
    "local": Words("nothing", "nothing is sent", ALL),
    "memofed": Words(
        "gradient over all samples so far, in 4 bits; now and then moments of the inputs",
        "the server remembers what each client sent",
        "first upload: not read",
    ),
    "onlinefed": Words("mu e z(x) of one sample", read="yes"),
    "paofed": Words("entries of a model after T samples", "uploads arrive late"),
    "pdlms": Words("entries of a model after one more sample, to neighbours", NOBODY),
    "pdrls": Words("entries of a model after one more sample, to neighbours", NOBODY),
    "periodic": Words("entries of a model after T samples", UNDONE, "up to a bound"),
    "pofmkl": Words("mu e_p z_p(x) of one sample, for a kernel p that it does well with", UNEQUAL),
    "psofed": Words("entries of a model after T samples", read="up to a bound"),
    "psorls": Words("entries of a model after T samples", UNDONE),
    "qsgd": Words("mu e z(x) of one sample, in levels", CODED),
    "quantised": Words("entries of a model after T samples, in 4 bits", CODED),
    "raw": Words("the samples themselves", SAMPLE, ALL),
    "sketch": Words("mu e z(x) of one sample, in 1 bit", CODED),
    "structured": Words("random entries of mu e z(x) of one sample", UNEQUAL, "yes"),
    "topk": Words(
        "largest entries of mu e z(x) and of what was left out before", UNEQUAL, "in part"
    ),
}


class Heard(Sizes):
    """Keeps the lengths of uploads."""

    def __init__(self, method: Any) -> None:
        super().__init__(method)
        self.uploads: list[int] = []  # bytes of each
        self.kinds: set[tuple[int, int]] = set()  # numbers and bytes

    def __call__(self, message: Array, up: bool) -> int:
        size = super().__call__(message, up)
        if up:
            self.kinds.add((len(message), size))
        return size

    def traffic(self, *args: Any, **more: Any) -> Any:
        """As it is, but asked for in every round, also if the one before was alike."""
        self._rounds.clear()
        return super().traffic(*args, **more)

    def of(self, message: Message, up: bool) -> Array:
        """Also keeps them."""
        found = super().of(message, up)
        self.uploads += found[message.length != ABSENT].tolist() if up else []
        return found


class Counted(NamedTuple):
    """What was counted of a method with its default options, in the paper's setting."""

    upload: str  # numbers and bytes
    a_round: float  # bytes of all uploads of a round
    samples: float  # that a client saw from one upload to its next
    unknowns: float  # of these samples: x and y of each
    signal: float  # unknowns if inputs are the last L values of a signal, which moves on by one
    fresh: float  # entries that came down and go up at one contact: of its newest samples alone


def count(options: Options) -> Counted:
    """From real messages, of fewer clients; those that all send are scaled up."""
    paper = Experiment()
    played = Experiment(clients=CLIENTS, rounds=ROUNDS, runs=1, dtype="float64", methods=(options,))
    task = played.task(0)
    [method] = played.start(task)
    draws, heard = draw(played, task, everybody=True), Heard(method)
    for _ in play(method, RunSamples(draws), heard):
        pass
    scale = paper.clients / CLIENTS if options.everybody else 1.0
    each = scale * len(heard.uploads) / ROUNDS
    learners = paper.clients if method.idle or options.everybody else paper.cohort
    samples = learners / each if each else 0.0
    a_round = scale * sum(heard.uploads) / ROUNDS
    unknowns = (task.taps + 1) * samples, 2 * samples + (task.taps - 1) * (samples > 0)
    return Counted(_upload(heard.kinds), a_round, samples, *unknowns, fresh(options))


def fresh(options: Options) -> float:
    """Entries of an upload that came down at the same contact, on average; infinite: all."""
    paper = Experiment(methods=(options,))
    [method] = paper.start(paper.task(0))
    if options.everybody or options.alone or relays(method):
        return 0.0
    if not method.idle:
        return inf  # the whole model came down, and has changed since by what is told here
    if not isinstance(within(method), psofed.Method):
        return 0.0
    clients, many = np.arange(paper.clients), np.ones(paper.clients, int)
    shares = []
    for first in range(0, 10 * options.pace, options.pace):
        down = method.entries(clients, many * first, False)
        up = method.entries(clients, many * (first + options.pace - 1), True)
        shares += [len(np.intersect1d(*pair)) for pair in zip(down, up, strict=True)]
    return float(np.mean(shares))


def _upload(kinds: set[tuple[int, int]]) -> str:
    if not kinds:
        return "none"
    ends = [" to ".join(f"{v}" for v in sorted({min(c), max(c)})) for c in zip(*kinds, strict=True)]
    return f"{ends[0]} ({ends[1]} B)"


def masked(options: Options) -> str:
    """Whether masks are accepted: "yes", "if coordinated" or "no"."""
    for form, word in ((options, "yes"), (coordinated(options), "if coordinated")):
        try:
            Experiment(methods=(form,), privacy=Privacy(masks=True))
        except InputError:
            continue
        return word
    return "no"


def verdict(options: Options) -> str:
    """Whether sums are closed by the counting rule, over the fewest members that they may have."""
    form = options if masked(options) == "yes" else coordinated(options)
    (count,) = Experiment(methods=(form,), privacy=Privacy(masks=True)).counts
    return "closed" if count.closed else "open"


def noised(options: Options) -> str:
    """Whether noise is accepted: "yes", "client level" only, or "no"."""
    levels: tuple[tuple[Level, str], ...] = (("sample", "yes"), ("client", "client level"))
    for level, word in levels:
        try:
            Experiment(methods=(options,), privacy=Privacy(epsilon=4.0, level=level))
        except InputError:
            continue
        return word
    return "no"


def coordinated(options: Any) -> Options:
    """The same with windows that are equal for all, if it has windows of its own choice."""
    form: Options = (
        replace(options, scheme="coordinated") if hasattr(options, "scheme") else options
    )
    return form


def section() -> str:
    """The part of the page: a row for each method."""
    lines = [
        HEAD,
        "| method | numbers in an upload | bytes up a round | T | unknowns | of a signal | fresh"
        " | what an upload is | read by our attacks | masks | noise |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name in schema.names("psofed.methods"):
        options, words = schema.load("psofed.methods", name).Options(), METHODS[name]
        found, masks = count(options), masked(options)
        cells = [f"[{options.title()}](#{name})", found.upload]
        cells += [*map(_short, found[1:]), words.tells]
        summed = masks if masks == "no" else f"{masks}: {verdict(options)}"
        cells += [words.read, f"no: {words.masks}" if masks == "no" else summed, noised(options)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _short(value: float) -> str:
    return "all" if value == inf else f"{value:,.0f}" if value else "-"
