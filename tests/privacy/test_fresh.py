"""Entries that come down and go up at one contact: in them a server can read the newest inputs."""

import numpy as np
import pytest

from helpers.extra import Extra
from psofed.experiment import Experiment
from psofed.fleet.protocol.client import Client
from psofed.fleet.protocol.server import Server
from psofed.fleet.samples import replay
from psofed.methods import psofed

optimize = Extra("scipy.optimize")
FIRST, LAST = 20, 25  # by then a client has learned from some twenty samples since its last contact


@pytest.mark.parametrize("scheme", ["coordinated", "uncoordinated"])
def test_the_newest_inputs_can_be_read_from_windows_that_overlap(scheme):
    experiment = Experiment(methods=(psofed.Options(shared=40, scheme=scheme),), rounds=LAST)
    [method] = experiment.start(experiment.task(0))
    read = [
        np.abs(guessed(method, k, n, down, up) - replay(experiment, k)(n, n + 1)[0][0]).max() < 0.01
        for k, n, down, up in contacts(experiment, method)
    ]
    assert len(read) == (LAST - FIRST) * experiment.cohort
    assert np.mean(read) >= 0.75


def contacts(experiment, method):
    """The messages of the last rounds, of deployed handlers, as bytes."""
    server, clients, found = Server(method), {}, []
    for n in range(LAST):
        for k, down in server.invite().items():
            client = clients.setdefault(k, Client(method, k, replay(experiment, k)))
            up = client.take_part(n, down)
            server.collect(k, n, up)
            found += [(k, n, down, up)] if n >= FIRST else []
        server.commit()
    return found


def guessed(method, k, n, down, up):
    """x of round n, from mu e z(x) on the entries that travelled twice; NaN if these are few."""
    windows = method.entries(k, n, False), method.entries(k, n, True)
    both, before, after = np.intersect1d(*windows, return_indices=True)
    if len(both) < 5:
        return np.full(4, np.nan)
    change = method.decode(up, up=True)[after] - method.decode(down, up=False)[before]
    luck, fits = np.random.default_rng(0), []

    def z(x):
        return np.asarray(method.task.features(x[None].astype(method.task.dtype)))[0, both]

    def off(p):
        return (p[4] * z(p[:4]) - change) / np.linalg.norm(change)

    while len(fits) < 40 and sum(fit.cost < 1e-7 for fit in fits) < 4:
        x = luck.normal(size=4)
        start = np.append(x, z(x) @ change / (z(x) @ z(x)))
        fits.append(optimize.least_squares(off, start, diff_step=1e-3, max_nfev=100))
    # Features are waves, so far away other inputs may fit too: the nearest is the likely one.
    good = [fit for fit in fits if fit.cost < 1e-7] or [min(fits, key=lambda fit: fit.cost)]
    return min((fit.x[:4] for fit in good), key=np.linalg.norm)
