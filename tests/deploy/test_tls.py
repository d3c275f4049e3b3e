"""Certificates: who one is decides what one may say; foreign and expired ones stay outside."""

import queue
import re
import time

import pytest

from helpers.devices import Mosquitto, wait_for
from helpers.runs import SMALL, assert_equal_to_the_engine, needs_mosquitto
from psofed.deploy import identity, mqtt
from psofed.errors import InputError


@pytest.fixture
def keys(tmp_path):
    folder = tmp_path / "keys"
    identity.init(folder, "p", ["127.0.0.1"], 8883)
    for name in ("0", "1", "2"):
        identity.issue(folder, name)
    return folder


@pytest.fixture
def broker(keys):
    # As root mosquitto becomes another user, who may not read the folder of a test.
    text = (keys / "mosquitto.conf").read_text().replace("listener 8883", "listener PORT 127.0.0.1")
    started = Mosquitto(keys, text + "user root\n")
    yield started
    started.stop()


def files(folder, name):
    return (
        "--ca",
        folder / "ca.pem",
        "--cert",
        folder / f"{name}.pem",
        "--key",
        folder / f"{name}.key",
    )


def who(folder, name):
    return mqtt.Identity(folder / "ca.pem", folder / f"{name}.pem", folder / f"{name}.key")


@pytest.fixture
def connect(broker):
    opened = []

    def make(identity, topic="p/+/u", name=""):
        link = mqtt.Link(mqtt.Address("127.0.0.1", broker.port, tls=True), name, topic, 0, identity)
        opened.append(link)
        link.open()
        return link

    yield make
    for link in opened:
        link.close()


@needs_mosquitto
def test_a_run_with_certificates_equals_the_engine(keys, broker, team):
    run = team(SMALL, f"mqtts://127.0.0.1:{broker.port}", serve=files(keys, "server"))
    run.start("server")
    for k in range(3):
        run.more = files(keys, k)
        run.start(k)
    wait_for(lambda: run.running["server"].poll() is not None, seconds=60)
    run.stop()
    assert "plain text" not in run.log(0)
    assert_equal_to_the_engine(run, 40)


def heard(link, seconds=0.7):
    end, found = time.monotonic() + seconds, []
    while (left := end - time.monotonic()) > 0:
        try:
            event = link.inbox.get(timeout=left)
        except queue.Empty:
            break
        found += [(event.topic, event.data)] if event.kind == "message" else []
    return found


@needs_mosquitto
def test_a_client_speaks_and_listens_only_for_itself(keys, connect):
    server, zero = connect(who(keys, "server")), connect(who(keys, "0"), "p/0/d")
    spy = connect(who(keys, "1"), "#")
    wait_for(lambda: server.up and zero.up and spy.up)
    time.sleep(0.3)
    spy.send("p/0/u", b"forged")
    spy.send("p/0/d", b"forged")
    spy.send("p/1/u", b"own")
    server.send("p/0/d", b"for zero")
    server.send("p/1/d", b"for one")
    assert heard(server) == [("p/1/u", b"own")]
    assert heard(zero) == [("p/0/d", b"for zero")]
    assert heard(spy) in ([("p/1/d", b"for one")], [])


@pytest.mark.long
@needs_mosquitto
@pytest.mark.parametrize("kind", ["foreign", "expired", "none", "unbelieving"])
def test_who_has_no_right_certificate_stays_outside_and_is_told(keys, broker, team, tmp_path, kind):
    run = team(SMALL, f"mqtts://127.0.0.1:{broker.port}")
    other = tmp_path / "other"
    identity.init(other, "p", ["127.0.0.1"], 8883)
    identity.issue(other, "0")
    if kind == "foreign":
        run.more = "--ca", keys / "ca.pem", *files(other, "0")[2:]
    elif kind == "unbelieving":
        run.more = "--ca", other / "ca.pem", *files(keys, "0")[2:]
    elif kind == "expired":
        identity.issue(keys, "0", days=-1)
        run.more = files(keys, "0")
    else:
        run.url, run.more = f"mqtt://127.0.0.1:{broker.port}", ()
    run.start(0)
    said = wait_for(lambda: re.search("no broker at .*still learning", run.log(0)))[0]
    hints = {"none": "127.0.0.1", "unbelieving": "of another authority"}
    assert hints.get(kind, "is the own certificate valid") in said
    time.sleep(0.5)
    assert run.running[0].poll() is None, "it goes on"
    # The library leaves the socket of a failed handshake to the garbage collector.
    assert kind == "unbelieving" or "Traceback" not in run.log(0)
    run.stop()


def test_keys_are_private_and_an_authority_is_not_overwritten(process, psofed, tmp_path):
    assert process("keys", "init").returncode == 0
    assert psofed("keys", "client", "3").returncode == 0
    made = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "keys").iterdir()}
    assert all(mode == 0o600 for name, mode in made.items() if name.endswith(".key"))
    assert {"ca.pem", "broker.pem", "server.pem", "3.pem", "acl", "mosquitto.conf"} <= set(made)
    again = psofed("keys", "init")
    assert again.returncode == 2
    assert "has an authority already" in again.stderr
    for name in ("../x", "server", "broker", "ca", "03", "", "٣", "9" * 30):
        wrong = psofed("keys", "client", name)
        assert wrong.returncode == 2, name
        assert "use the number of a client" in wrong.stderr
    before = (tmp_path / "keys" / "3.key").read_bytes()
    twice = psofed("keys", "client", "3")
    assert twice.returncode == 2
    assert "has a certificate of client 3 already" in twice.stderr
    assert (tmp_path / "keys" / "3.key").read_bytes() == before


@pytest.mark.parametrize("host", ["bücher.example", "a b", "", "mqtts://x/", "a/b"])
def test_a_host_that_fits_no_certificate_is_refused_before_anything_is_written(tmp_path, host):
    with pytest.raises(InputError, match="--host is"):
        identity.init(tmp_path / "new", "p", [host], 8883)
    assert not (tmp_path / "new").exists()


def test_the_certificate_of_somebody_else_is_refused_at_the_start(psofed, keys, tmp_path):
    file = tmp_path / "run.toml"
    file.write_text(SMALL)
    to = ("--state", "s", "--broker", "mqtts://127.0.0.1:1")
    for command, name in ((("client", file, "--id", 1), "0"), (("serve", file), "0")):
        result = psofed(*command, *to, *files(keys, name))
        assert result.returncode == 2, result.stderr
        assert f"{name}.pem is that of '0'; give the certificate of" in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "s").exists()
    for name in ("server", "broker", "2"):
        assert mqtt.common_name((keys / f"{name}.pem").read_text()) == name


def test_files_that_are_no_certificates_are_named(tmp_path):
    for name in ("ca.pem", "a.pem", "a.key"):
        (tmp_path / name).write_text("nonsense")
    with pytest.raises(InputError, match=r"ca\.pem.*cannot be used"):
        mqtt.Identity(tmp_path / "ca.pem", tmp_path / "a.pem", tmp_path / "a.key").context()
    with pytest.raises(InputError, match="has no authority"):
        identity.issue(tmp_path, "0")
