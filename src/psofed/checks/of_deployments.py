"""The rules of a method where it is deployed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from psofed.checks import drivers
from psofed.checks.bench import DIM
from psofed.checks.drivers import ROUNDS, Crew, deployment, stacked, world
from psofed.checks.rules import close, only_if, refuses, require
from psofed.methods.contract import Options, kind

SHARE = 0.97  # of the entries that are said to move; coarse updates of two clients may cancel out


def lockstep_deployment_agrees(options: Options, stream: str = "steady") -> None:
    """Deployed in lockstep, with frames, records and restarts, it is the simulation."""
    only_if(not options.simulated, f"it is only simulated: {options.simulated}")
    only_if(stream != "gaps" or not options.gapless, "it needs a sample of everybody")
    experiment = world(options, stream)
    if stream == "gaps" and kind(options).relays:
        words = "which sends samples", 'use clock = "live"'
        refuses(lambda: deployment(experiment, "lockstep"), *words)
        return
    close(drivers.deployed(experiment), stacked(experiment), "deployed and simulated models")


def lockstep_deployment_agrees_with_gaps(options: Options) -> None:
    """Deployed in lockstep, with missing samples and silent rounds, it is the simulation, too."""
    lockstep_deployment_agrees(options, "gaps")


def live_deployment_learns(options: Options, stream: str = "steady") -> None:
    """Deployed on a live clock it learns, and does what its clock means."""
    only_if(not options.simulated, f"it is only simulated: {options.simulated}")
    only_if(stream != "gaps" or not options.gapless, "it needs a sample of everybody")
    experiment = world(options, stream)
    if options.not_live:
        words = "cannot run on a live clock", 'use clock = "lockstep"'
        refuses(lambda: deployment(experiment, "live"), *words)
        return
    found = drivers.live(experiment)
    close(found, drivers.expected_live(experiment), "the models and those that are meant")
    require(np.abs(found[-1]).max() > 0.01, "it does not learn")


def live_deployment_learns_with_gaps(options: Options) -> None:
    """Deployed on a live clock, with missing samples and silent rounds, it learns, too."""
    live_deployment_learns(options, "gaps")


def undeployable_is_refused(options: Options) -> None:
    """What cannot be deployed is refused with a reason."""
    experiment = world(options, "steady")
    for clock in ("lockstep", "live"):
        if options.simulated:
            words = f"{options.name}, which cannot be deployed: "
            refuses(lambda clock=clock: deployment(experiment, clock), words)  # type: ignore[misc]
        elif clock == "lockstep" or not options.not_live:
            deployment(experiment, clock)


def touched_entries_are_those_that_move(options: Options) -> None:
    """`touched` has the entries that a fold moves and, once clients have learned, no others."""
    only_if(not options.simulated, f"it is only simulated: {options.simulated}")
    team = Crew(deployment(world(replace(options, average=False), "steady"), "lockstep"))
    moved_at, spoken_of, of_these = np.zeros(DIM, int), 0, 0
    closed: Any = None
    for n in range(ROUNDS):
        before = team.server.server.model.copy()
        closed = team.round()
        moved = team.server.server.model != before
        touched = team.server.fresh == n + 1
        require((touched | ~moved).all(), f"in round {n} an entry moves that is not among them")
        if n >= 16:
            spoken_of, of_these = spoken_of + touched.sum(), of_these + (touched & moved).sum()
        moved_at[moved] = n + 1
    words = f"only {of_these} of {spoken_of} entries that it names move"
    require(of_these >= SHARE * spoken_of > 0, words)
    gap = ROUNDS - team.server.fresh.min()
    require(closed.gap == gap <= ROUNDS - moved_at.min(), f"the gap is {closed.gap}, not {gap}")


RULES = (
    lockstep_deployment_agrees, lockstep_deployment_agrees_with_gaps, live_deployment_learns,
    live_deployment_learns_with_gaps, undeployable_is_refused, touched_entries_are_those_that_move,
)  # fmt: skip
