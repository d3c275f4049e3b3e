"""An authority in a folder, of ours or made with openssl: its files, and who needs which of them."""

import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from helpers.certified import files, who
from helpers.runs import SMALL, assert_equal_to_the_engine
from psofed.errors import InputError
from psofed.fleet import identity
from psofed.fleet.authority import Authority


def test_openssl_has_nothing_to_complain_of(openssl, psofed, tmp_path):
    keys = tmp_path / "keys"
    for command in ("make --host broker.example", "add 0", "renew server", "renew broker"):
        result = psofed("deploy", "keys", *command.split())
        assert result.returncode == 0, (command, result.stderr)
    strict = [openssl, "verify", "-x509_strict", "-CAfile", keys / "ca.pem"]
    strict += ["-crl_check", "-CRLfile", keys / "crl.pem"]
    client, server = ["-purpose", "sslclient"], ["-purpose", "sslserver"]
    for name, use in (("0", client), ("server", client), ("broker", server)):
        subprocess.run([*strict, *use, keys / f"{name}.pem"], check=True, capture_output=True)
    named = [*strict, *server, "-verify_hostname", "broker.example", keys / "broker.pem"]
    subprocess.run(named, check=True, capture_output=True)
    assert psofed("deploy", "keys", "revoke", "0").returncode == 0
    done = subprocess.run([*strict, keys / "0.pem"], capture_output=True, text=True)
    assert "certificate revoked" in done.stderr


@pytest.fixture
def own(openssl, keys):
    """The folder with the files of an authority, and of its members, that openssl has made."""
    new = f"{openssl} req -nodes -newkey ec -pkeyopt ec_paramgen_curve:P-256"
    commands = [f'{new} -x509 -days 30 -keyout ca.key -out ca.pem -subj "/CN=our own"']
    for name in ("broker", "server", "0", "1", "2"):
        extra = " -addext subjectAltName=IP:127.0.0.1" * (name == "broker")
        commands += [
            f'{new} -keyout {name}.key -out {name}.csr -subj "/O=plant/CN={name}"{extra}',
            f"{openssl} x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 20"
            f" -copy_extensions copy -text -out {name}.pem",  # some write a text before it
            f"cat ca.pem >> {name}.pem",  # and the authorities behind it
        ]
    for command in commands:
        subprocess.run(command, shell=True, check=True, cwd=keys, capture_output=True)
    conf = (keys / "mosquitto.conf").read_text()
    (keys / "mosquitto.conf").write_text(conf.replace("crlfile", "# crlfile"))
    return keys


def test_a_run_with_certificates_equals_the_engine_whoever_made_them(own, secured, team):
    broker = secured(own)
    run = team(SMALL, f"mqtts://127.0.0.1:{broker.port}", serve=files(own, "server"))
    run.start("server")
    for k in range(3):
        run.more = files(own, k)
        run.start(k)
    run.finish()
    assert "plain text" not in run.log(0)
    assert run.log(0).count("Warning: this machine's certificate ends in 19 days") == 1
    assert_equal_to_the_engine(run, 40)
    other = r"0\.pem is that of '0'; give the certificate of 'server'"
    with pytest.raises(InputError, match=other):
        who(own, "0").check("server")


def test_files_are_private_and_links_are_not_followed(keys, refused, tmp_path):
    modes = {path.name: path.stat().st_mode & 0o777 for path in keys.iterdir()}
    secrets = {name for name, mode in modes.items() if mode == 0o600}
    assert secrets == {"ca.key", "broker.key", "server.key", "acl", "0.key", "1.key", "2.key"}
    assert keys.stat().st_mode & 0o777 == 0o700
    (keys / "ca.key").chmod(0o640)
    refused("chmod 600 keys/ca.key", "keys", "renew", "server")
    (keys / "ca.key").chmod(0o600)
    aim = tmp_path / "aim"
    aim.write_text("precious")
    for name in ("7.key", "crl.pem"):
        (keys / name).unlink(missing_ok=True)
        (keys / name).symlink_to(aim)
    for command in (("add", "7"), ("revoke", "0")):
        refused("", "keys", *command)
    assert aim.read_text() == "precious"


def test_no_command_leaves_half_a_file(keys, monkeypatch):
    before = (keys / "acl").read_text()

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(identity.os, "fsync", full)
    with pytest.raises(InputError, match="acl cannot be written: No space left on device"):
        identity.write(keys / "acl", "new")
    assert (keys / "acl").read_text() == before
    assert not [path for path in keys.iterdir() if path.name.startswith(".")]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_that_is_written_again_stays_whose_it_was(keys):
    os.chown(keys / "acl", 4321, 1234)  # mosquitto's, which could not read it otherwise
    identity.write(keys / "acl", "new")
    found = (keys / "acl").stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (4321, 1234, 0o600)


def test_only_an_authority_needs_a_package_that_devices_do_not_have(keys, refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    for command in (("make",), ("add", "0"), ("renew", "server"), ("revoke", "server"), ("list",)):
        refused("keys need cryptography; pip install '.[deploy]'", "keys", *command)
    who(keys, "server").check("server")


def test_nothing_but_signing_needs_the_key_of_the_authority(keys, psofed, refused):
    (keys / "ca.key").unlink()
    assert psofed("deploy", "keys", "list").returncode == 0
    for name in ("server", "broker"):
        who(keys, name).context()
    said = refused("ca.key cannot be read", "keys", "add", "7")
    assert "give the --folder of the authority" in said
    identity.write(keys / "ca.key", "nonsense")
    refused("ca.key is not a private key", "keys", "add", "7")


@pytest.mark.parametrize("days", [29, 3, -2])
def test_the_end_of_a_certificate_is_told_thirty_days_before(keys, days):
    mine = who(keys, "server")
    ends = mine.ends(mine.context())
    assert identity.days(ends) == {"own": 824, "authority": 3649}
    assert identity.ending(ends) == ""
    ends["own"] = datetime.now(UTC) + timedelta(days=days, hours=1)
    when = f"ends in {days} days" if days > 0 else "has ended"
    told = rf"this machine's certificate {when} \(20\d\d-\d\d-\d\d\): psofed deploy keys renew"
    assert re.fullmatch(told, identity.ending(ends))
    ends["authority"] = ends["own"]
    assert "; the authority's certificate" in identity.ending(ends)


def test_a_renewed_certificate_has_a_new_key_and_lasts_as_long_but_not_beyond_the_authority(keys):
    ours = Authority(keys)
    for name in ("broker", "server", "0"):
        key, before = (keys / f"{name}.key").read_bytes(), who(keys, name).read()[1]
        ours.renew(name)
        longer = who(keys, name).read()[1] - before
        assert timedelta() <= longer <= timedelta(minutes=10), "as long from now on as from then"
        assert (keys / f"{name}.key").read_bytes() != key
        who(keys, name).context()
    names = [each.name for each in ours.made()]
    assert [names.count(name) for name in ("broker", "server", "0", "1")] == [2, 2, 2, 1]
    ours.renew("0", days=36500)
    ends = {each.end for each in ours.made() if each.name in ("0", "psofed authority")}
    assert max(ends) == who(keys, "0").read()[1]
    with pytest.raises(InputError, match="is not a certificate that could be renewed"):
        ours.renew("9")
