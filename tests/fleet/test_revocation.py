"""Revocation: within seconds a client has no rights, and does not come back; the others go on."""

import re
import shutil
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime

import pytest

from helpers.certified import reread, who
from helpers.devices import wait_for
from psofed.fleet.authority import Authority
from psofed.fleet.mqtt import Event

MQTT_CONNECT = b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x1e\x00\x00"


@pytest.fixture
def links(keys, secured, open_link):
    broker = secured(keys)

    def connect(name, topic, wait=True, folder=keys):
        mine = who(folder, name)
        return open_link(broker.port, name, topic, identity=mine, wait=wait, clients=range(2))

    connect.broker = broker
    return connect


def test_a_revoked_client_comes_back_with_a_new_key_only_and_the_others_do(keys, links, psofed):
    stolen = shutil.copytree(keys, keys.parent / "stolen")
    zero, one = links("0", "p/0/d"), links("1", "p/1/d")
    said = psofed("deploy", "keys", "revoke", "0", "--folder", keys)
    assert "Revoked 1 certificate of 0" in said.stdout
    links.broker.stop()
    links.broker.start()
    wait_for(lambda: one.get(1) == Event("up"))
    why = wait_for(lambda: (event := zero.get(1)) and "not revoked" in event.data and event)
    assert "is this machine's certificate valid, not revoked, and of" in why.data
    assert not zero.up
    assert psofed("deploy", "keys", "renew", "0", "--folder", keys).returncode == 0
    server, device = links("server", "p/+/u"), links("0", "p/0/d")
    wait_for(lambda: device.send("p/0/u", b"up") or server.get(0.5) is not None)
    thief = links("0", "p/0/d", wait=False, folder=stolen)
    assert wait_for(lambda: thief.get(1)).kind == "down"
    assert sorted(each.revoked for each in Authority(keys).made() if each.name == "0") == [0, 1]


def test_a_revoked_server_loses_its_connection_and_its_rights(links, keys, psofed):
    old, one = links("server", "p/+/u"), links("1", "p/1/d")
    assert "and start that again: it ends" in psofed("deploy", "keys", "revoke", "server").stdout
    links.broker.stop()
    links.broker.start()
    wait_for(lambda: one.get(1) == Event("up"))
    wait_for(lambda: (event := old.get(1)) and "not revoked" in event.data)
    assert not old.up


def test_a_session_of_tls_is_not_resumed_by_a_revoked_client(keys, links):
    context = who(keys, "0").context()

    def shake(session=None):
        plain = socket.create_connection(("127.0.0.1", links.broker.port), 10)
        with context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as line:
            with suppress(ssl.SSLEOFError):  # it may have refused us already
                line.sendall(MQTT_CONNECT)
            assert line.recv(9) == bytes([0x20, 2, 0, 0]), "the broker has accepted us"
            return line.session

    session = shake()
    assert session.has_ticket, "the broker offers to resume"
    Authority(keys).revoke("0")
    reread(links.broker)
    for offer in (None, session):
        with pytest.raises(ssl.SSLError) as refused:
            shake(offer)
        assert refused.value.reason == "SSLV3_ALERT_CERTIFICATE_REVOKED"


def test_all_certificates_of_a_client_are_revoked_and_each_list_is_younger(keys, psofed):
    ours, made = Authority(keys), []
    for _ in range(2):
        ours.renew("0")
    for name in ("0", "1", "0"):
        ours.revoke(name)
        made.append(ours._list())
    assert [len(crl) for crl in made] == [3, 4, 4]
    times = [crl.last_update_utc for crl in made]
    assert times == sorted(set(times)), "OpenSSL takes the older of two with the same time"
    assert all(crl.last_update_utc < datetime.now(UTC) < crl.next_update_utc for crl in made)
    rows = ours.made()
    assert {each.name for each in rows if each.revoked} == {"0", "1"}
    assert len(rows) == 3 + 5, "authority, broker, server and five of clients"
    text = psofed("deploy", "keys", "list", "--folder", keys).stdout.splitlines()
    assert re.fullmatch(r" +0 +824 days, until \d{4}-\d\d-\d\d  revoked", text[0])


def test_commands_at_the_same_time_do_not_undo_each_other(keys):
    for k in range(3, 10):
        Authority(keys).add(str(k))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda k: Authority(keys).revoke(str(k)), range(10)))
    assert len(Authority(keys)._list()) == 10


def test_who_has_no_certificate_and_damaged_files_are_named(keys, refused):
    refused("broker cannot be revoked", "keys", "revoke", "broker")
    for name in ("7", "nobody"):
        refused(f"has no certificate of {name!r}", "keys", "revoke", name)
    copy = next((keys / "issued").glob("0-*.pem"))
    text = copy.read_text()
    copy.write_text("nonsense")
    refused("not a readable certificate", "keys", "revoke", "0")
    copy.write_text(text)
    (keys / "crl.pem").write_text("nonsense")
    refused("it is damaged", "keys", "revoke", "0")
