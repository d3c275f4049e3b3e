"""Enrolment: a device makes its own key, and a token admits it once, in time, under its number."""

import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.certified import secured, who
from helpers.devices import wait_for
from helpers.runs import needs_mosquitto
from psofed.deploy import certificates, enrolment, identity, mqtt, private, signing
from psofed.errors import InputError

needs_openssl = pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl")


@pytest.fixture
def keys(tmp_path):
    identity.init(tmp_path / "keys", "p", ["127.0.0.1"], 8883)
    return tmp_path / "keys"


def asked(keys, name="3", folder="device"):
    """A request for this client, by a device that was given the token."""
    return enrolment.request(keys.parent / folder, name, enrolment.token(keys, name))


def refused(psofed, path, part):
    before = {path: path.read_bytes() for path in sorted(path.parent.rglob("*.pem"))}
    result = psofed("keys", "sign", path)
    assert result.returncode == 2, result.stdout
    assert part in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert before == {path: path.read_bytes() for path in sorted(path.parent.rglob("*.pem"))}


@needs_mosquitto
def test_a_device_enrols_with_a_token_and_its_key_stays_where_it_is(keys, psofed, tmp_path):
    said = psofed("keys", "token", "3").stdout
    assert "for one use within 24 hours" in said
    assert "psofed keys enrol 3 --token 3.token" in said
    (tmp_path / "keys" / "3.token").rename(tmp_path / "3.token")
    enrol = ("keys", "enrol", "3", "--token", "3.token", "--folder", "device")
    assert "psofed keys sign 3.csr" in psofed(*enrol).stdout
    secret = (tmp_path / "device" / "3.key").read_text()
    assert "--cert 3.pem --key 3.key" in psofed("keys", "sign", "device/3.csr").stdout
    everything = b"".join(path.read_bytes() for path in keys.rglob("*") if path.is_file())
    assert secret.splitlines()[1].encode() not in everything
    for name in ("3.pem", "ca.pem"):
        shutil.copy(keys / name, tmp_path / "device")
    lasts = certificates.Certificate.parse((keys / "3.pem").read_text())
    assert (lasts.end - datetime.now(UTC)).days == 89
    (keys / "ca.key").unlink()  # neither broker nor device needs it
    broker = secured(keys)
    address = mqtt.Address("127.0.0.1", broker.port, tls=True)
    link = mqtt.Link(address, "3", "p/3/d", 1000, 0, who(tmp_path / "device", "3"))
    link.open()
    try:
        wait_for(lambda: link.up)
    finally:
        link.close()
        broker.stop()


def test_a_token_is_for_one_use_in_time_and_for_one_client(keys, psofed, tmp_path):
    path = asked(keys)
    other = asked(keys, "4", "other")
    foreign = tmp_path / "foreign"
    identity.init(foreign, "p", [], 8883)
    thief = enrolment.request(tmp_path / "thief", "3", enrolment.token(foreign, "3"))
    proof = path.read_text().rpartition(enrolment.PROOF)[2]
    exchanged = thief.read_text().rpartition(enrolment.PROOF)[0] + enrolment.PROOF + proof
    thief.write_text(exchanged)  # a proof that was seen on its way, with another's key
    refused(psofed, thief, "was not made with the token of client 3, or was changed")
    known = json.loads((keys / "tokens.json").read_text())
    late = known | {"3": known["3"] | {"until": "2020-01-01T00:00:00+00:00"}}
    private.write(keys / "tokens.json", json.dumps(late))
    refused(psofed, path, "a token that expired at 2020-01-01T00:00 UTC; psofed keys token 3")
    private.write(keys / "tokens.json", json.dumps(known))
    assert psofed("keys", "sign", path).returncode == 0
    refused(psofed, path, "a token that is used already; psofed keys token 3")
    fresh = enrolment.token(keys, "4")
    refused(psofed, other, "was not made with the token of client 4")
    wrong = psofed("keys", "enrol", "3", "--token", fresh, "--folder", "new")
    assert wrong.returncode == 2
    assert "is a 'psofed token of client 4', not the 'psofed token of client 3'" in wrong.stderr
    assert not (tmp_path / "new").exists()
    stranger = enrolment.request(tmp_path / "stranger", "4", enrolment.token(foreign, "4"))
    refused(psofed, stranger, "was not made with the token of client 4")
    nobody = enrolment.request(tmp_path / "nobody", "9", enrolment.token(foreign, "9"))
    refused(psofed, nobody, "none was made for client 9")


