"""Renewal: new certificates are taken up while everything runs, and the end of one is told before."""

import re
import shutil
import time
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from helpers.certified import files, reread, who
from helpers.devices import wait_for
from helpers.runs import SMALL, assert_equal_to_the_engine
from psofed.errors import InputError
from psofed.fleet import identity, mqtt
from psofed.fleet.authority import Authority
from psofed.fleet.identity import Papers


def renew(folder, name, *more, **options):
    Authority(folder).renew(name, *more, **options)


def last(folder, name):
    """The newest certificate."""
    serial = x509.load_pem_x509_certificate((folder / f"{name}.pem").read_bytes()).serial_number
    return next(each for each in Authority(folder).made() if each.serial == serial)


def test_rounds_go_on_across_renewals_of_broker_server_and_client(keys, secured, team):
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
        old = [last(keys, name).serial for name in ("server", "0")]
        for name in ("broker", "server", "0"):
            renew(keys, name)
        Authority(keys)._revoke(old)  # who still used them would not come back
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
    for name in ("server", 0, 1, 2):
        assert "certificate is" not in run.log(name)
        assert "Traceback" not in run.log(name)
    assert_equal_to_the_engine(run, 300)


def test_a_broker_shows_its_new_certificate_after_a_signal(keys, secured, open_link):
    renew(keys, "broker", days=10)
    broker = secured(keys)
    link = open_link(broker.port, identity=who(keys, "server"), clients=range(3))
    wait_for(lambda: link.papers.days().get("broker") == 9)
    assert "the broker's certificate ends in 9 days" in link.ending
    assert "psofed deploy keys renew broker" in link.ending
    renew(keys, "broker", days=400)
    reread(broker)
    link._looked = link._met = time.monotonic() - mqtt.LOOK[0]  # an hour later
    link.renew()
    wait_for(lambda: link.papers.days()["broker"] == 399)
    assert link.ending == ""
    assert len(link._lost) == 0, "it does not look like two programs with one certificate"


def test_files_are_taken_up_when_they_fit_each_other_and_not_before(keys, tmp_path, monkeypatch):
    device = tmp_path / "device"
    device.mkdir()
    for name in ("ca.pem", "0.pem", "0.key"):
        shutil.copy2(keys / name, device)
    papers = Papers(who(device, "0"))
    first = papers.context
    assert not papers.renewed()
    renew(keys, "0")
    shutil.copy(keys / "0.pem", device)
    assert not papers.renewed(), "the key of this certificate is still to come"
    monkeypatch.setattr(identity, "TORN", -1.0)
    assert not papers.renewed()
    assert "new files of this machine's certificate are not used" in papers.ending()
    shutil.copy(keys / "0.key", device)
    assert papers.renewed()
    assert papers.context is not first
    assert (papers.own.end, papers.ending()) == (last(keys, "0").end, "")
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
    papers = Papers(who(keys, "server"))
    assert papers.ending() == ""
    assert papers.days() == {"own": 824, "authority": 3649}
    papers.ends["own"] = datetime.now(UTC) + timedelta(days=days, hours=1)
    when = f"ends in {days} days" if days > 0 else "has ended"
    told = (
        rf"this machine's certificate {when} \(20\d\d-\d\d-\d\d\): psofed deploy keys renew server"
    )
    assert re.fullmatch(told, papers.ending())
    papers.ends["authority"] = papers.ends["own"]
    assert "; the authority's certificate" in papers.ending()


def test_a_client_whose_certificate_ends_soon_says_so_at_its_start(keys, secured, team):
    broker = secured(keys)
    renew(keys, "0", days=12)
    run = team(SMALL, f"mqtts://127.0.0.1:{broker.port}", client=files(keys, 0))
    run.start(0)
    wait_for(lambda: "connected to" in run.log(0))
    told = "Warning: this machine's certificate ends in 11 days"
    wait_for(lambda: told in run.log(0))
    time.sleep(0.6)
    assert run.log(0).count(told) == 1


def test_a_renewed_certificate_overlaps_with_the_old_one_and_lasts_as_long(keys):
    for name in ("broker", "server", "0"):
        key, before = (keys / f"{name}.key").read_bytes(), who(keys, name).read()
        renew(keys, name)
        new = who(keys, name).read()
        assert new.begin <= datetime.now(UTC) < before.end <= new.end
        longer = (new.end - new.begin) - (before.end - before.begin)
        assert abs(longer) <= timedelta(seconds=1), "whole seconds, of two looks at the clock"
        assert (keys / f"{name}.key").read_bytes() != key
        who(keys, name).context()
    names = [each.name for each in Authority(keys).made()]
    assert [names.count(name) for name in ("broker", "server", "0", "1")] == [2, 2, 2, 1]


def test_the_key_stays_where_it_is_wanted_and_was_not_revoked(keys, psofed):
    key = (keys / "1.key").read_bytes()
    said = psofed("deploy", "keys", "renew", "1", "--same-key", "--days", 30).stdout
    assert "the key stays" in said
    assert (keys / "1.key").read_bytes() == key
    assert Papers(who(keys, "1")).days()["own"] == 29
    Authority(keys).revoke("1")
    with pytest.raises(InputError, match="the key of 1 belongs to a revoked"):
        renew(keys, "1", same_key=True)
    renew(keys, "1")
    assert not last(keys, "1").revoked, "with a new key it may come back"
    (keys / "2.key").write_text((keys / "0.key").read_text())  # as if a renewal was interrupted
    renew(keys, "2")
    who(keys, "2").context()
    for name in ("9", "x"):
        wrong = psofed("deploy", "keys", "renew", name)
        assert wrong.returncode == 2, name


def test_no_certificate_outlives_the_authority(keys):
    renew(keys, "0", days=36500)
    assert last(keys, "0").end == last(keys, "ca").end
