"""Bytes on the wire between a client and a real broker, captured on loopback.

    python benchmarks/wire_bytes.py [--rounds 200] [--json FILE]     needs root and mosquitto

Every packet on the loopback interface is read through a raw socket (AF_PACKET) and counted if it
belongs to a client's connection: IP total length, of that the TCP payload, of that the frames of
psofed. Both directions, acknowledgements included, per client and round in which it took part.
Connecting is not counted. "Back to back" starts a round when the one before is committed; "spaced"
waits 0.2 s, so that TCP sends its delayed acknowledgements as packets of their own.
The loopback's MTU is 65,536: on a link of 1,500, M = 200 in float64 takes a second packet.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import tempfile
import threading
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from helpers import programs
from helpers.devices import Mosquitto, wait_for
from psofed.experiment import Experiment
from psofed.fleet.authority import Authority
from psofed.fleet.broker import Address, down_topic, up_topic
from psofed.fleet.client_loop import Device
from psofed.fleet.identity import Identity
from psofed.fleet.mqtt import Link
from psofed.fleet.protocol import wire
from psofed.fleet.protocol.coordinator import Coordinator
from psofed.fleet.protocol.deployment import Deploy, Deployment
from psofed.fleet.protocol.member import Member
from psofed.fleet.protocol.store import StateFolder
from psofed.fleet.samples import replay
from psofed.fleet.server_loop import ServerLoop
from psofed.methods import psofed

CLIENTS = COHORT = 4  # everybody takes part in every round
WARM_UP, SPACE = 5, 0.2
OUTGOING = 4  # on loopback every packet is seen twice, going out and coming in


@dataclass(frozen=True)
class Row:
    """One line of the table: bytes per client and round, both directions."""

    shared: int
    qos: int
    tls: bool
    spaced: bool
    payload: float  # the values and the head before them
    mqtt: float = 0.0  # what MQTT (and TLS) adds
    tcp_ip: float = 0.0  # headers, and packets without data
    total: float = 0.0
    packets: float = 0.0


class Capture(threading.Thread):
    """Counts what passes on loopback from and to some ports, while it is told to."""

    def __init__(self, broker_port: int) -> None:
        super().__init__(daemon=True)
        self.broker, self.ports, self.counting = broker_port, set[int](), False
        self.ip = self.tcp = self.packets = 0
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self._socket.bind(("lo", 0))
        self._socket.settimeout(0.2)
        self.stopped = False

    def run(self) -> None:
        while not self.stopped:
            try:
                data, (_, _, kind, *_) = self._socket.recvfrom(70_000)
            except TimeoutError:
                continue
            if kind == OUTGOING and self.counting:
                self._count(data[14:])
        self._socket.close()

    def _count(self, packet: bytes) -> None:
        if packet[0] >> 4 != 4 or packet[9] != 6:
            return
        start = (packet[0] & 15) * 4
        ports = {int.from_bytes(packet[start + i : start + i + 2], "big") for i in (0, 2)}
        if self.broker in ports and ports & self.ports:
            length = int.from_bytes(packet[2:4], "big")
            self.ip += length
            self.tcp += length - start - (packet[start + 12] >> 4) * 4
            self.packets += 1


def captured(folder: Path, shared: int, qos: int, tls: bool, spaced: bool, rounds: int) -> Row:
    """One setting, for so many rounds after the first few."""
    experiment = Experiment(clients=CLIENTS, cohort=COHORT, rounds=WARM_UP + rounds,
                            methods=(psofed.Options(shared=shared),))  # fmt: skip
    plan, files = Deployment(experiment, Deploy()), None
    folder.mkdir(parents=True)
    config = ""
    if tls:
        files = folder / "keys"
        Authority.make(files, "p", ["127.0.0.1"])
        config = (files / "mosquitto.conf").read_text() + "user root\n"
        config = config.replace("listener 8883 127.0.0.1", "listener PORT 127.0.0.1")
    broker = Mosquitto(programs.find("mosquitto"), folder, config)
    address = Address("127.0.0.1", broker.port, tls)
    capture = Capture(broker.port)
    capture.start()
    members = [_member(plan, k, folder) for k in range(CLIENTS)]
    devices = [Device(m, _link(address, m.k, qos, files)) for m in members]
    for device in devices:
        threading.Thread(target=device.run, daemon=True).start()
    wait_for(lambda: all(device.link.up for device in devices))
    capture.ports = {d.link._client.socket().getsockname()[1] for d in devices}  # type: ignore[union-attr]
    link, every = _link(address, None, qos, files), SPACE if spaced else 0
    server = ServerLoop(Coordinator(plan, StateFolder(folder / "s")), link, every=every)
    server.link.open()
    server.run(WARM_UP)
    threading.Event().wait(0.3)  # what belongs to the warm-up has passed
    capture.counting = True
    server.run(WARM_UP + rounds)
    threading.Event().wait(0.3)
    capture.counting = False
    for each in (*devices, server):
        each.stop()
    server.link.close()
    wait_for(lambda: not any(device.link.up for device in devices))
    capture.stopped = True
    capture.join()
    broker.stop()
    payload = sum(wire.size(kind, 4 * shared) for kind in (wire.INVITE, wire.UPLOAD))
    return _row(capture, Row(shared, qos, tls, spaced, payload), rounds)


def measure(quick: bool) -> dict[str, float]:
    """IP bytes of a client and round with M = 5: the ends of the ranges that are told."""
    rounds = 40 if quick else 200
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        for qos, tls in ((0, False), (1, True)):
            for spaced in (False, True):
                title = f"qos{qos}_{'spaced' if spaced else 'back_to_back'}"
                count = rounds // 4 if spaced else rounds
                row = captured(Path(name) / title, 5, qos, tls, spaced, count)
                found |= {title: row.total, "payload": row.payload}
    return found


def _row(capture: Capture, row: Row, rounds: int) -> Row:
    ip, tcp, packets = (n / (rounds * COHORT) for n in (capture.ip, capture.tcp, capture.packets))
    return replace(row, mqtt=tcp - row.payload, tcp_ip=ip - tcp, total=ip, packets=packets)


def _member(plan: Deployment, k: int, folder: Path) -> Member:
    return Member(plan, k, StateFolder(folder / str(k)), replay(plan.experiment, k))


def _link(address: Address, k: int | None, qos: int, files: Path | None) -> Link:
    name = "server" if k is None else str(k)
    who = None
    if files is not None:
        if k is not None:
            Authority(files).add(name)
        who = Identity(files / "ca.pem", files / f"{name}.pem", files / f"{name}.key")
    topic = up_topic("p", "+") if k is None else down_topic("p", k)
    return Link(address, name, topic, 100_000, qos, who, clients=range(100))


def show(rows: list[Row]) -> None:
    """The table in Markdown."""
    print("| M | QoS | TLS | rounds | payload | MQTT"
          " (and TLS) | TCP/IP | IP bytes | packets |\n" + "|---" * 9 + "|")  # fmt: skip
    for row in rows:
        pace, tls = "spaced" if row.spaced else "back to back", "1.3" if row.tls else "-"
        numbers = f"{row.mqtt:.0f} | {row.tcp_ip:.0f} | {row.total:.0f} | {row.packets:.1f}"
        print(f"| {row.shared} | {row.qos} | {tls} | {pace} | {row.payload:.0f} | {numbers} |")


def main() -> None:
    """Measure all settings; exit code 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        for spaced in (False, True):
            for tls in (False, True):
                for qos in (0, 1):
                    for shared in (200, 40, 5, 1):
                        count = args.rounds // 8 if spaced else args.rounds
                        folder = Path(name) / str(len(rows))
                        rows.append(captured(folder, shared, qos, tls, spaced, count))
    show(rows)
    if args.json:
        args.json.write_text(json.dumps([asdict(row) for row in rows], indent=2))
    targets: dict[int, Any] = {0: 200, 1: 400}
    for qos, most in targets.items():
        row = next(r for r in rows if (r.shared, r.qos, r.tls, r.spaced) == (5, qos, False, False))
        verdict = "met" if row.total <= most else "MISSED"
        print(f"M = 5, QoS {qos}: {row.total:.0f} IP bytes, at most {most} wanted: {verdict}")


if __name__ == "__main__":
    main()
