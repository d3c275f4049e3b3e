"""What the tests of deployment share."""

import re
import shutil

import pytest

from helpers.certified import authority
from helpers.devices import Team
from psofed.fleet import mqtt
from psofed.fleet.broker import Address


@pytest.fixture(scope="session")
def made_keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("authority") / "keys"
    authority(folder, range(3))
    return folder


@pytest.fixture
def keys(made_keys, tmp_path):
    """The folder of an authority for a broker on this machine, with clients 0, 1 and 2."""
    folder = shutil.copytree(made_keys, tmp_path / "keys")
    conf = folder / "mosquitto.conf"
    conf.write_text(conf.read_text().replace(str(made_keys), str(folder)))
    return folder


@pytest.fixture
def refused(psofed):
    """`refused(said, "keys", ...)`: that command of `psofed deploy` ends with one line, which says so."""

    def refuse(said, *command):
        result = psofed("deploy", *command)
        assert (result.returncode, result.stdout) == (2, ""), command
        assert said in result.stderr, command
        assert len(result.stderr.strip().splitlines()) == 1, result.stderr
        return result.stderr

    return refuse


@pytest.fixture
def open_link():
    """`open_link(port, ...)`: a connection to a broker here, which ends with the test."""
    opened = []

    def make(port, name="server", topic="p/+/u", largest=1000, identity=None, wait=True, **more):
        address = Address("127.0.0.1", port, tls=identity is not None)
        link = mqtt.Link(address, name, topic, largest, identity=identity, **more)
        opened.append(link)
        link.open()
        if wait:
            assert link.get(30).kind == "up"
        return link

    yield make
    for link in opened:
        link.close()


@pytest.fixture
def secured(brokers):
    """`secured(folder)`: a broker with the configuration that `psofed deploy keys` has written."""

    def start(folder):
        text = (folder / "mosquitto.conf").read_text()
        text = re.sub("listener 8883.*", "listener PORT 127.0.0.1", text)
        # As root mosquitto becomes another user, who may not read the folder of a test.
        return brokers(folder, text + "user root\n")

    return start


@pytest.fixture
def team(tmp_path):
    made = []

    def make(text, url, **options):
        file = tmp_path / "run.toml"
        file.write_text(text)
        made.append(Team(tmp_path, file, url, **options))
        return made[-1]

    yield make
    for each in made:
        each.stop()
