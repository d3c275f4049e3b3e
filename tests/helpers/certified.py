"""Real brokers with certificates, and what their peers need."""

from helpers.devices import Mosquitto, wait_for
from psofed.deploy import revocation
from psofed.deploy.certificates import Identity


def secured(folder):
    """A mosquitto with the configuration that `psofed keys` has written."""
    text = (folder / "mosquitto.conf").read_text()
    text = text.replace("listener 8883", "listener PORT 127.0.0.1")
    # As root mosquitto becomes another user, who may not read the folder of a test.
    return Mosquitto(folder, text + "user root\n")


def reread(broker):
    """Tell a mosquitto to read its files again, and wait until it has begun: others wait behind."""
    log = broker.config.with_suffix(".log")
    before = log.read_text().count("Reloading config.")
    revocation.reload(broker.process.pid)
    wait_for(lambda: log.read_text().count("Reloading config.") > before)


def who(folder, name):
    return Identity(folder / "ca.pem", folder / f"{name}.pem", folder / f"{name}.key")


def files(folder, name):
    mine = who(folder, name)
    return "--ca", mine.ca, "--cert", mine.certificate, "--key", mine.key
