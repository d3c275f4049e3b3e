"""Real brokers with certificates, and what their peers need."""

from helpers.devices import Mosquitto
from psofed.deploy.certificates import Identity


def secured(folder):
    """A mosquitto with the configuration that `psofed keys` has written."""
    text = (folder / "mosquitto.conf").read_text()
    text = text.replace("listener 8883", "listener PORT 127.0.0.1")
    # As root mosquitto becomes another user, who may not read the folder of a test.
    return Mosquitto(folder, text + "user root\n")


def who(folder, name):
    return Identity(folder / "ca.pem", folder / f"{name}.pem", folder / f"{name}.key")


def files(folder, name):
    mine = who(folder, name)
    return "--ca", mine.ca, "--cert", mine.certificate, "--key", mine.key
