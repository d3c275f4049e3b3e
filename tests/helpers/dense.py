"""The reference with its matrices, as one more way to play a method where it applies."""

from __future__ import annotations

import numpy as np

from helpers import reference
from psofed.cli.laws.drivers import CLIENTS, DIM, ROUNDS, prepare, samples
from psofed.core.features import Waves
from psofed.methods import onlinefed, psofed


def dense(experiment):
    """The reference with its matrices, where it applies."""
    method, draws = prepare(experiment)
    (options,) = experiment.methods
    waves = isinstance(draws.features, Waves) and experiment.learner.compiled
    if draws.gaps or options.average or options.wire or not waves:
        return None
    rotates = isinstance(options, psofed.Options) and (
        options.selection == "sequential" and options.mask != "groups"
    )
    if type(options) is psofed.Options and options.idle and rotates:
        kind, shift = "pso", options.tau
    elif type(options) is onlinefed.Options:
        kind, shift = "online", 0
    else:
        return None
    x, y = samples(draws)
    cohorts = tuple(tuple(method.cohort(n, {}).tolist()) for n in range(ROUNDS))
    masks = np.array([method.schedule.entries(k, 0) for k in range(CLIENTS)])
    zeros, features = (np.zeros(DIM), np.zeros((CLIENTS, DIM))), draws.features
    assert isinstance(features, Waves)
    case = reference.Case(kind, features, x, y, cohorts, method.step, masks, shift, *zeros)
    return reference.run(case)[0]