def test_what_the_authority_keeps_of_a_token_does_not_let_anybody_enrol(keys):
    path = enrolment.token(keys, "3")
    seed = path.read_text().split()[-1]
    kept = (keys / "tokens.json").read_text()
    assert seed not in kept
    made = json.loads(kept)["3"]
    assert datetime.fromisoformat(made["until"]) > datetime.now(UTC) + timedelta(hours=23)
    assert seed not in asked(keys, "5").read_text()
    path.write_text(f"psofed token of client 3 {made['public'][:32]}\n")
    guess = enrolment.request(keys.parent / "guess", "3", path)
    with pytest.raises(InputError, match="was not made with the token of client 3"):
        enrolment.sign(keys, guess)


@given(place=st.floats(0, 1, exclude_max=True), other=st.characters(codec="ascii"))
def test_a_request_that_was_changed_anywhere_is_refused(tmp_path_factory, place, other):
    keys, path = made_once(tmp_path_factory)
    text = path.read_text()
    at = int(place * len(text))
    changed = text[:at] + other + text[at + 1 :]
    one, _, digits = text.rpartition(enrolment.PROOF)
    two, _, others = changed.rpartition(enrolment.PROOF)
    bad = path.with_name("changed.csr")
    bad.write_text(changed, newline="")
    if (one, digits.lower().split()) != (two, others.lower().split()):
        with pytest.raises(InputError):
            enrolment.sign(keys, bad)
        assert not (keys / "3.pem").exists()


def made_once(factory, made=[]):  # noqa: B006
    if not made:
        keys = factory.mktemp("request") / "keys"
        identity.init(keys, "p", [], 8883)
        made += [keys, asked(keys)]
    return made


def test_a_key_is_never_overwritten_and_one_that_was_made_here_is_in_the_way(keys, psofed):
    path = asked(keys)
    before = (path.parent / "3.key").read_bytes()
    token = keys / "3.token"
    again = psofed("keys", "enrol", "3", "--token", token, "--folder", path.parent)
    assert (again.returncode, "3.key exists already" in again.stderr) == (2, True)
    assert (path.parent / "3.key").read_bytes() == before
    identity.client(keys, "5")
    here = psofed("keys", "token", "5")
    assert (here.returncode, "is a key of client 5 already" in here.stderr) == (2, True)
    for name in ("x", "03", "server"):
        assert psofed("keys", "token", name).returncode == 2
    assert psofed("keys", "token", "3", "--folder", "none").returncode == 2
    for text in ("nonsense", "\n"):
        (path.parent / "bad.csr").write_text(text)
        refused(psofed, path.parent / "bad.csr", "is no request for a certificate")


@needs_openssl
@pytest.mark.parametrize("passphrase", [False, True])
def test_openssl_has_nothing_to_complain_of(psofed, tmp_path, passphrase):
    phrase = ()
    if passphrase:
        (tmp_path / "phrase").write_text("correct horse\n")
        (tmp_path / "phrase").chmod(0o600)
        phrase = ("--passphrase-file", "phrase")
    keys = tmp_path / "keys"
    for command in (
        ("init", "--host", "broker.example", *phrase),
        ("client", "0", *phrase),
        ("token", "3"),
        ("enrol", "3", "--token", "keys/3.token", "--folder", "device"),
        ("sign", "device/3.csr", *phrase),
        ("renew", "server", *phrase),
        ("renew", "broker", *phrase),
    ):
        result = psofed("keys", *command)
        assert result.returncode == 0, (command, result.stderr)
    strict = ["openssl", "verify", "-x509_strict", "-CAfile", keys / "ca.pem"]
    strict += ["-crl_check", "-CRLfile", keys / "crl.pem"]
    client, server = ["-purpose", "sslclient"], ["-purpose", "sslserver"]
    for name, use in (("0", client), ("3", client), ("server", client), ("broker", server)):
        subprocess.run([*strict, *use, keys / f"{name}.pem"], check=True, capture_output=True)
    named = [*strict, *server, "-verify_hostname", "broker.example", keys / "broker.pem"]
    subprocess.run(named, check=True, capture_output=True)
    assert psofed("keys", "revoke", "0", *phrase).returncode == 0
    done = subprocess.run([*strict, keys / "0.pem"], capture_output=True, text=True)
    assert "certificate revoked" in done.stderr
    assert ("ENCRYPTED" in (keys / "ca.key").read_text()) == passphrase


