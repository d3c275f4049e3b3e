"""Mask keys as people use them: `keys` makes them, `client` asks for them."""

import sys

import pytest

from psofed.fleet import client_loop

RUN = """\
clients = 3
cohort = 3
rounds = 20
test_samples = 50
[[methods]]
name = "psofed"
shared = 5
scheme = "coordinated"
"""
MASKED = RUN + "[privacy]\nmasks = true\n"
HERE = ("--broker", "mqtt://127.0.0.1:1")


@pytest.fixture
def started(monkeypatch):
    """The devices that were about to run."""
    found = []
    monkeypatch.setattr(client_loop.Device, "run", lambda device: found.append(device))
    return found


@pytest.fixture
def keys(psofed, tmp_path):
    """Keys of three clients."""
    (tmp_path / "run.toml").write_text(MASKED)
    (tmp_path / "open.toml").write_text(RUN)
    for command in (("make", "run.toml"), ("add", "0"), ("add", "1"), ("add", "2")):
        done = psofed("deploy", "keys", *command)
        assert done.returncode == 0
    assert "keys/masks.json. When all clients are in it, give it to every device" in done.stdout
    return tmp_path / "keys"


def masks(k):
    return "--mask-key", f"keys/{k}.mask", "--masks", "keys/masks.json", "--ca", "keys/ca.pem"


def client(psofed, k, *more, file="run.toml"):
    return psofed("deploy", "client", file, "--id", k, "--state", f"s{k}", *HERE, *more)


def test_clients_that_were_given_keys_share_secrets(keys, psofed, started):
    for k in range(3):
        result = client(psofed, k, *masks(k))
        assert result.returncode == 0, result.stderr
    pairs = [device.member.client.masking.pairs.keys for device in started]
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert pairs[i][j] == pairs[j][i]
    assert len({pairs[0][1], pairs[0][2], pairs[1][2]}) == 3


def test_a_client_asks_for_mask_keys_where_there_are_masks_and_only_there(keys, psofed, started):
    for more, part, file in (
        ((), "--mask-key, --masks and --ca are needed", "run.toml"),
        (masks(0)[:4], "--mask-key, --masks and --ca are needed", "run.toml"),
        (masks(1), "is a 'psofed mask key of client 1', not", "run.toml"),
        (masks(0), "--mask-key is given, but FILE does not have masks = true", "open.toml"),
        (masks(0)[2:4], "--masks is given, but FILE does not have masks", "open.toml"),
        ((*masks(0), "--cert", "keys/0.pem"), "--ca, --cert and --key belong together", "run.toml"),
    ):
        result = client(psofed, 0, *more, file=file)
        assert result.returncode == 2
        assert part in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1
    assert not started
    assert not (keys.parent / "s0").exists()
    tls = ("--cert", "keys/0.pem", "--key", "keys/0.key", "--broker", "mqtts://127.0.0.1:1")
    assert client(psofed, 0, *masks(0), *tls).returncode == 0
    assert client(psofed, 1, file="open.toml").returncode == 0
    assert [device.member.client.masking is None for device in started] == [False, True]


def test_the_list_says_who_has_a_mask_key(keys, psofed):
    lines = [line.split() for line in psofed("deploy", "keys", "list").stdout.splitlines()]
    assert [words[0] for words in lines if words[-2:] == ["mask", "key"]] == ["0", "1", "2"]


def test_a_renewal_says_whether_the_directory_is_new(keys, psofed):
    before = (keys / "masks.json").read_bytes()
    assert "mask" not in psofed("deploy", "keys", "renew", "0").stdout
    assert (keys / "masks.json").read_bytes() == before
    asked = psofed("deploy", "keys", "renew", "0", "--new-mask").stdout
    assert "Wrote keys/0.mask for the device (--mask-key 0.mask), and keys/masks.json" in asked
    assert psofed("deploy", "keys", "revoke", "1").returncode == 0
    assert "Wrote keys/1.mask" in psofed("deploy", "keys", "renew", "1").stdout
    assert (keys / "masks.json").read_bytes() != before


def test_a_device_without_the_package_is_told_what_it_needs(keys, psofed, started, monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    result = client(psofed, 0, *masks(0))
    assert result.returncode == 2
    assert "need cryptography; pip install '.[" in result.stderr
    assert client(psofed, 1, file="open.toml").returncode == 0
