"""Attackers: malicious clients against the deployed handlers, and a defence beside its oracle."""

from __future__ import annotations

import sys
import traceback
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from clip_by_hand import ByHand
from trials import Tally, same

from helpers.virtual_disk import Chance, VirtualDisk
from psofed.experiment import Experiment, Features
from psofed.federation.round import closes
from psofed.federation.stage import around
from psofed.fleet.protocol import wire
from psofed.fleet.protocol.coordinator import Coordinator
from psofed.fleet.protocol.deployment import Deploy, Deployment
from psofed.fleet.protocol.member import Member
from psofed.fleet.samples import replay
from psofed.methods import fedavg, onlinefed, psofed
from psofed.stages.attacks import (
    adaptive,
    alie,
    collusion,
    constant,
    ipm,
    labels,
    minmax,
    offset,
    perturbation,
    scale,
    stuck,
)  # fmt: skip
from psofed.stages.attacks.contract import Attacked
from psofed.stages.defences import clip
from psofed.stages.defences.contract import Defended
from psofed.stages.surroundings import attack_in

K, COHORT, ROUNDS = 10, 4, 600
LONG = 420  # rounds of an audited federation: enough for some reviews and for a way back
LIMIT = 1.5  # dB above the undefended clean run that a fixed attack of 10 % may cost, with clip
ADAPTED = 2.0  # the same of an attacker who knows the state of the defence
HARM = 5.0  # dB that the worst attack must cost without a defence, or nothing was tested
METHODS = {
    "PSO-Fed M=5": psofed.Options(shared=5), "PSO-Fed M=40": psofed.Options(shared=40),
    "Online-Fed": onlinefed.Options(), "FedAvg": fedavg.Options(),
}  # fmt: skip
FIXED = (
    scale.Options(factor=-1), scale.Options(factor=-5), constant.Options(), offset.Options(),
    perturbation.Options(), perturbation.Options(chance=0.2), collusion.Options(), alie.Options(),
    ipm.Options(), minmax.Options(), labels.Options(), labels.Options(factor=100), stuck.Options(),
)  # fmt: skip
ADAPTIVE = tuple(adaptive.Options(push=push) for push in ("against", "random", "weak"))  # type: ignore[arg-type]


class Play:
    """A coordinator, its members and an enemy among them; a restart of the server now and then."""

    def __init__(self, experiment: Experiment, seed: int) -> None:
        attack = attack_in(experiment.attack, experiment.task(0))
        on_values = attack is not None and attack.options.on == "values"
        self.attack = attack if on_values else None
        honest = replace(experiment, attack=None if on_values else experiment.attack)
        self.plan = Deployment(honest, Deploy(wire="float64"))
        self.disk = VirtualDisk("d", Chance(seed, 0))
        self.server = Coordinator(self.plan, self.disk)
        sources = [replay(honest, k) for k in range(experiment.clients)]
        self.members = [
            Member(self.plan, k, VirtualDisk(str(k), Chance(seed, 1 + k)), source)
            for k, source in enumerate(sources)
        ]

    def round(self) -> None:
        """Everybody is asked, some lie, and the round is closed."""
        n, server = self.server.n, self.server.server
        frames = self.server.frames()
        answers = {k: self.members[k].take(frame)[0] for k, frame in frames.items()}
        for k, lie in self._lies(n, list(frames)).items():
            body = b"" if lie is None else server.method.encode(lie, up=True)
            answers[k] = wire.encode(
                wire.Frame(wire.UPLOAD, self.plan.digest, n, wire=self.plan.wire, body=body)
            )
        for k, answer in answers.items():
            assert answer is not None
            self.server.take(k, answer)
        self.server.commit()
        counts = server.ledger.counts
        told = counts["accepted"] + counts["refused"] + counts["lost"]
        same(told, counts["asked"], "the sum")
        same(bool(np.isfinite(server.state["w"]).all()), True, "whether the model is finite")

    def _lies(self, n: int, asked: list[int]) -> dict[int, Any]:
        server = self.server.server
        if self.attack is None or not asked or not closes(server.method, n):
            return {}
        stages = (stage for stage in around(server.method) if isinstance(stage, Defended))
        enemy = Attacked(server.method, self.attack, next(stages, None))
        enemy.known = server.state
        states = [self.members[k].client.state for k in asked]
        crowd = {name: np.concatenate([state[name] for state in states]) for name in states[0]}
        sent, bad = enemy.upload(crowd, np.array(asked), n), self.attack.attackers.among(asked)
        return {k: sent.row(i) for i, k in enumerate(asked) if bad[i]}

    def restart(self) -> None:
        """The server is another process, which knows what its disk has."""
        self.server = Coordinator(self.plan, self.disk)


