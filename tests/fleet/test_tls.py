"""Certificates: who one is decides what one may say; foreign and expired ones stay outside."""

from dataclasses import replace

import pytest

from helpers.certified import authority, files, who
from helpers.devices import wait_for
from helpers.runs import SMALL
from psofed.errors import InputError
from psofed.fleet import authority as authorities
from psofed.fleet.authority import Authority
from psofed.fleet.protocol import deployment as plans


@pytest.fixture
def broker(keys, secured):
    return secured(keys)


def first_heard(link, speak):
    """The first message that comes; what is said before a subscription is made is lost."""

    def again():
        speak()
        event = link.get(0.3)
        return event if event is not None and event.kind == "message" else None

    event = wait_for(again)
    return event.topic, event.data


def test_a_client_speaks_and_listens_only_for_itself(keys, broker, open_link):
    server, zero, spy = (
        open_link(broker.port, name, topic, identity=who(keys, name), clients=range(3))
        for name, topic in (("server", "p/+/u"), ("0", "p/0/d"), ("1", "#"))
    )

    def spies():
        for topic in ("p/0/u", "p/0/d"):
            spy.send(topic, b"forged")
        spy.send("p/1/u", b"own")

    assert first_heard(server, spies) == ("p/1/u", b"own")
    # What is forged would have been delivered before this.
    assert first_heard(zero, lambda: server.send("p/0/d", b"for zero")) == ("p/0/d", b"for zero")
    assert spy.get(0) is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # paho's sockets
@pytest.mark.parametrize(("kind", "hint"), [
    ("foreign", "is this machine's certificate valid, not revoked, and of the broker's"),
    ("expired", "is this machine's certificate valid, not revoked, and of the broker's"),
    ("unbelieving", "its certificate is refused, self-signed certificate in certificate chain"),
    ("too late", "its certificate is refused, certificate has expired: are the clock of this"),
])  # fmt: skip
def test_who_has_no_right_certificate_stays_outside_and_is_told(
    keys, secured, open_link, tmp_path, kind, hint
):
    ours, other = Authority(keys), tmp_path / "other"
    authority(other, [0])
    if kind == "expired":
        ours.issue("0", -1)
    if kind == "too late":
        ours.issue("broker", -1, [authorities._host("127.0.0.1")])
    mine = who(other if kind == "foreign" else keys, "0")
    ca = other if kind == "unbelieving" else keys
    link = open_link(
        secured(keys).port, "0", "p/0/d", wait=False, identity=replace(mine, ca=ca / "ca.pem")
    )
    event = wait_for(lambda: link.get(1))
    assert event.kind == "down"
    assert hint in event.data


def test_two_devices_with_one_certificate_take_turns_and_notice_it(keys, broker, open_link):
    mine = {"identity": who(keys, "0"), "wait": False}
    links = [open_link(broker.port, "0", "p/0/d", **mine) for _ in range(2)]
    wait_for(lambda: any(link.contested for link in links))


def test_the_broker_of_a_run_takes_nothing_that_stays_and_nothing_larger(
    psofed, secured, open_link, tmp_path
):
    (tmp_path / "run.toml").write_text(SMALL.replace('wire = "float64"', 'run = "q"'))
    assert psofed("deploy", "keys", "make", "run.toml", "--folder", "k").returncode == 0
    assert psofed("deploy", "keys", "add", "0", "--folder", "k").returncode == 0
    keys, most = tmp_path / "k", plans.read(tmp_path / "run.toml").largest + 8
    text = (keys / "mosquitto.conf").read_text()
    assert f"\nmessage_size_limit {most}\nmax_packet_size {most + 100}\n" in text
    assert most == 32 * 200 + 64 + 12 + 8
    assert "topic read q/+/u" in (keys / "acl").read_text()
    broker = secured(keys)
    client = open_link(broker.port, "0", "q/0/d", most, identity=who(keys, "0"))
    clients = {"clients": range(3), "identity": who(keys, "server")}
    server = open_link(broker.port, "server", "q/+/u", 10**8, **clients)
    sent = first_heard(server, lambda: client.send("q/0/u", bytes(most)))
    assert sent == ("q/0/u", bytes(most))
    for size, retain in ((most + 1, False), (10**6, False), (9, True)):
        wait_for(lambda: client.up)
        client._client.publish("q/0/u", bytes(size), 0, retain)
    found = {sent}
    while ("q/0/u", b"end") not in found:
        found.add(first_heard(server, lambda: client.send("q/0/u", b"end")))
    assert found == {sent, ("q/0/u", b"end")}
    assert client._lost, "who sends such things is disconnected"


def test_an_authority_is_not_overwritten_and_names_are_numbers(psofed, refused, tmp_path):
    for host, where in (("192.0.2.1", " 192.0.2.1"), ("broker.example", "")):
        psofed("deploy", "keys", "make", "--host", host, "--folder", host)
        assert f"\nlistener 8883{where}\n" in (tmp_path / host / "mosquitto.conf").read_text()
    assert psofed("deploy", "keys", "make").returncode == 0
    assert psofed("deploy", "keys", "add", "3").returncode == 0
    refused("has an authority already", "keys", "make")
    for name in ("../x", "server", "broker", "ca", "03", "", "٣", "9" * 30):
        refused("use the number of a client", "keys", "add", name)
    before = (tmp_path / "keys" / "3.key").read_bytes()
    refused("has a certificate of client 3 already", "keys", "add", "3")
    assert (tmp_path / "keys" / "3.key").read_bytes() == before


@pytest.mark.parametrize("host", ["bücher.example", "a b", "", "mqtts://x/", "a/b"])
def test_a_host_that_fits_no_certificate_is_refused_before_anything_is_written(tmp_path, host):
    with pytest.raises(InputError, match="--host is"):
        Authority.make(tmp_path / "new", "p", [host])
    assert not (tmp_path / "new").exists()


def test_the_certificate_of_somebody_else_is_refused_at_the_start(refused, keys, tmp_path):
    file = tmp_path / "run.toml"
    file.write_text(SMALL)
    to = ("--state", "s", "--broker", "mqtts://127.0.0.1:1")
    for command in (("client", file, "--id", 1), ("serve", file)):
        said = "0.pem is that of '0'; give the certificate of"
        refused(said, *command, *to, *files(keys, "0"))
    assert not (tmp_path / "s").exists()
    for name in ("server", "broker", "2"):
        assert who(keys, name).read()[0] == name


def test_files_that_are_no_certificates_are_named(tmp_path):
    for name in ("ca.pem", "a.pem", "a.key"):
        (tmp_path / name).write_text("nonsense")
    mine = who(tmp_path, "a")
    with pytest.raises(InputError, match=r"a\.key can be read by others; chmod 600 /\S+/a\.key$"):
        mine.context()
    (tmp_path / "a.key").chmod(0o600)
    with pytest.raises(InputError, match=r"ca\.pem.*cannot be used"):
        mine.context()
    with pytest.raises(InputError, match="has no authority"):
        Authority(tmp_path)
    with pytest.raises(InputError, match=r"a\.pem cannot be used: it is not a certificate"):
        mine.read()
