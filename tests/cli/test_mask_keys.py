"""Mask keys as people use them: `keys` makes them, `client` asks for them."""

import sys

import pytest

from helpers.command import wrong
from psofed.fleet import client_loop

RUN = {
    "clients": 3, "cohort": 3, "rounds": 20, "test_samples": 50,
    "methods": [{"name": "psofed", "shared": 5, "scheme": "coordinated"}],
}  # fmt: skip
HERE = ("--broker", "mqtt://127.0.0.1:1")


@pytest.fixture
def started(monkeypatch):
    """The devices that were about to run."""
    found = []
    monkeypatch.setattr(client_loop.Device, "run", lambda device: found.append(device))
    return found


@pytest.fixture
def keys(works, tmp_path, file):
    """Keys of three clients."""
    file(**RUN, privacy={"masks": True})
    file("open.toml", **RUN)
    for command in (("make", "run.toml"), ("add", "0"), ("add", "1"), ("add", "2")):
        done = works("deploy", "keys", *command)
    assert "keys/masks.json. When all clients are in it, give it to every device" in done.stdout
    return tmp_path / "keys"


CA = ("--ca", "keys/ca.pem")


def client(psofed, k, *more, file="run.toml"):
    return psofed("deploy", "client", file, "--id", k, "--state", f"s{k}", *HERE, *more)


def test_clients_that_were_given_keys_share_secrets_and_others_need_none(
    keys, psofed, works, started
):
    tls = ("--cert", "keys/0.pem", "--key", "keys/0.key", "--broker", "mqtts://127.0.0.1:1")
    for k, more in enumerate((tls, (), ())):
        result = client(psofed, k, *CA, *more)
        assert result.returncode == 0, result.stderr
    pairs = [device.member.client.masking.pairs.keys for device in started]
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert pairs[i][j] == pairs[j][i]
    assert len({pairs[0][1], pairs[0][2], pairs[1][2]}) == 3
    works("deploy", "client", "open.toml", "--id", 0, "--state", "open", *HERE)
    assert started[-1].member.client.masking is None


def test_a_client_asks_for_mask_keys_where_there_are_masks(keys, psofed, started, monkeypatch):
    (keys / "0.mask").rename(keys / "mine")
    (keys / "0.mask").write_bytes((keys / "1.mask").read_bytes())
    (keys / "0.mask").chmod(0o600)
    for more, part in (
        ((), "--ca is missing, but FILE has masks = true under [privacy]; give it, also with"),
        (CA, "0.mask is a 'psofed mask key of client 1', not"),
    ):
        wrong(client(psofed, 0, *more), part)
    (keys / "mine").rename(keys / "0.mask")
    part = "--ca, --cert and --key belong together"
    wrong(client(psofed, 0, *CA, "--cert", "keys/0.pem"), part)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    wrong(client(psofed, 0, *CA), "need cryptography; pip install '.[")
    assert not started
    assert not (keys.parent / "s0").exists()
    assert client(psofed, 0, file="open.toml").returncode == 0


def test_lists_and_renewals_say_who_has_a_mask_key_and_whether_it_is_new(keys, psofed, works):
    lines = [line.split() for line in psofed("deploy", "keys", "list").stdout.splitlines()]
    assert [words[0] for words in lines if words[-2:] == ["mask", "key"]] == ["0", "1", "2"]
    before = (keys / "masks.json").read_bytes()
    assert "mask" not in psofed("deploy", "keys", "renew", "0").stdout
    assert (keys / "masks.json").read_bytes() == before
    asked = psofed("deploy", "keys", "renew", "0", "--new-mask").stdout
    assert "Wrote keys/0.mask for the device, and keys/masks.json" in asked
    works("deploy", "keys", "revoke", "1")
    assert "Wrote keys/1.mask" in psofed("deploy", "keys", "renew", "1").stdout
    assert (keys / "masks.json").read_bytes() != before
