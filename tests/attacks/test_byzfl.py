"""Attacks and defences beside those of ByzFL, an independent library, where it is installed."""

from __future__ import annotations

import numpy as np
import pytest

from psofed.core.seeds import Seeds
from psofed.stages.attacks import alie, ipm
from psofed.stages.attacks.contract import Attackers
from psofed.stages.attacks.contract import bind as attacking
from psofed.stages.defences import centred, krum, median, trimmed
from psofed.stages.defences.contract import Setting, bind

CASES = range(30)


@pytest.fixture(scope="module")
def byzfl():
    try:
        import byzfl
    except Exception as error:  # it imports torch and torchvision, which have to fit each other
        pytest.skip(f"ByzFL cannot be imported: {error}")
    return byzfl


def members(number):
    """Models or changes of some members, and which of them are malicious."""
    rng = np.random.default_rng(number)
    size = int(rng.integers(7, 12))
    return rng.standard_normal((size, 5)), np.arange(size) < rng.integers(1, 3)


def sent(options, own, bad):
    attack = attacking(options, Attackers(20, own.shape[1], 0.1, Seeds(1)))
    return attack.models(0, np.arange(len(own)), own, bad, np.zeros(own.shape[1]))[0]


def left(defence, state, n, changes):
    entries = np.broadcast_to(np.arange(changes.shape[1]), changes.shape)
    return defence.defended(state, n, np.arange(len(changes)), changes, entries).mean(axis=0)


def folded(options, changes):
    defence = bind(options, Setting(20, 20, changes.shape[1], len(changes)))
    return left(defence, defence.start(), 0, changes)


def same(found, expected):
    assert np.allclose(found, expected, rtol=0, atol=1e-12)


def test_attacks_send_what_byzfl_sends(byzfl):
    for own, bad in map(members, CASES):
        honest = own[~bad]
        # There the deviation is that of a sample, h - 1 in its denominator, and it is added.
        z = -1.5 * np.sqrt((len(honest) - 1) / len(honest))
        same(sent(alie.Options(z=1.5), own, bad), byzfl.ALittleIsEnough(tau=z)(honest))
        # There are no models but changes, as with a server at 0.
        reversed_mean = byzfl.InnerProductManipulation(tau=2.0)(honest)
        same(sent(ipm.Options(epsilon=2.0), own, bad), reversed_mean)


def test_defences_leave_what_byzfl_leaves(byzfl):
    for changes, _ in map(members, CASES):
        same(folded(median.Options(), changes), byzfl.Median()(changes))
        for f in (1, 2):
            same(folded(trimmed.Options(trim=f), changes), byzfl.TrMean(f=f)(changes))
            # Krum's paper has s - f - 2 neighbours, which is what ByzFL takes for f + 1.
            same(folded(krum.Options(malicious=f), changes), byzfl.Krum(f=f + 1)(changes))


def test_centred_clipping_without_memory_is_that_of_byzfl_round_by_round(byzfl):
    rng = np.random.default_rng(0)
    ours = bind(centred.Options(tau=0.7, memory=0.0), Setting(20, 20, 5, 6))
    theirs, state = byzfl.CenteredClipping(L=1, tau=0.7), ours.start()
    for n in range(20):
        changes = rng.standard_normal((6, 5))
        same(left(ours, state, n, changes), theirs(changes))
