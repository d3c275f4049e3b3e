"""A secret instead of certificates: files, and real processes whose messages are sealed."""

import os
import re
import time

import pytest

from helpers import stranger
from helpers.devices import wait_for
from helpers.runs import SMALL, assert_equal_to_the_engine
from psofed.errors import InputError
from psofed.fleet import identity
from psofed.fleet.protocol import deployment as plans
from psofed.fleet.protocol import wire


@pytest.fixture
def folder(tmp_path):
    identity.make_secret(tmp_path / "keys")
    for k in range(3):
        identity.give_secret(tmp_path / "keys", str(k))
    return tmp_path / "keys"


@pytest.mark.long
def test_a_sealed_run_equals_the_engine_whatever_strangers_and_the_broker_do(folder, team, broker):
    settings = ("--set", "log=json", "--set", "every=0.05")
    text = f"{SMALL}qos = 1\n"
    run = team(text, broker.url, serve=("--secret", folder / "server.secret", *settings))
    run.start("server")
    wait_for(lambda: "connected to" in run.log("server"))
    digest = plans.read(run.file).digest
    boast = wire.encode(wire.Frame(wire.HELLO, digest, wire.LAST_ROUND))
    forged = wire.seal(identity.read_secret(folder / "1.secret", 1), wire.UP, boast)
    for data in (boast, forged):
        stranger.say(broker.port, "p/0/u", data)
    wait_for(lambda: "Alarm (forged)" in run.log("server"))
    for k in range(3):
        run.more = "--secret", folder / f"{k}.secret"
        run.start(k)
    wait_for(lambda: '"n": 5,' in run.log("server"))
    broker.stop()
    time.sleep(0.5)
    broker.start()
    run.finish()
    assert "no broker at mqtt://127.0.0.1" in run.log("server")
    assert "still learning" in run.log(0)
    assert "ahead" not in run.log("server")
    assert "refused a message of client 0: mac" in run.log("server")
    up = re.findall(r'"up": (\d+)', run.log("server"))
    assert set(up) == {str(2 * (9 + 40 * 8 + 8))}, "the seal is counted"
    assert_equal_to_the_engine(run, 40)


def test_files_are_private_and_made_once(psofed, refused, tmp_path):
    assert "psofed deploy keys secret 0" in psofed("deploy", "keys", "secret").stdout
    assert "--secret 7.secret" in psofed("deploy", "keys", "secret", "7").stdout
    keys = tmp_path / "keys"
    assert {path.name: path.stat().st_mode & 0o777 for path in keys.iterdir()} == {
        "server.secret": 0o600, "7.secret": 0o600
    }  # fmt: skip
    master = identity.read_secret(keys / "server.secret")
    assert identity.read_secret(keys / "7.secret", 7) == wire.derive(master, 7) != master
    for again in ((), ("7",)):
        refused("exists already", "keys", "secret", *again)
    for name in ("x", "07", "-1", "server"):
        assert psofed("deploy", "keys", "secret", name).returncode == 2
    refused("", "keys", "secret", "7", "--folder", "none")
    assert not (tmp_path / "none").exists()


def test_a_file_that_others_can_read_or_of_somebody_else_is_refused(refused, folder, tmp_path):
    (tmp_path / "run.toml").write_text(SMALL)
    to = ("run.toml", "--state", "s", "--broker", "mqtt://127.0.0.1:1")
    client, serve = ("client", *to, "--id", 1), ("serve", *to)
    for command, name, found in (
        (client, "0.secret", "is a 'psofed key of client 0', not the 'psofed key of client 1'"),
        (client, "server.secret", "is a 'psofed server secret', not"),
        (serve, "1.secret", "not the 'psofed server secret'"),
        (serve, "none.secret", "cannot be read"),
    ):
        said = refused(found, *command, "--secret", folder / name)
        assert "psofed deploy keys secret" in said
    for mode in (0o640, 0o604):
        os.chmod(folder / "1.secret", mode)
        refused("can be read by others; chmod 600", *client, "--secret", folder / "1.secret")
    assert not (tmp_path / "s").exists()
    for text in ("", "psofed server secret", "psofed server secret 12", "\xff"):
        (folder / "bad").write_text(text, encoding="latin-1")
        os.chmod(folder / "bad", 0o600)
        with pytest.raises(InputError, match=r"cannot be read|has no secret in it"):
            identity.read_secret(folder / "bad")
