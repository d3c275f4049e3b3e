"""Masked sums: what they cost, and in bad weather what they give beside the twin without masks.

    python benchmarks/masked_sums.py        bytes and microseconds of a client in a round

`campaign.py --only masks` plays the runs, with drop-outs, kills and lost messages.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from network import SERVER, Network, Weather
from protocol_oracle import models
from trials import Tally, _array, in_a_row, same, weather

from helpers.virtual_disk import Chance
from psofed.experiment import Experiment, Features
from psofed.fleet.protocol import wire
from psofed.fleet.protocol.coordinator import Coordinator
from psofed.fleet.protocol.deployment import Deploy, Deployment
from psofed.fleet.protocol.masking import Unmasking, bits
from psofed.fleet.protocol.member import Member
from psofed.fleet.protocol.server import Server
from psofed.methods import psofed
from psofed.stages import mask as masks
from psofed.stages.mask import Pairs, derived
from psofed.stages.mask import mean as _mean
from psofed.stages.mask import words as _words
from psofed.stages.privacy import Privacy

ROUNDS, WORLDS = 8, 24


@cache
def masked_world(number: int) -> tuple[Deployment, list[Any]]:
    """A small plan and its streams; every second one has self-masks."""
    cohort, dim = 4 + number % 3, 5 + number % 5
    clients = cohort + number % 4
    shared = (1, 2, 3, dim)[number % 4]
    experiment = Experiment(
        clients=clients, cohort=cohort, rounds=ROUNDS, seed=number, dtype="float64",
        features=Features(dim=dim),
        methods=(psofed.Options(shared, "coordinated"),),
        privacy=Privacy(masks=True, self_masks=number % 2 == 1, least=3),
    )  # fmt: skip
    plan = Deployment(experiment, Deploy(wire="float64"))
    return plan, [_array(experiment, k) for k in range(clients)]


@cache
def shared_keys(clients: int) -> dict[int, dict[int, bytes]]:
    """32 bytes for each two clients."""
    generator, keys = np.random.default_rng(clients), {}
    for i in range(clients):
        for j in range(i):
            keys[i, j] = keys[j, i] = generator.bytes(32)
    return {i: {j: keys[i, j] for j in range(clients) if j != i} for i in range(clients)}


class MaskedNetwork(Network):
    """The network, and who must be in the sum of each round."""

    def __init__(self, *args: Any) -> None:
        self.summed: list[set[int]] = []  # by round: whose uploads were folded in
        super().__init__(*args)

    def _member(self, k: int) -> Member:
        keys = shared_keys(self._clients)[k]
        return Member(self.plan, k, self.disks[k], self.streams[k], pairs=keys)

    def _hand(self, k: int, data: bytes) -> None:
        self.server.take(k, data)

    def _close(self) -> None:
        """No answer is waited for any more: unmask what is there, then fold it in."""
        if not self.server.server.sealed and self.server.seal():
            self._opened = self.time
            self._invite()
            return
        n, folded = self.server.n, self._folded()
        if not self._survives(SERVER, self.weather.server_crash, self.server.commit):
            self.trace.server_crashes += 1
            self.server = Coordinator(self.plan, self.disks[SERVER])
        if self.server.n > n:
            self.summed.append(folded)
        self._opened = self.time
        if self.server.n < self.rounds:
            self._invite()

    def _folded(self) -> set[int]:
        """Rule 19, told again: all who answered, if they are enough and all of them told."""
        server, privacy = self.server.server, self.plan.world.privacy
        assert privacy is not None
        here = set(server.answers)
        whole = here == {int(k) for k in server.method.task.cohorts.cohort(server.n)}
        asked = not whole or privacy.self_masks
        if len(here) < privacy.fewest(self.plan.world.cohort) or (asked and self.server.missing):
            return set()
        return here


def patient(weather: Weather) -> Weather:
    """With a deadline by which most have answered: a sum needs some."""
    return weather if weather.deadline is None else replace(weather, deadline=20 + weather.deadline)


def hidden(network: MaskedNetwork) -> None:
    """No answer that travelled is what its client would have said without masks."""
    method, privacy = network.plan.method(), network.plan.world.privacy
    assert privacy is not None
    most = privacy.range * privacy.scale(method.task.cohorts.size)
    bodies = [body for found in network.trace.answers.values() for body in found]
    words = np.concatenate([np.frombuffer(body, "<i4") for body in bodies])
    small = float((np.abs(words.astype(np.int64)) <= most).mean()) if len(words) else 0.0
    if len(words) > 60 and small > 0.5:
        raise AssertionError(f"{small:.2f} of the words look like values")


def masked_run(seed: int, number: int) -> tuple[int, int]:
    """One run in one weather; an AssertionError if anything is not as it must be."""
    chance, (plan, streams) = Chance(seed, number), masked_world(number % WORLDS)
    network = MaskedNetwork(plan, patient(weather(chance, crashes=True)), chance, streams)
    trace = network.run(ROUNDS)
    server, privacy = network.server.server, plan.world.privacy
    assert privacy is not None
    counts = server.ledger.counts
    same(counts["asked"], counts["accepted"] + counts["refused"] + counts["lost"], "the sum")
    same(counts["accepted"], sum(map(len, network.summed)), "the uploads that were folded in")
    for (k, n), bodies in trace.answers.items():
        same(len(bodies), 1, f"the number of answers of client {k} to round {n}")
    w, local = models(plan, network.summed, trace.took_part, streams)
    near(server.state["w"], w, plan, "the global model")
    for member in network.members:
        near(member.client.state["w"], local[member.k], plan, "a local model")
    if network.weather.deadline is None:
        everybody = [set(map(int, server.method.task.cohorts.cohort(n))) for n in range(ROUNDS)]
        same(network.summed, everybody, "who is in the sums of a patient server")
    hidden(network)
    return trace.server_crashes, trace.client_crashes


def near(found: Any, expected: Any, plan: Deployment, what: str) -> None:
    """Equal up to fixed-point rounding: half a step in each round, which may add up."""
    assert plan.world.privacy is not None
    step = 1 / plan.world.privacy.scale(plan.world.cohort)
    if not np.abs(found - expected).max() <= ROUNDS * step:
        raise AssertionError(f"{what} is off by {np.abs(found - expected).max():g}")


def masked_runs(seed: int, start: int, stop: int) -> Tally:
    """Some runs in a row."""
    return in_a_row(lambda number: masked_run(seed, number), start, stop)


def _swap(owner: Any, name: str, other: Any) -> Callable[[], None]:
    """Plant another function; returns what takes it out again."""
    before = getattr(owner, name)
    setattr(owner, name, other)
    return lambda: setattr(owner, name, before)


def _later(self: Pairs, j: int, n: int, down: bytes) -> bytes:
    return derived(self.keys[j], b"pair", self.run, n + (self.own > j), more=down)


def _not_absent(
    own: int, cohort: Any, present: Any, settings: Any
) -> Iterator[tuple[str, int, int]]:
    here = [j for j in cohort if j in present]
    absent = (("pair", own, j) for j in cohort if j not in present)
    return chain(absent, (("self", j, own) for j in here if j != own and settings.self_masks))


def _check(self: Server, k: int, n: int, answer: bytes) -> Any:
    assert self.masks is not None
    present, self.masks.present = self.masks.present, ()
    try:
        return _checked(self, k, n, answer)
    finally:
        self.masks.present = present


_checked = Server._check


def _impatient(self: Unmasking) -> list[int]:
    for k in self.present:
        self.seeds.setdefault(k, bytes(self.size(k)))
    return []


def _first(self: Unmasking, cohort: Any, answered: Any) -> bool:
    return _decided(self, cohort, cohort[: len(answered)])


_decided = Unmasking.decide


# Mistakes in the code, each of which the runs must notice.
MASKS: dict[str, Callable[[], Callable[[], None]]] = {
    "masks that are left in a sum stay there": lambda: _swap(
        masks, "left_over", lambda told, cohort, present, size, settings: np.zeros(size, np.uint32)
    ),
    "both of a pair add their mask": lambda: _swap(masks, "signed", lambda mask, i, j: mask),
    "the two of a pair count rounds differently": lambda: _swap(Pairs, "pair", _later),
    "self-masks for the absent are not told": lambda: _swap(masks, "wanted", _not_absent),
    "nobody masks anything": lambda: _swap(
        Pairs, "hidden", lambda self, words, cohort, n, down: np.asarray(words)
    ),
    "answers count after the sum is decided": lambda: _swap(Server, "_check", _check),
    "others are taken for present": lambda: _swap(Unmasking, "decide", _first),
    "a sum is folded in before all have told": lambda: _swap(
        Unmasking, "missing", property(_impatient)
    ),
    "values are rounded to a tenth": lambda: _swap(
        masks, "words", lambda values, scale, most: _words(np.round(values, 1), scale, most)
    ),
    "the mean is over the whole cohort": lambda: _swap(
        masks, "mean", lambda total, scale, most, count: _mean(total, scale, most, 6)
    ),
}


def cost(cohort: int, shared: int, self_masks: bool) -> tuple[int, int, int, float]:
    """Bytes up and down besides those of an upload, with all there and one gone; microseconds."""
    members, keys = list(range(cohort)), shared_keys(cohort)
    pairs = Pairs(0, keys[0], 7, self_masks)
    words = np.arange(shared, dtype=np.uint32)
    begin, times = perf_counter(), 400
    for n in range(times):
        sent = pairs.hidden(words, members, n)
    spent = 1e6 * (perf_counter() - begin) / times
    question = wire.size(wire.QUESTION, len(bits(members, members)))
    who = len(bits(members, members))
    tells = [
        wire.size(wire.SEEDS, who + len(pairs.revealed(members, m, 0)))
        for m in (members, members[:-1])
    ]
    whole = question + tells[0] if self_masks else 0
    return len(sent.tobytes()), whole, question + tells[1], spent


def main() -> None:
    """A table of it."""
    print("cohort  M    self-masks  values  more if all are there  if one is gone  microseconds")
    for self_masks in (False, True):
        for cohort, shared in ((4, 5), (4, 40), (10, 5), (10, 40)):
            values, whole, gone, spent = cost(cohort, shared, self_masks)
            word = "yes" if self_masks else "no"
            print(
                f"{cohort:6}  {shared:3}  {word:10}  {values:6}  {whole:21}  {gone:14}  {spent:.0f}"
            )


if __name__ == "__main__":
    main()
