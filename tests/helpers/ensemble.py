"""Thousands of independent runs side by side, for laws that hold on average only.

`advance` is Algorithm 1 for arrays over runs; a test holds it to the dense reference.
"""

import numpy as np


def advance(system, n, w, local, chosen, z, y):
    """One round: w [runs, D], local [runs, K, D], chosen [runs, K], z [runs, K, D], y [runs, K]."""
    d, d1 = (np.broadcast_to(system.masks(i), local.shape[1:]) for i in (n, n + 1))
    phi = np.where(chosen[:, :, None] & (d > 0), w[:, None], local)
    gain = system.step * (y - np.vecdot(z, phi))
    local = phi + (gain if system.idle else gain * chosen)[..., None] * z
    weight = chosen / np.maximum(chosen.sum(axis=1, keepdims=True), 1)
    return w + np.einsum("rk,kd,rkd->rd", weight, d1, local - w[:, None]), local


def runs(systems, sample, rounds, count, seed=0):
    """The models of `count` runs of each system before rounds 0..rounds, on the same draws."""
    rng = np.random.default_rng(seed)
    K, D, s = systems[0].total, systems[0].dim, systems[0].cohort
    states = [(np.zeros((count, D)), np.zeros((count, K, D))) for _ in systems]
    for n in range(rounds + 1):
        yield states
        chosen = rng.random((count, K)).argsort(axis=1) < s
        z, y = sample(rng, count)
        states = [
            advance(system, n, *state, chosen, z, y)
            for system, state in zip(systems, states, strict=True)
        ]