def test_a_passphrase_is_asked_for_and_must_be_right(psofed, tmp_path):
    for name in ("right", "wrong"):
        (tmp_path / name).write_text(f"{name}\n")
        (tmp_path / name).chmod(0o600)
    (tmp_path / "open").write_text("right\n")
    (tmp_path / "open").chmod(0o644)
    init = psofed("keys", "init", "--passphrase-file", "open")
    assert (init.returncode, "chmod 600 open" in init.stderr) == (2, True)
    assert not (tmp_path / "keys").exists()
    assert psofed("keys", "init", "--passphrase-file", "right").returncode == 0
    for phrase, part in (
        ((), "has a passphrase; give --passphrase-file"),
        (("--passphrase-file", "wrong"), "cannot be opened with this passphrase"),
        (("--passphrase-file", "none"), "none cannot be read"),
    ):
        for command in (("client", "0"), ("renew", "server"), ("revoke", "server")):
            result = psofed("keys", *command, *phrase)
            assert result.returncode == 2
            assert part in result.stderr
    assert not (tmp_path / "keys" / "0.key").exists()
    assert psofed("keys", "client", "0", "--passphrase-file", "right").returncode == 0


def test_files_are_private_and_links_are_not_followed(keys, psofed, tmp_path):
    identity.client(keys, "0")
    enrolment.token(keys, "3")
    modes = {path.name: path.stat().st_mode & 0o777 for path in keys.iterdir()}
    secrets = {name for name, mode in modes.items() if mode == 0o600}
    assert secrets == {
        "ca.key", "broker.key", "server.key", "0.key", "acl", "3.token", "tokens.json"
    }  # fmt: skip
    assert keys.stat().st_mode & 0o777 == 0o700
    aim = tmp_path / "aim"
    aim.write_text("precious")
    for name in ("7.key", "acl"):
        (keys / name).unlink(missing_ok=True)
        (keys / name).symlink_to(aim)
    for command in (("client", "7"), ("revoke", "0")):
        result = psofed("keys", *command)
        assert result.returncode == 2, command
    assert aim.read_text() == "precious"
    (keys / "ca.key").chmod(0o640)
    result = psofed("keys", "renew", "0")
    assert (result.returncode, "chmod 600 keys/ca.key" in result.stderr) == (2, True)


def test_no_command_leaves_half_a_file(keys, monkeypatch):
    before = (keys / "acl").read_text()

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(private.os, "fsync", full)
    with pytest.raises(InputError, match="acl cannot be written: No space left on device"):
        private.write(keys / "acl", "new")
    assert (keys / "acl").read_text() == before
    assert not [path for path in keys.iterdir() if path.name.startswith(".")]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_that_is_written_again_stays_whose_it_was(keys):
    os.chown(keys / "acl", 4321, 1234)  # mosquitto's, which could not read it otherwise
    private.write(keys / "acl", "new")
    found = (keys / "acl").stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (4321, 1234, 0o600)


def test_an_authority_that_could_not_be_written_can_be_made_again(tmp_path, monkeypatch):
    write = private.write

    def fails(path, *more):
        if path.name == "acl":
            raise InputError(str(path), "cannot be written: No space left on device", "")
        write(path, *more)

    monkeypatch.setattr(private, "write", fails)
    with pytest.raises(InputError, match="No space left"):
        identity.init(tmp_path / "keys", "p", [], 8883)
    monkeypatch.undo()
    identity.init(tmp_path / "keys", "p", [], 8883)
    who(tmp_path / "keys", "server").context()


def test_only_enrolling_needs_a_package_that_devices_do_not_have(keys, psofed, monkeypatch):
    token = enrolment.token(keys, "3")
    monkeypatch.setitem(sys.modules, "cryptography", None)
    result = psofed("keys", "enrol", "3", "--token", token, "--folder", "device")
    assert result.returncode == 2
    assert "keys need cryptography; pip install '.[deploy]'" in result.stderr
    who(keys, "server").check("server")
    assert certificates.known(keys)


def test_nothing_but_signing_needs_the_key_of_the_authority(keys, psofed):
    (keys / "ca.key").unlink()
    assert psofed("keys", "list").returncode == 0
    assert psofed("keys", "token", "3").returncode == 0
    for name in ("server", "broker"):
        who(keys, name).context()
    result = psofed("keys", "client", "0")
    assert (result.returncode, "ca.key cannot be read" in result.stderr) == (2, True)
    assert "give the --folder of the authority" in result.stderr
    assert signing.revoked(signing.Library(), keys / "crl.pem") is not None
