"""Renewal: new certificates are taken up while everything runs, and the end of one is told before."""

import re
import shutil
import time
from datetime import UTC, datetime, timedelta

import pytest

from helpers.certified import files, reread, secured, who
from helpers.devices import wait_for
from helpers.runs import SMALL, assert_equal_to_the_engine, needs_mosquitto
from psofed.deploy import certificates, enrolment, identity, mqtt, renewal, revocation
from psofed.deploy.signing import Authority
from psofed.errors import InputError


@pytest.fixture
def keys(tmp_path):
    folder = tmp_path / "keys"
    identity.init(folder, "p", ["127.0.0.1"], 8883)
    for name in ("0", "1", "2"):
        identity.issue(folder, name)
    return folder


def serial(folder, name):
    return certificates.Certificate.parse((folder / f"{name}.pem").read_text()).serial


@needs_mosquitto
def test_rounds_go_on_across_renewals_of_broker_server_and_client(keys, team):
    broker = secured(keys)
    text = SMALL.replace("rounds = 40", "rounds = 300")
    serve = *files(keys, "server"), "--every", 0.02
    run = team(text, f"mqtts://127.0.0.1:{broker.port}", serve=serve)
    run.start("server")
    for k in range(3):
        run.more = files(keys, k)
        run.start(k)
    try:
        wait_for(lambda: "round 5:" in run.log("server"))
        old = [serial(keys, name) for name in ("server", "0")]
        for name in ("broker", "server", "0"):
            identity.renew(keys, name)
        Authority(keys).revoke(old)  # who still used them would not come back
        reread(broker)
        for name in ("server", 0):
            wait_for(lambda name=name: "to use the renewed certificate" in run.log(name))
            wait_for(lambda name=name: run.log(name).count("connected to mqtts") == 2)
        broker.stop()
        broker.start()
        for name in ("server", 0):
            wait_for(lambda name=name: run.log(name).count("connected to mqtts") == 3)
        wait_for(lambda: run.running["server"].poll() is not None, seconds=60)
    finally:
        run.stop()
        broker.stop()
    for name in ("server", 0, 1, 2):
        assert "certificate is" not in run.log(name)
        assert "Traceback" not in run.log(name)
    assert_equal_to_the_engine(run, 300)


@needs_mosquitto
def test_a_broker_shows_its_new_certificate_after_a_signal(keys):
    identity.renew(keys, "broker", days=10)
    broker = secured(keys)
    link = mqtt.Link(
        mqtt.Address("127.0.0.1", broker.port, tls=True), "server", "p/+/u", 99, 0,
        who(keys, "server"), clients=range(3),
    )  # fmt: skip
    link.open()
    try:
        wait_for(lambda: link.papers.days().get("broker") == 9)
        assert "the broker's certificate ends in 9 days" in link.ending
        assert "psofed keys renew broker" in link.ending
        identity.renew(keys, "broker", days=400)
        reread(broker)
        link._looked = link._met = time.monotonic() - mqtt.LOOK[0]  # an hour later
        link.renew()
        wait_for(lambda: link.papers.days()["broker"] == 399)
        assert link.ending == ""
        assert len(link._lost) == 0, "it does not look like two programs with one certificate"
    finally:
        link.close()
        broker.stop()


def test_files_are_taken_up_when_they_fit_each_other_and_not_before(keys, tmp_path, monkeypatch):
    device = tmp_path / "device"
    device.mkdir()
    for name in ("ca.pem", "0.pem", "0.key"):
        shutil.copy2(keys / name, device)
    papers = renewal.Papers(who(device, "0"))
    first = papers.context
    assert not papers.renewed()
    identity.renew(keys, "0")
    shutil.copy(keys / "0.pem", device)
    assert not papers.renewed(), "the key of this certificate is still to come"
    monkeypatch.setattr(renewal, "TORN", -1.0)
    assert not papers.renewed()
    assert "new files of the own certificate are not used" in papers.ending()
    shutil.copy(keys / "0.key", device)
    assert papers.renewed()
    assert papers.context is not first
    assert (papers.own.serial, papers.ending()) == (serial(keys, "0"), "")
    second = papers.context
    for name in ("1.pem", "1.key"):
        shutil.copy(keys / name, device / name.replace("1", "0"))
    assert not papers.renewed()
    assert "is that of '1'; give the certificate of '0'" in papers.ending()
    (device / "0.key").unlink()
    assert not papers.renewed()
    assert papers.context is second


