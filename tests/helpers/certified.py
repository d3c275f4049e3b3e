"""Real brokers with certificates, and what their peers need."""

import signal

from helpers.devices import wait_for
from psofed.fleet.authority import Authority
from psofed.fleet.identity import Identity


def reread(broker):
    """Tell a mosquitto to read its files again, and wait until it has begun: others wait behind."""
    log = broker.config.with_suffix(".log")
    before = log.read_text().count("Reloading config.")
    broker.process.send_signal(signal.SIGHUP)
    wait_for(lambda: log.read_text().count("Reloading config.") > before)


def authority(folder, clients=(), **more):
    """An authority for a broker on this machine, and certificates of these clients."""
    made = Authority.make(folder, "p", ["127.0.0.1"], **more)
    for k in clients:
        made.add(str(k))
    return made


def who(folder, name):
    return Identity(folder / "ca.pem", folder / f"{name}.pem", folder / f"{name}.key")


def files(folder, name):
    mine = who(folder, name)
    return "--ca", mine.ca, "--cert", mine.certificate, "--key", mine.key
