"""The audit: play a file's messages, attack them, and judge what was read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from psofed.audit.curious import attack
from psofed.audit.judging import MethodAudit, judge
from psofed.audit.playing import deployed, play, truth
from psofed.audit.server_view import ServerView, TrueSamples
from psofed.errors import InputError
from psofed.experiment import Experiment
from psofed.methods import onlinefed, psofed
from psofed.protocol.deployment import Deploy
from psofed.simulate import montecarlo
from psofed.streams.contract import about, measured

CONTACTS, BLOCKS = 20, 3  # of a client, and uploads: rounds are played until there are so many
CLIENTS = 3  # that are attacked
LONG, FEW = 1000, 4  # rounds and runs of the simulation that says what [privacy] costs
Told = Callable[[str], Callable[[int, int], None]]
MEANING = (
    '"not by our attacks" is no proof of privacy: it says that the attacks here, in these rounds'
    " and on these clients, have read no sample that guessing would not; others may read more."
)


@dataclass(frozen=True)
class Price:
    """What [privacy] costs in error: test MSE in dB by method, without and with it."""

    rounds: int
    runs: int
    without: tuple[float, ...]
    private: tuple[float, ...]


@dataclass(frozen=True)
class Audit:
    """What was read of every method: as the file says and, where it has [privacy], without it."""

    experiment: Experiment
    wire: str
    rounds: int
    clients: int
    methods: tuple[MethodAudit, ...]  # without what [privacy] does
    private: tuple[MethodAudit, ...] = ()  # with it
    price: Price | None = None  # in error


def paper(rounds: int = 500) -> Experiment:
    """The paper's setting: PSO-Fed with M = 40, 5 and 1, and Online-Fed."""
    ours = tuple(psofed.Options(shared) for shared in (40, 5, 1))
    return Experiment(methods=(*ours, onlinefed.Options()), rounds=rounds)


def enough(experiment: Experiment) -> int:
    """Rounds that are played, if nobody says how many."""
    contacts = -(-CONTACTS * experiment.clients // experiment.cohort)
    blocks = max(BLOCKS * options.pace for options in experiment.methods)
    return min(max(contacts, blocks), experiment.rounds)


def audit(experiment: Experiment, deploy: Deploy, rounds: int, clients: int, told: Told) -> Audit:
    """Every method of an experiment, without and with what its table [privacy] does."""
    plain = replace(experiment, privacy=None)
    acts = experiment.privacy is not None and experiment.privacy.acts
    found = [
        tuple(_one(each, j, deploy, rounds, clients, told) for j in range(len(each.methods)))
        for each in ([plain, experiment] if acts else [plain])
    ]
    price = priced(experiment, told) if acts else None
    private = found[1] if acts else ()
    return Audit(experiment, deploy.wire, rounds, clients, found[0], private, price)


def priced(experiment: Experiment, told: Told) -> Price | None:
    """The errors of a short simulation, without and with [privacy]; a table has none."""
    if measured(experiment.stream):
        return None
    rounds, runs = min(experiment.rounds, LONG), min(experiment.runs, FEW)
    short = replace(experiment.shortened(rounds), runs=runs)
    report, errors = told("simulating"), []
    for i, each in enumerate((replace(short, privacy=None), short)):
        found = montecarlo.run(each, progress=False)
        errors.append(tuple(found.mse_db[:, -1].tolist()))
        report(i + 1, 2)
    return Price(rounds, runs, *errors)


def _one(
    experiment: Experiment, j: int, deploy: Deploy, rounds: int, clients: int, told: Told
) -> MethodAudit:
    options, title = experiment.methods[j], experiment.titles[j]
    if options.alone:
        return nothing(title, options.name, "nothing is sent")
    try:
        plan = deployed(experiment, j, deploy)
    except InputError as error:
        if error.field not in ("method", "policy"):
            raise
        return nothing(title, options.name, f"not attacked: it {error.found}")
    view = play(plan, rounds, told(f"playing {title}"))
    return of_view(view, whom(view, clients), title, told)


def nothing(title: str, name: str, note: str) -> MethodAudit:
    """A method of which there are no messages."""
    return MethodAudit(title, name, "", note, 0.0, 0.0, np.nan, 0.0, 0, 0, 0.0, 0.0, 0.0, 0.0)


def whom(view: ServerView, count: int) -> list[int]:
    """Some clients that have taken part: those with the lowest numbers."""
    met = {contact.client for contact in view.contacts}
    met |= {k for total in view.totals for k in total.clients}
    return sorted(met) if view.totals else sorted(met)[:count]


def of_view(
    view: ServerView, clients: list[int], title: str, told: Told, known: TrueSamples | None = None
) -> MethodAudit:
    """Attack a view, then judge it by the samples that its plan has; or by those that are known."""
    name = view.plan.world.methods[0].name
    if not clients:
        return nothing(title, name, "nobody has taken part in these rounds")
    spoils = attack(view, clients, told(f"attacking {title}"))
    real = truth(view.plan, clients, view.stop) if known is None else known
    stream = view.plan.experiment.stream
    return judge(spoils, real, title, name, view.bytes_up, stream)


def check(experiment: Experiment) -> None:
    """Refuse what cannot be played."""
    if experiment.fleet:
        raise InputError(
            "fleet", "is given, but an audit has the first clients only", "leave it out"
        )
    about(experiment.stream).check_rounds(experiment.rounds)
