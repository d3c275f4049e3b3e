"""A deployment without a network: its plan, its disks in memory, and links that hand over at once."""

from helpers.network import Chance, VirtualDisk
from psofed.deploy import mqtt
from psofed.deploy.inbox import Inbox
from psofed.experiment import Experiment, Features
from psofed.methods import psofed
from psofed.protocol.deployment import Deploy, Deployment

K = 5


def plan(deploy=None, **changes):
    settings = {"clients": K, "cohort": 2, "rounds": 30, "dtype": "float64"}
    settings |= {"features": Features(dim=10), "methods": (psofed.Options(shared=3),)}
    return Deployment(Experiment(**settings | changes), deploy or Deploy(wire="float64"))


def play(server, members):
    """One round in which nothing is lost."""
    for k, frame in server.frames().items():
        answer, _ = members[k].take(frame)
        assert server.take(k, answer) == "accepted"
    return server.commit()


def disk():
    return VirtualDisk("memory", Chance(0, 0))


class Line(mqtt.Link):
    """A link without a broker: what is sent is handed to somebody, who may answer."""

    def __init__(self, given=()):
        self.address, self.inbox = mqtt.Address("nowhere", 1), Inbox()
        self.retained, self.oversized, self.untimely, self._lost = 0, 0, "", []
        self.muted, self._dropped, self.papers, self.alert = {}, {}, None, ""
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


def connect(server, devices, run="p"):
    """Messages between the loops of a server and of devices, handled at once."""

    def down(topic, data):
        k = mqtt.speaker(topic)
        devices[k]._network(mqtt.Event("message", topic, data))

    server.link.hand = down
    for k, device in devices.items():
        device.link.hand = lambda topic, data, k=k: server._message(k, data)
