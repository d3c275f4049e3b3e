"""The gateway: emulated devices on lossy lines are members like others, whatever comes in."""

import os
import re
from dataclasses import replace

import numpy as np
import pytest

import psofed
from helpers.board import Field
from helpers.certified import who
from helpers.devices import wait_for
from helpers.loopback import World, disk
from helpers.processes import ENV, PSOFED, end, start
from psofed.experiment import Experiment, Features
from psofed.federation.plugins import written
from psofed.fleet import identity
from psofed.fleet.lines import frames
from psofed.fleet.lines.relay import Relayed
from psofed.fleet.protocol import wire
from psofed.fleet.protocol.deployment import Deploy, Deployment

EXPERIMENT = Experiment(
    clients=3, cohort=2, rounds=12, features=Features(dim=60), dtype="float32",
    methods=(psofed.PSOFed(shared=30),), check=psofed.checks.NoCheck(),
)  # fmt: skip
MADE = Deployment(EXPERIMENT, Deploy(wire="float16"))


def gateway(plan, folder, broker, lines, *more):
    file = folder / "run.toml"
    file.write_text(written(plan.to_table).toml)
    given = [f"{k}={line}" for k, line in lines.items()]
    ends = ["--broker", broker, "--state", folder / "gateway"]
    return start(*PSOFED, "deploy", "gateway", file, *given, *ends, *more, stderr=-1)


def test_emulated_devices_end_with_the_models_of_the_simulation(
    broker, arm_gcc, qemu_arm, tmp_path, psofed
):
    running = []
    try:
        fields = [Field(tmp_path / str(k), MADE, k, arm_gcc, qemu_arm, cut=26) for k in range(3)]
        running += [field.process for field in fields]
        wait_for(lambda: all(field.line.exists() for field in fields))
        lines = {k: field.line for k, field in enumerate(fields)}
        between = gateway(MADE, tmp_path, broker.url, lines)
        serve = ("serve", tmp_path / "run.toml", "--state", tmp_path / "server")
        server = start(*PSOFED, "deploy", *serve, "--broker", broker.url, env=ENV)
        running += [between, server]
        wait_for(lambda: server.poll() is not None, 60)
        between.terminate()
        said = between.communicate()[1].decode()
        models = [field.model(60) for field in fields]
    finally:
        for process in running:
            end(process)
    assert psofed("deploy", "verify", tmp_path / "server").returncode == 0
    world = World(given=MADE)
    world.rounds(12)
    for k, w in enumerate(models):
        assert np.abs(w - world.members[k].client.model).max() < 2e-3
    # Frames were lost: what went down is more than two windows of two frames in each round.
    found = re.findall(r"([\d,]+) bytes down", said)
    down = sum(int(count.replace(",", "")) for count in found)
    assert down > 12 * 2 * (60 + 2 * frames.HEAD), said


class Relays:
    """A server, and relays to devices in Python, one of which is not there."""

    def __init__(self, **deploy):
        made = Deploy(wire="float16", clock="live", **deploy)
        self.world = World(given=Deployment(EXPERIMENT, made), secret=b"s" * 32)
        self.disks, self.devices = [disk() for _ in range(3)], self.world.members
        self.relays = [self.relay(k) for k in range(3)]

    def relay(self, k):
        return Relayed(self.world.plan, k, self.disks[k], self.devices[k].key)

    def asked(self, k):
        return self.world.server.frames()[k]

    def said(self, k, down):
        """What a device says to frames, in frames."""
        come = frames.Parts(frames.number(down[0]), 60, 2)
        *_, body = [come.take(frame) for frame in down]
        member = self.devices[k]
        n = come.n
        answer = member.client.take_part(n, body)
        return frames.split(n, answer + bytes(2), 2)


def test_a_relay_is_a_member_as_others_and_loses_nothing_when_it_starts_again():
    all_of = Relays()
    for n in range(6):
        for k in all_of.world.cohort:
            down, up, what = all_of.relays[k].take(all_of.asked(k))
            assert (len(down), up, what) == (2, None, "asked")
            all_of.relays[k] = all_of.relay(k)  # while the device has the question
            down, *_ = all_of.relays[k].take(all_of.asked(k))
            said = all_of.said(k, down)
            assert all_of.relays[k].hear(said[1]) is None
            answer = all_of.relays[k].hear(said[0])
            assert all_of.relays[k].hear(said[0]) is None  # once is enough
            assert all_of.world.server.take(k, answer) == "accepted"
            assert all_of.relays[k].take(all_of.world.server._frame(k)) == ([], answer, "repeated")
            assert all_of.relay(k).last == n
        all_of.world.server.commit()
    all_of.world.balanced()


