"""A deployment without a network: its plan, its disks in memory, and links that hand over at once."""

from dataclasses import replace
from functools import cached_property

from helpers.virtual_disk import Chance, VirtualDisk
from psofed.experiment import Experiment, Features
from psofed.fleet import mqtt
from psofed.fleet.broker import Address, speaker
from psofed.fleet.client_loop import Device
from psofed.fleet.protocol import wire
from psofed.fleet.protocol.coordinator import Coordinator
from psofed.fleet.protocol.deployment import Deploy, Deployment
from psofed.fleet.protocol.member import Member
from psofed.fleet.samples import replay
from psofed.fleet.server_loop import ServerLoop
from psofed.methods import psofed

K = 5


def plan(deploy=None, **changes):
    settings = {"clients": K, "cohort": 2, "rounds": 30, "dtype": "float64"}
    settings |= {"features": Features(dim=10), "methods": (psofed.Options(shared=3),)}
    return Deployment(Experiment(**settings | changes), deploy or Deploy(wire="float64"))


def play(server, members):
    """One round in which nothing is lost."""
    for k, frame in server.frames().items():
        answer, _ = members[k].take(frame)
        assert max(len(frame), len(answer)) <= server.plan.largest
        assert server.take(k, answer) == "accepted"
    return server.commit()


def disk():
    return VirtualDisk("memory", Chance(0, 0))


def altered(frame, **changes):
    """A frame in which some fields are others."""
    return wire.encode(replace(wire.decode(frame, 10_000), **changes))


def balanced(server):
    """Every question and every message is accounted for; the counts."""
    counts = server.server.ledger.counts
    assert counts["asked"] == counts["accepted"] + counts["refused"] + counts["lost"]
    assert counts["received"] == counts["accepted"] + counts["repeated"] + counts["rejected"]
    return counts


class World:
    """A server and its clients on disks in memory, of which each can be started again."""

    def __init__(self, deploy=None, secret=None, given=None, disks=(), **changes):
        self.plan, self.secret = given or plan(deploy, **changes), secret
        self.disks, self.members = dict(disks), {}
        self.start()
        for k in range(self.plan.experiment.clients):
            self.member(k)

    def start(self, **more):
        server = self.disks.setdefault(-1, disk())
        self.server = Coordinator(self.plan, server, self.secret, **more)
        return self.server

    def member(self, k, given=None):
        given, files = given or self.plan, self.disks.setdefault(k, disk())
        live = given.deploy.clock == "live"
        key = None if self.secret is None else wire.derive(self.secret, k)
        source = None if live else replay(given.experiment, k)
        self.members[k] = Member(given, k, files, source, key)
        return self.members[k]

    def first(self):
        """The first who is asked, the question, and its answer."""
        k, frame = next(iter(self.server.frames().items()))
        return k, frame, self.members[k].take(frame)[0]

    def answer(self, *clients):
        """These have answered, or all who are asked."""
        frames = self.server.frames()
        for k in clients or frames:
            assert self.server.take(k, self.members[k].take(frames[k])[0]) == "accepted"

    def rounds(self, count=1):
        """Rounds in which nothing is lost; what became of them."""
        return [play(self.server, self.members) for _ in range(count)]

    @cached_property
    def streams(self):
        return {k: replay(self.plan.experiment, k) for k in range(self.plan.experiment.clients)}

    def learn(self, n, count):
        """On a live clock: every client measures so many samples before round n."""
        for k, stream in self.streams.items():
            self.members[k].client.learn(*stream(count * n, count * (n + 1)))

    def loop(self, **options):
        """The loop of the server, connected with those of its clients, which are the devices."""
        server = ServerLoop(self.server, Line(), **options)
        self.devices = {k: Device(member, Line()) for k, member in self.members.items()}
        connect(server, self.devices)
        return server

    @property
    def table(self):
        return self.server.server.table

    @property
    def cohort(self):
        return self.server.server.cohort

    @property
    def model(self):
        return self.server.server.model

    def balanced(self):
        return balanced(self.server)


class Line(mqtt.Link):
    """A link without a broker: what is sent is handed to somebody, who may answer."""

    def __init__(self, given=()):
        self.address, self.inbox = Address("nowhere", 1), mqtt.Inbox()
        self.retained, self.oversized, self._lost = 0, 0, []
        self.ends = {}
        self.up, self.sent, self.hand = True, [], lambda topic, data: None
        for event in given:
            self.put(event)

    def open(self):
        pass

    def close(self):
        pass

    def send(self, topic, data):
        self.sent.append(data)
        self.hand(topic, data)


def connect(server, devices):
    """Messages between the loops of a server and of devices, handled at once."""

    def down(topic, data):
        k = speaker(topic)
        devices[k]._network(mqtt.Event("message", topic, data))

    server.link.hand = down
    for k, device in devices.items():
        device.link.hand = lambda topic, data, k=k: server._message(k, data)