@cache
def ended(method: str, attack: Any, defence: Any, rounds: int, seed: int = 1) -> float:
    """The test MSE in dB, over the last fifth of the rounds."""
    experiment = Experiment(clients=K, cohort=COHORT, rounds=rounds, seed=seed, dtype="float64",
                            methods=(METHODS[method],), attack=attack, defence=defence)  # fmt: skip
    play, errors = Play(experiment, seed), []
    task = play.plan.method().task
    x, y, _ = experiment.draw_test(task.seeds)
    z = task.features(x)
    for n in range(rounds):
        play.round()
        if n % 97 == 96:
            play.restart()
        if n >= 0.8 * rounds and n % 10 == 9:
            errors.append(np.mean((y - z @ play.server.server.state["w"]) ** 2))
    return float(10 * np.log10(np.mean(errors)))


@dataclass(frozen=True)
class AttackRun:
    """A method and an attack; what it costs in dB, without and with the defence."""

    method: str
    attack: Any
    seed: int
    rounds: int

    def costs(self) -> tuple[float, float]:
        clean = ended(self.method, None, None, self.rounds, self.seed)
        kinds = None, clip.Options()
        bare, kept = (
            ended(self.method, self.attack, kind, self.rounds, self.seed) for kind in kinds
        )
        return bare - clean, kept - clean

    @property
    def limit(self) -> float:
        return ADAPTED if self.attack.adapts else LIMIT


def attack_runs(scale: float) -> list[AttackRun]:
    """All methods and attacks, with as many seeds; of a short campaign a few, in fewer rounds."""
    if scale < 0.1:
        return [
            AttackRun("PSO-Fed M=40", attack, 1, 200)
            for attack in (FIXED[1], labels.Options(factor=100))
        ]
    seeds, attacks = range(1, 1 + max(round(scale), 1)), FIXED + ADAPTIVE
    return [AttackRun(m, a, seed, ROUNDS) for m in METHODS for seed in seeds for a in attacks]


def audit(seed: int, start: int, stop: int) -> Tally:
    """Random federations with attackers that come and go, beside the oracle of the defence."""
    tally = Tally()
    for number in range(start, stop):
        tally.trials += 1
        try:
            _audited(seed, number)
        except Exception:
            tally.failures += 1
            tally.first = tally.first or f"number {number}:\n{traceback.format_exc(limit=-3)}"
    return tally


def _audited(seed: int, number: int) -> None:
    """Honest uploads are near a target; attackers push, stretch what is usual, or behave again."""
    chance = np.random.default_rng([seed, number])
    K, D = int(chance.integers(4, 9)), int(chance.integers(6, 10))
    options = (psofed.Options(shared=D // 2), onlinefed.Options())[number % 2]
    experiment = Experiment(clients=K, cohort=3, rounds=LONG, seed=number, dtype="float64",
                            features=Features(dim=D), methods=(options,),
                            defence=clip.Options())  # fmt: skip
    plan, oracle = Deployment(experiment, Deploy(wire="float64")), ByHand(K, D)
    disk = VirtualDisk("d", Chance(seed, number))
    server, w = Coordinator(plan, disk), np.zeros(D)
    target, bad = chance.normal(size=D), int(chance.integers(K))
    for n in range(LONG):
        changes = {}
        for k in server.missing:
            entries = server.server.method.entries(np.array([k]), np.asarray(n), True)[0]
            U = 0.1 * (target - w)[entries] + chance.normal(size=len(entries)) * 0.1
            if k == bad:
                U = _pushed(n // (LONG // 6), U)
            elif n > LONG // 2 and number % 3 == 0:
                U *= 1.05 ** min(n - LONG // 2, 40)  # all grow together
            changes[k] = w[entries] + U - w[entries], entries
            body = (w[entries] + U).astype("<f8").tobytes()
            frame = wire.Frame(wire.UPLOAD, plan.digest, n, wire="float64", body=body)
            server.take(k, wire.encode(replace(frame, n=n + 1)))  # an early one changes nothing
            same(server.take(k, wire.encode(frame)), "accepted", "the outcome")
        server.commit()
        left = oracle.heard(changes)
        w = w + sum(_spread(left[k], changes[k][1], D) for k in changes) / len(changes)
        found = server.server.state["w"]
        if not np.abs(found - w).max() <= 1e-9 * (1 + np.abs(w).max()):
            raise AssertionError(f"round {n}: the model is off by {np.abs(found - w).max():g}")
        w = found.copy()
        if chance.random() < 0.02:
            server = Coordinator(plan, disk)


def _spread(U: Any, entries: Any, D: int) -> Any:
    whole = np.zeros(D)
    whole[entries] = U
    return whole


def _pushed(phase: int, U: Any) -> Any:
    """What an attacker makes of its change: honest, one way, a huge one, and honest again."""
    return (U, U + 0.3, 30 * U, U, U + 1.0, U)[min(phase, 5)]
