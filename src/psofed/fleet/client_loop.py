"""The client's loop: learn when there are samples, answer when invited."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from psofed.errors import ResourceError
from psofed.fleet import samples
from psofed.fleet.broker import Address, down_topic, up_topic
from psofed.fleet.identity import OWN, Identity, ending
from psofed.fleet.mqtt import POLL, Event, Link
from psofed.fleet.protocol import signs, wire
from psofed.fleet.protocol.client import MOST_WAITING, Source
from psofed.fleet.protocol.confidence import Forecast
from psofed.fleet.protocol.deployment import Deployment
from psofed.fleet.protocol.member import Member
from psofed.fleet.protocol.store import StateFolder, starting
from psofed.fleet.protocol.wire import RefusedError
from psofed.fleet.samples import MalformedError, Sample
from psofed.fleet.tally import Tally
from psofed.stages.checks.contract import in_words, suspect

RETRY = 1.0  # seconds until a record that the disk did not take is tried again
PATIENCE, MOST_PATIENCE = 5.0, 60.0  # seconds until hello is repeated if no server answers
REPORT = 60.0  # seconds between two reports of coverage and errors, if they are wanted
WAITING = 5_000  # samples that wait to be learned; a faster source waits too
REPEATS = 5  # times that an answer is repeated in a second, at most
BATCH = 256  # samples that are learned between two looks at the network
LAST = 0.4  # seconds at the end in which samples that were read are still learned
CLIPPED = "with clipped inputs"
STUCK = 100  # labels in a row that are the same while the inputs are not


@dataclass
class Device:
    """A member on a link, and the samples that arrive at it (none on the lockstep clock)."""

    member: Member
    link: Link
    samples: Iterable[Sample | MalformedError] = ()
    on_news: Callable[[str], None] = lambda line: None
    on_prediction: Callable[[Forecast], object] = lambda forecast: None
    notes: list[str] = field(default_factory=list)  # about the state that was found
    stopped: bool = False
    _said: dict[str, str] = field(default_factory=dict)  # by topic: what it has said last
    _greeted_at: float = field(default_factory=monotonic)
    _hello_at: float | None = None  # when it said hello, until a server answers
    _patience: float = 0.0
    _unsaved: int = 0
    _saved_at: float = field(default_factory=monotonic)
    _repeats: tuple[float, int] = (0.0, 0)  # a second, and answers that were repeated in it
    _held: bool = False  # whether a sample that was read waits for room
    _nudged: bool = False  # whether the inbox has a note that there are samples
    _ended: bool = False  # whether no samples will come
    _waiting: queue.Queue[Any] = field(default_factory=lambda: queue.Queue(WAITING))
    _same: tuple[float, int] = (float("nan"), 0)  # the last label, and how often in a row
    _questions: queue.SimpleQueue[Any] = field(default_factory=queue.SimpleQueue)
    tally: Tally = field(init=False)

    def __post_init__(self) -> None:
        self.tally = Tally(lambda line: self.on_news(line))

    def run(self) -> None:
        """Rule 15: until `stop`, whatever happens to server and broker."""
        self.link.open()
        threading.Thread(target=self._read, daemon=True, name="samples").start()
        while not self.stopped:
            self._step()
        end = monotonic() + LAST
        while (self._held or not self._waiting.empty()) and monotonic() < end:
            self._take_samples()  # what was read is learned, not lost
        if count := self._waiting.qsize():
            self.on_news(f"Warning: {count} samples that were read are not learned any more")
        self.tally.look(last=True)
        if self._unsaved or self.member.trouble:
            self._save()
        self.link.close()
        if self.member.trouble:
            found = f"cannot be written ({self.member.trouble}): what was learned since is lost"
            right = "the next start goes on from the last record"
            raise ResourceError(self.member.store.disk.name, found, right)

    def ask(self, x: Any, seconds: float = PATIENCE) -> Forecast:
        """The answer of now to x [L], from any thread while it runs; it leaves no trace."""
        question = self._checked(Sample(np.asarray(x), None))
        reply: queue.SimpleQueue[Forecast | RefusedError] = queue.SimpleQueue()
        self._questions.put((question.x, reply))
        self.link.put(Event("sample"))
        try:
            found = reply.get(timeout=seconds)
        except queue.Empty:
            raise RefusedError("busy", f"no answer within {seconds:g} s") from None
        if isinstance(found, RefusedError):
            raise found
        return found

    def _take_questions(self) -> None:
        """Those of other threads: all that this one reads or changes is its own."""
        for _ in range(self._questions.qsize()):
            x, reply = self._questions.get()
            try:
                reply.put(self.member.what_if(x))
            except RefusedError as error:
                reply.put(error)

    def _step(self) -> None:
        """What came from the network, then some samples, then what is due by the clock."""
        event = self.link.get(POLL if self._waiting.empty() else 0)
        self._take_questions()
        if event is not None and event.kind == "sample":
            self._nudged = False
        elif event is not None:
            self._network(event)
        self._take_samples()
        self._warn()
        if self._hello_at is not None and monotonic() >= self._hello_at + self._patience:
            self._unheard()
        self.tally.look()
        wait = RETRY if self.member.trouble else self.member.plan.deploy.save_every
        if (self._unsaved or self.member.trouble) and monotonic() >= self._saved_at + wait:
            self._save()
        if self.member.plan.deploy.report and monotonic() >= self._greeted_at + REPORT:
            self._hello()

    def stop(self) -> None:
        """End soon, with everything that was learned on disk."""
        self.stopped = True  # nothing else: a signal handler may not wait for a lock

    def _unheard(self) -> None:
        """No server answers: report it once, and repeat hello at growing intervals."""
        run = self.member.plan.deploy.run
        if self._patience == PATIENCE and not self.member.standing:
            found = f"no server of run {run} answers"
            self.on_news(f"Warning: {found}; still learning, waiting for one")
        self._patience = min(2 * self._patience, MOST_PATIENCE)
        self._hello()

    def _hello(self) -> None:
        topic = up_topic(self.member.plan.deploy.run, self.member.k)
        self.link.send(topic, self.member.hello())
        self._hello_at = self._greeted_at = monotonic()

    def _read(self) -> None:
        """The samples, in a thread, with their own queue so that they do not displace messages."""
        count = 0
        try:
            for count, sample in enumerate(self.samples, 1):  # noqa: B007
                self._held = True
                self._waiting.put(sample)  # waits while there is no room
                self._held = False
                if self.stopped:  # a source without an end must not keep the client from its own
                    return
                if not self._nudged:  # one note at a time: samples need no more room in the inbox
                    self._nudged = True
                    self.link.put(Event("sample"))
        except Exception as error:  # whatever a sensor's iterator raises, the client goes on
            self.on_news(f"Warning: the samples have ended: {type(error).__name__}: {error}")
            self._ended = True
        else:
            if self.member.client.source is None:
                self._ended = True
                goes_on = "this client learns nothing new, and goes on taking part"
                self.on_news(f"Warning: the samples have ended after {count:,}: {goes_on}")

    def _save(self) -> None:
        saved, self._saved_at = self.member.save(), monotonic()
        self._unsaved *= not saved
        self._report_disk()

    def _report_disk(self) -> None:
        """Say once that the disk does not take a record, and when it does again."""
        trouble, name = self.member.trouble, self.member.store.disk.name
        held = f"Warning: {trouble}: still learning, but no answer leaves; trying again"
        self._say("disk", held if trouble else "", f"{name} can be written again")

    def _say(self, topic: str, text: str, over: str = "") -> None:
        """What is new about a topic: a text, or that it is over."""
        if text != self._said.get(topic, ""):
            self._said[topic] = text
            if text or over:
                self.on_news(text or over)

    def _take_samples(self) -> None:
        """Learn from samples that wait, but only a batch, so that the network need not wait."""
        batch: list[Sample] = []
        for _ in range(min(BATCH, self._waiting.qsize())):
            sample = self._waiting.get()
            try:
                sample = self._checked(sample)
            except MalformedError as error:
                self._note(error.kind, f"{error}; skipped")
                continue
            if sample.y is None:
                self._learn(batch)
                batch = []
                self._answer(sample)
            elif sample.jumps:  # a regression would remember so wrong a value for weeks
                self._note(CLIPPED, f"{sample.clipped}; not learned")
            else:
                batch.append(sample)
                if sample.clipped:
                    self._note(CLIPPED, f"{sample.clipped}; learned as clipped")
        self._learn(batch)

    def _checked(self, sample: Sample | MalformedError) -> Sample:
        """In the precision of the task, in which a finite number may no longer be finite."""
        if isinstance(sample, MalformedError):
            raise sample
        task, bound = self.member.client.method.task, self.member.plan.deploy.bound
        return samples.checked(sample, task.taps, task.dtype, bound)

    def _note(self, kind: str, text: str) -> None:
        """A sample that was not learned from, or not as it was."""
        self.tally.add(kind, text)
        self.member.skipped += 1

    def _answer(self, question: Sample) -> None:
        try:
            how = self.member.what_if if question.what_if else self.member.answer
            self.on_prediction(how(question.x))
        except RefusedError as error:
            self.tally.add("unanswered", f"a question is not answered: {error}")

    def _learn(self, batch: list[Sample]) -> None:
        if batch:
            client = self.member.client
            before, checked, dtype = client.passed, client.checked, client.method.task.dtype
            x, y = (np.array([getattr(s, name) for s in batch], dtype) for name in ("x", "y"))
            client.learn(x, y)
            self._unsaved += len(batch)
            if _noteworthy(before, passed := client.passed):
                text = f"{MOST_WAITING} samples wait, {passed} older ones were skipped so far"
                self.on_news(f"Warning: no invitation for a while: {text}")
            self._report_refused(checked)
            self._report_stuck(batch)

    def _report_stuck(self, batch: list[Sample]) -> None:
        """Say once that the labels do not follow the inputs; a sensor may be broken, or at rest.

        They are learned: rain, and the sun at night, are the same for hours.
        """
        label, count = self._same
        for before, sample in zip([None, *batch], batch, strict=False):
            moved = before is None or not np.array_equal(before.x, sample.x)
            label, count = float(sample.y or 0), count + moved if sample.y == label else 1
        self._same = label, count
        text = f"Warning: the label is the same for {STUCK} samples in a row while inputs change"
        self._say("stuck", text if count >= STUCK else "", "labels change again")

    def _report_refused(self, before: dict[str, int]) -> None:
        """Report the 1st, 10th, 100th, ... sample in which the check found a fault."""
        now = self.member.client.checked
        if _noteworthy(suspect(before), suspect(now)):
            self.on_news(f"Warning: not every sample was learned from: {in_words(now)} so far")

    def _report_budget(self) -> None:
        """Once, when the budget of privacy is spent."""
        if self.member.exhausted:
            spent = f"epsilon {self.member.spent:.3g} is spent; from now on this client"
            self._say("budget", f"{spent} uploads nothing but what both ends know")

    def _network(self, event: Event) -> None:
        run, k = self.member.plan.deploy.run, self.member.k
        if event.kind == "message":
            counts, before = self.member.refused, self.member.client.checked
            refused, late, forged = sum(counts.values()), counts.get("late", 0), counts.get("mac")
            own = {whose: end for whose, end in self.link.ends.items() if whose == OWN}
            stuck, expires = self._said.get("stuck"), ending(own)
            marks = ((signs.STUCK, stuck), (signs.ENDED, self._ended), (signs.EXPIRY, expires))
            self.member.wrong = sum(mark for mark, on in marks if on)
            answer, what = self.member.take(event.data)
            self._report_standing()
            self._report_refused(before)  # samples may have waited for the invitation
            if counts.get("mac") == forged:  # otherwise it need not be from a server
                self._hello_at = monotonic() if self.member.standing else None
            self._report_disk()
            self._report_budget()
            if what in ("answered", "revealed"):
                self._unsaved, self._saved_at = 0, monotonic()
            if answer is not None:
                if what in ("answered", "revealed") or self._may_repeat():
                    self.link.send(up_topic(run, k), answer)
            elif refused < sum(self.member.refused.values()):
                self._say("broker", f"Warning: an invitation is refused: {what}")
            if late < self.member.refused.get("late", 0) and monotonic() >= self._greeted_at + 1.0:
                self._hello()  # says how far it is: the server may have fallen behind
            self.link.handled(event)
        elif event.kind == "up":
            self._said["broker"] = ""
            self.on_news(f"connected to {self.link.address}")
            self._patience = PATIENCE
            self._hello()
        elif event.kind == "down":
            why = f"Warning: no broker at {self.link.address}: {event.data}"
            self._say("broker", f"{why}; still learning, trying again")

    def _report_standing(self) -> None:
        """Say once what the server says that this client is."""
        standing, k, names = self.member.standing, self.member.k, self.member.plan.names
        name, who = names(k), f"{names(k)}={k}" if k in names.later else names(k)
        right = {
            "not a member": f"its operator adds it with `psofed deploy fleet add STATE {who}`",
            "excluded": f"its operator readmits it with `psofed deploy fleet readmit STATE {name}`",
            "removed": "its number is not used again: use the next free one",
        }
        why = f"Warning: the server says that client {name} is {standing}: {right.get(standing)}"
        text = f"{why}; still learning, asking again" if standing else ""
        self._say("standing", text, f"client {name} is a member")

    def _may_repeat(self) -> bool:
        """Whether to say once more what is known: few times a second, whoever asks."""
        begun, count = self._repeats
        if monotonic() >= begun + 1.0:
            begun, count = monotonic(), 0
        self._repeats = begun, count + 1
        return count < REPEATS

    def _warn(self) -> None:
        """Say once what is wrong with the connection besides its loss; one text may change."""
        link, ends = self.link, ending(self.link.ends)
        contested = (
            "the connection is lost again and again right after it was made: does another device"
            f" use --id {self.member.k} or its certificate? Or the network is bad"
        )
        for topic, text, so in (
            ("contested", contested, link.contested),
            ("expiry", ends, ends),
            ("retained", "retained messages at the broker are ignored", link.retained),
            ("oversized", "messages that are too large for this run are ignored", link.oversized),
            ("dropped", "invitations come too fast; some were dropped", link.inbox.dropped),
        ):
            if so:
                self._say(topic, f"Warning: {text}")


def _noteworthy(before: int, after: int) -> bool:
    """Whether a count has reached 1, 10, 100, ... since it was `before`."""
    return len(str(after)) > len(str(before)) or (after > 0 and not before)


def device(
    plan: Deployment, k: int, state: str | Path, broker: Address,
    samples: Iterable[Sample | MalformedError] = (), source: Source | None = None,
    identity: Identity | None = None, key: bytes | None = None, measured: bool = False,
    pairs: Mapping[int, bytes] | None = None,
) -> Device:  # fmt: skip
    """Client k of a plan, ready to `run`: samples from any iterator (live), or by number.

    With a key, every message is sealed with it (rule 13). `measured`: a source by number gives a
    sensor's samples, not those of the experiment's stream. `pairs`: the secrets that it shares with
    other clients (fleet/mask_keys.py), if sums are masked.
    """
    if broker.tls and identity is not None:
        identity.check(plan.names(k), str(k))
    folder = StateFolder(state)
    with starting(folder):
        member = Member(plan, k, folder, source, key, measured, pairs)
        plan.keep(folder)
    if pairs is not None and not member.save():  # before its key is claimed
        right = "repair that, or give another state folder"
        raise ResourceError(str(state), f"cannot be written ({member.trouble})", right)
    most = plan.largest + wire.SEAL
    link = Link(broker, str(k), down_topic(plan.deploy.run, k), most, plan.deploy.qos, identity)
    return Device(member, link, samples, notes=[*folder.notes, *member.store.notes])