@pytest.mark.parametrize("days", [29, 3, -2])
def test_the_end_of_a_certificate_is_told_thirty_days_before(keys, days):
    papers = renewal.Papers(who(keys, "server"))
    assert papers.ending() == ""
    assert papers.days() == {"own": 824, "authority": 3649}
    papers.ends["own"] = datetime.now(UTC) + timedelta(days=days, hours=1)
    when = f"ends in {days} days" if days > 0 else "has ended"
    told = rf"the own certificate {when} \(20\d\d-\d\d-\d\d\): psofed keys renew server"
    assert re.fullmatch(told, papers.ending())
    papers.ends["authority"] = papers.ends["own"]
    assert "; the authority's certificate" in papers.ending()


@needs_mosquitto
def test_a_client_whose_certificate_ends_soon_says_so_at_its_start(keys, team):
    broker = secured(keys)
    identity.renew(keys, "0", days=12)
    run = team(SMALL, f"mqtts://127.0.0.1:{broker.port}", client=files(keys, 0))
    run.start(0)
    try:
        wait_for(lambda: "connected to" in run.log(0))
        told = "Warning: the own certificate ends in 11 days"
        wait_for(lambda: told in run.log(0))
        time.sleep(0.6)
        assert run.log(0).count(told) == 1
    finally:
        run.stop()
        broker.stop()


def test_a_renewed_certificate_overlaps_with_the_old_one_and_lasts_as_long(keys):
    for name in ("broker", "server", "0"):
        key, old = (keys / f"{name}.key").read_bytes(), (keys / f"{name}.pem").read_text()
        identity.renew(keys, name)
        new = certificates.Certificate.parse((keys / f"{name}.pem").read_text())
        before = certificates.Certificate.parse(old)
        assert new.begin <= datetime.now(UTC) < before.end <= new.end
        assert new.end - before.end < timedelta(minutes=1)
        assert (keys / f"{name}.key").read_bytes() != key
        who(keys, name).context()
    names = [each.name for each in certificates.known(keys)]
    assert [names.count(name) for name in ("broker", "server", "0", "1")] == [2, 2, 2, 1]


def test_the_key_stays_where_it_is_wanted_or_where_the_device_made_it(keys, psofed):
    key = (keys / "1.key").read_bytes()
    assert "the key stays" in psofed("keys", "renew", "1", "--same-key", "--days", 30).stdout
    assert (keys / "1.key").read_bytes() == key
    who(keys, "1").context()
    device = keys.parent / "device"
    path = enrolment.request(device, "7", enrolment.token(keys, "7"))
    enrolment.sign(keys, path, days=20)
    assert "7.pem; the key stays" in psofed("keys", "renew", "7", "--days", 40).stdout
    for name in ("ca.pem", "7.pem"):
        shutil.copy(keys / name, device)
    assert renewal.Papers(who(device, "7")).days()["own"] == 39
    revocation.revoke(keys, "7")
    with pytest.raises(InputError, match=r"the key of 7 belongs to a revoked .*keys token 7"):
        identity.renew(keys, "7")
    revocation.revoke(keys, "1")
    with pytest.raises(InputError, match="the key of 1 belongs to a revoked"):
        identity.renew(keys, "1", same_key=True)
    assert identity.renew(keys, "1"), "with a new key it may come back"
    (keys / "2.key").write_text((keys / "0.key").read_text())  # as if a renewal was interrupted
    assert identity.renew(keys, "2")
    who(keys, "2").context()
    (keys / "2.key").write_text("nonsense")
    with pytest.raises(InputError, match=r"2\.key is no private key"):
        identity.renew(keys, "2")
    for name in ("9", "x", "ca"):
        wrong = psofed("keys", "renew", name)
        assert wrong.returncode == 2, name


def test_no_certificate_outlives_the_authority(keys):
    identity.renew(keys, "0", days=36500)
    ends = {name: certificates.Certificate.parse((keys / f"{name}.pem").read_text()).end
            for name in ("0", "ca")}  # fmt: skip
    assert ends["0"] == ends["ca"]