def test_a_hostile_server_or_device_is_refused_at_the_gateway():
    all_of = Relays()
    k = all_of.world.cohort[0]
    relay, good, key = all_of.relays[k], all_of.asked(k), all_of.devices[k].key
    frame = wire.decode(wire.unseal(key, wire.DOWN, good), 10_000)

    def sealed(**changes):
        return wire.seal(key, wire.DOWN, wire.encode(replace(frame, **changes)))

    for reason, data in {
        "mac": good[:-1] + b"0", "digest": sealed(digest=1), "kind": sealed(kind=wire.UPLOAD),
        "size": sealed(body=frame.body[:-2]), "jump": sealed(incarnation=2**23),
        "late": sealed(n=2**24),
    }.items():  # fmt: skip
        assert relay.take(data)[:2] == ([], None)
        assert relay.refused.pop(reason) == 1, reason
    assert relay.refused == {}
    down, *_ = relay.take(good)
    for noise in (b"", b"1234", down[0][:-1], b"\1" * 51, down[0][:1] + b"\7\0\0" + down[0][4:]):
        assert relay.hear(noise) is None
    assert relay.hear(frames.hello(-1, 7)) is None
    assert relay.take(good)[:2] == ([], None)
    assert relay.refused == {"foreign": 1}
    assert all(relay.hear(part) is None for part in all_of.said(k, down))
    assert relay.hear(frames.hello(-1, all_of.world.plan.digest)) == relay.hello()
    assert relay.take(good)[2] == "asked"


def test_a_device_that_has_lost_its_flash_starts_over_and_no_other_does():
    all_of = Relays()
    server, digest = all_of.world.server, all_of.world.plan.digest
    k = all_of.world.cohort[0]
    for one in all_of.world.cohort:
        down, *_ = all_of.relays[one].take(all_of.asked(one))
        answer = [all_of.relays[one].hear(part) for part in all_of.said(one, down)][-1]
        assert server.take(one, answer) == "accepted"
    server.commit()
    while k not in all_of.world.cohort:
        server.commit()
    old = wire.seal(all_of.devices[k].key, wire.UP, wire.encode(wire.Frame(wire.HELLO, digest, 0)))
    server.take(k, old)  # somebody plays an old hello again
    down, up, what = all_of.relays[k].take(all_of.asked(k))
    assert (down, up, what) == ([], all_of.relays[k].hello(), "probed")
    server.take(k, up)
    assert server.take(k, all_of.relays[k].hear(frames.hello(-1, digest))) == "hello"
    down, *_ = all_of.relays[k].take(all_of.asked(k))
    assert {frame[0] >> 7 for frame in down} == {1}
    assert sum(map(len, down)) == 60 * 2 + len(down) * frames.HEAD


def test_a_port_is_a_line_and_its_member_has_its_own_certificate_and_seal(
    keys, secured, open_link, tmp_path
):
    server_key = identity.make_secret(keys)
    identity.give_secret(keys, "1")
    key = identity.read_secret(keys / "1.secret", 1)
    broker = secured(keys)
    ours, theirs = os.openpty()
    plan = Deployment(EXPERIMENT, Deploy(wire="float16", qos=1))
    server = open_link(broker.port, "server", "p/+/u", identity=who(keys, "server"), clients=[1])
    url = f"mqtts://127.0.0.1:{broker.port}"
    process = gateway(plan, tmp_path, url, {1: os.ttyname(theirs)}, "--keys", keys)
    try:
        greeted = server.get(30).data
        assert wire.decode(wire.unseal(key, wire.UP, greeted), 100).kind == wire.HELLO
        body = bytes(range(60))
        ask = wire.Frame(wire.INVITE, plan.digest, 3, 1, "float16", body)
        server.send("p/1/d", wire.seal(key, wire.DOWN, wire.encode(ask)))
        line, down = frames.SerialLine(), []
        while len(down) < 2:
            down += line.feed(os.read(ours, 100))
        assert b"".join(frame[frames.HEAD :] for frame in down) == body
        for part in frames.split(3, body[::-1], 2):
            os.write(ours, b"noise" + frames.packed(part))
        said = wire.decode(wire.unseal(key, wire.UP, server.get(30).data), 100)
        assert (said.kind, said.n, said.body) == (wire.UPLOAD, 3, body[::-1])
    finally:
        process.terminate()
        log = process.communicate()[1].decode()
        for handle in (ours, theirs):
            os.close(handle)
    assert server_key.exists()
    assert "1: 68 bytes down, 68 up on its line" in log


@pytest.mark.parametrize(("said", "lines", "change"), [
    ("NAME=LINE", ["/dev/ttyUSB0"], {}),
    ("each name and each line once", ["0=a", "0=b"], {}),
    ("each name and each line once", ["0=a", "1=a"], {}),
    ("use 0 to 2", ["7=a"], {}),
    ("works in blocks of 5 rounds", ["0=a"],
     {"methods": (psofed.methods.Periodic(shared=7, local_steps=5),)}),
    ("use psofed or onlinefed", ["0=a"], {"methods": (psofed.rivals.TopK(),)}),
])  # fmt: skip
def test_what_no_gateway_can_do_is_refused_in_one_line(refused, tmp_path, said, lines, change):
    file = tmp_path / "run.toml"
    file.write_text(written(replace(MADE, experiment=replace(EXPERIMENT, **change)).to_table).toml)
    ends = ("--state", tmp_path / "state", "--broker", "mqtt://127.0.0.1:1")
    refused(said, "gateway", file, *lines, *ends)
