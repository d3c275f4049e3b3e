"""A client on the wire: an invitation comes in, an answer goes out, and the record of both is
durable before the answer leaves."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from psofed.core import mixing
from psofed.errors import InputError
from psofed.federation.membership import LAST
from psofed.federation.records import number
from psofed.federation.schema import inside
from psofed.fleet.protocol import wire
from psofed.fleet.protocol.client import Array, Client, Source
from psofed.fleet.protocol.confidence import Confidence, Forecast, Report
from psofed.fleet.protocol.deployment import Deployment
from psofed.fleet.protocol.masking import Masking
from psofed.fleet.protocol.moments import SLOTS, Sums
from psofed.fleet.protocol.signs import Signs
from psofed.fleet.protocol.store import DamagedFolderError, Disk, in_words
from psofed.fleet.protocol.wire import DOWN, UP, RefusedError, seal, unseal
from psofed.stages.checks.contract import suspect
from psofed.stages.mask import Pairs
from psofed.stages.mix import NAME
from psofed.stages.noise import SPENT, noise_in


class Member:
    """Client, store and wire: the interface for the transport."""

    def __init__(
        self, plan: Deployment, k: int, disk: Disk, source: Source | None = None,
        key: bytes | None = None, measured: bool = False,
        pairs: Mapping[int, bytes] | None = None,
    ) -> None:  # fmt: skip
        if not 0 <= k <= LAST or (k >= plan.experiment.clients and plan.settled):
            right = f"use 0 to {plan.experiment.clients - 1}"
            raise InputError("--id", f"is {k}", f"{right}{plan.settled and ': '}{plan.settled}")
        self.plan, self.k, self.key, self._digest = plan, k, key, plan.digest
        bound = plan.deploy.bound
        if plan.masked and plan.world.privacy is not None:
            bound = min(bound, plan.world.privacy.range)
        self.client = Client(plan.device(measured), k, source, bound)
        self.confidence = self.client.confidence = Confidence()
        self.client.masking = self._masking(pairs)
        self.noise = noise_in(self.client.method)
        self.store = plan.store(disk, f"client {k}")
        mix = self.client.mix
        if mix is not None:
            apart = plan.store(disk, f"client {k}", SLOTS)
            self.client.moments = Sums(self.client.method, mix, apart)
        self.incarnation = 0  # the highest that was seen
        self.trouble = ""  # why the last record could not be written
        self.refused: dict[str, int] = {}
        self.skipped = 0  # samples that were useless before any check, or clipped
        self.wrong = 0  # what is wrong with its samples, as signs say it
        self.standing = ""  # what the server says that this client is, if it is not a member
        # Live: the round of its first answer, unless it was told to begin; -1: it has none yet.
        self._first = -1 if plan.deploy.live else None
        arrays = self._loaded()
        if arrays is not None:
            with inside(where=self.store.file):
                self.client.restore(arrays)
                self.incarnation = number(arrays, "incarnation", 0, wire.LAST_INCARNATION)
        if plan.masked and self.store.notes:  # what it has forgotten may have been masked, and sent
            found = f"{self.store.notes[0].partition(';')[0]}; other values under the masks of then"
            right = f"`psofed deploy keys renew {k} --new-mask`, and a new state folder"
            raise InputError(disk.name, f"{found} would show", right)
        if arrays is not None and self.client.moments is not None:
            with inside(where=disk.name):
                lost = self.client.moments.restore(self.client.state, arrays)
            self.store.notes += [lost] if lost else []
        self._reported = self.samples  # what the server knows, with the last answer
        self._signs = Signs(0, 0)

    def _loaded(self) -> dict[str, Array] | None:
        """Its record; where none is whole and `on_damage` says so, none, and both are put aside."""
        try:
            return self.store.load()
        except DamagedFolderError as error:
            if self.plan.deploy.on_damage == "stop" or self.plan.masked:
                raise
            self.store.set_aside()
            self.store.notes = [f"{error.found}; starting over, they are kept as damaged.record.*"]
            return None

    def _masking(self, keys: Mapping[int, bytes] | None) -> Masking | None:
        """Rule 19: masks, from the keys that it shares with each other client."""
        privacy = self.plan.world.privacy
        if self.plan.masked != (keys is not None):
            found = "are missing, but" if keys is None else "are given, but not"
            raise InputError("keys of masks", f"{found} [privacy] masks = true", "see the file")
        if keys is None or privacy is None:
            return None
        pairs = Pairs(self.k, keys, self._digest, privacy.self_masks)
        return Masking(self.client.method, pairs, privacy)

    @property
    def spent(self) -> float | None:
        """Epsilon that its uploads have spent so far; None if there is no budget."""
        return None if self.noise is None else self.noise.epsilon(int(self.client.state[SPENT][0]))

    @property
    def exhausted(self) -> bool:
        """Whether its uploads say nothing any more."""
        if self.noise is None or self.noise.level == "sample":
            return False
        return int(self.client.state[SPENT][0]) >= self.noise.uploads

    def answer(self, x: Array) -> Forecast:
        """A prediction for one x [L], with its intervals; its label may come later."""
        return self.confidence.answer(x, float(self.client.predict(x)))

    def what_if(self, x: Array) -> Forecast:
        """The same for a question that is never learned from: nothing is remembered of it."""
        return self.confidence.forecast(self.client.guess(x)[0])

    @property
    def samples(self) -> Signs:
        """How many were learned so far, and how many were not learned as they were."""
        return Signs(self.client.learned, suspect(self.client.checked) + self.skipped)

    def report(self) -> Report:
        """What an operator may want to know of its answers."""
        weights, mix = None, self.client.mix
        if mix is not None:
            weights = mixing.weights(self.client.state[NAME + "memory"][0], mix.trust)
        return Report.of(self.confidence, self.samples.skipped, weights)

    def hello(self) -> bytes:
        """The message after each connect: a server that waits for this client asks again.

        It carries the round after the last one taken part in, so that a server whose newest record
        was damaged learns that it has fallen behind; and what the client reports of its answers.
        """
        body = b""
        if self.plan.deploy.report and self.confidence.recent:
            body = self.report().to_bytes()
        frame = wire.Frame(wire.HELLO, self._digest, self.client.last_round + 1, body=body)
        return seal(self.key, UP, wire.encode(frame))

    def take(self, data: bytes) -> tuple[bytes | None, str]:
        """One message from the server: the answer, and the outcome in a word or a sentence."""
        try:
            frame = received(self.plan, self.key, self.incarnation, data)
            if frame.kind == wire.HELLO:
                word = wire.word(frame.body)
                self.standing = "" if word == wire.ASLEEP else word
                # Nothing but this is answered, and never with an answer to be answered.
                return (self.hello(), "probed") if word == wire.ASLEEP else (None, "welcome")
            if frame.kind == wire.QUESTION:
                return self._reveal(frame)
            self.standing = ""
            begin, last = frame.kind == wire.BEGIN, self.client.last_round
            if begin and last == self._first:
                self.client.forget()  # what it has answered without a state was not taken
            elif begin and frame.wire == wire.IF_BLANK and frame.n != last >= 0:
                return self.hello(), "probed"  # somebody else has said so, or an old message
            known = frame.n == self.client.last_round
            answer = self.client.take_part(frame.n, frame.body, begin)
            if begin or last == self._first == -1:
                self._first = None if begin else frame.n
        except RefusedError as error:
            self.refused[error.reason] = self.refused.get(error.reason, 0) + 1
            return None, str(error)
        if not known or frame.incarnation > self.incarnation:
            self.incarnation = frame.incarnation
            self.save()
        if self.trouble:  # what it would say could be forgotten, and contradicted later
            return None, "held"
        if begin and not known:
            self._reported = self.samples  # the check starts counting again, too
        if self.plan.signed:
            answer += self._signed(known)
        type = wire.IF_BLANK if frame.n == self._first else self.plan.wire
        reply = wire.Frame(wire.UPLOAD, self._digest, frame.n, wire=type, body=answer)
        return seal(self.key, UP, wire.encode(reply)), "repeated" if known else "answered"

    def _signed(self, known: bool) -> bytes:
        """The signs of an answer; one that is repeated has those that it had."""
        if not known:
            now, last = self.samples, self._reported
            learned, skipped = (max(a - b, 0) for a, b in zip(now[:2], last[:2], strict=True))
            self._signs = Signs.read(Signs(learned, skipped, self.wrong).to_bytes())
            learned, skipped, _ = self._signs
            self._reported = Signs(last.learned + learned, last.skipped + skipped)
        return self._signs.to_bytes()

    def _reveal(self, frame: wire.Frame) -> tuple[bytes | None, str]:
        """Rule 19: seeds; that they were revealed is durable before they leave."""
        masking = self.client.masking
        if masking is None or frame.n != self.client.last_round:
            raise RefusedError("late", f"asked for seeds of round {frame.n}, not of the last one")
        before, seeds = masking.revealed, masking.reveal(frame.n, frame.body)
        known = masking.revealed == before
        if not known or self.trouble:
            self.save()
        if self.trouble:
            return None, "held"
        start, type = self.incarnation, self.plan.wire
        body = frame.body + seeds  # for which sum they are, and they
        reply = wire.Frame(wire.SEEDS, self._digest, frame.n, start, type, body)
        return seal(self.key, UP, wire.encode(reply)), "repeated" if known else "revealed"

    def save(self) -> bool:
        """Rule 5: one durable record of the model, the position, the round and the answer.

        False: the disk does not take it, and no answer leaves until a later attempt succeeds.
        """
        incarnation = np.array(self.incarnation, np.int64)
        try:
            arrays, moments = self.client.to_arrays(), self.client.moments
            if moments is not None:
                arrays = moments.split(arrays, self.client.state)
            self.store.save({**arrays, "incarnation": incarnation})
            if moments is not None:
                moments.settled = True
            self.trouble = ""
        except OSError as error:
            self.trouble = in_words(error)
        return not self.trouble


def received(plan: Deployment, key: bytes | None, seen: int, data: bytes) -> wire.Frame:
    """Rules 3 and 7: a frame of this run, of the newest start that was `seen`, or a later one."""
    frame = wire.decode(unseal(key, DOWN, data), plan.largest)
    if frame.digest != plan.digest:
        found = f"the server runs another experiment ({frame.digest:08x}, not"
        advice = f"{plan.digest:08x}); compare the files of both, and `psofed --version`"
        raise RefusedError("digest", f"{found} {advice}")
    if frame.kind == wire.HELLO:
        return frame
    if frame.kind == wire.QUESTION and plan.masked:
        return frame
    types = {wire.INVITE: (plan.wire,), wire.BEGIN: (plan.wire, wire.IF_BLANK)}
    if frame.wire not in types.get(frame.kind, ()):
        raise RefusedError("kind", "the message is not an invitation to this run")
    wire.check_start(frame.incarnation, seen)
    if not plan.deploy.live and frame.n >= plan.experiment.rounds:
        # Otherwise a wrong number would make the client learn for days to catch up.
        found = f"round {frame.n} was asked for, the experiment has"
        raise RefusedError("round", f"{found} {plan.experiment.rounds}")
    return frame
