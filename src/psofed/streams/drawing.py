"""Samples of any stream; those of one from outside the package are looked at before they are used.

Compiled code reads arrays by their number of rows and does not ask whether they have them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed import plugins
from psofed.attacks.contract import Attack
from psofed.core.foreign import broken, kind
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.streams.contract import Samples, Stream

Array = NDArray[Any]
CHECK = "see the contract at the top of psofed/streams/contract.py, or try `psofed check`"


def samples(
    stream: Stream, seeds: Seeds, clients: Array, first: int, stop: int, dtype: Any,
    memory: Any = None,
) -> Samples:  # fmt: skip
    """Rounds first..stop-1 of these clients."""
    made = stream.samples(seeds, clients, first, stop, dtype, memory)
    return _checked(stream, "samples", made, (len(clients), stop - first))


def falsified(drawn: Samples, attack: Attack | None, clients: Array, first: int) -> Samples:
    """The same, where malicious ones of these clients measure what an attack on labels says."""
    if attack is None or attack.options.on != "labels":
        return drawn
    bad = np.isin(clients, attack.insiders.ids)
    if not bad.any():
        return drawn
    n = first + np.arange(drawn.noise.shape[1])
    x, clean, noise = np.array(drawn.x), drawn.clean.copy(), drawn.noise.copy()
    x[bad], clean[bad] = attack.samples(clients[bad], n, drawn.x[bad], drawn.y[bad])
    noise[bad] = 0
    return Samples(x, clean, noise, drawn.memory)


def snapshot(
    stream: Stream, seeds: Seeds, purpose: str, clients: int | Array, count: int
) -> Samples:
    """Independent samples, for tests, centres and the theory."""
    made = stream.snapshot(seeds, purpose, clients, count)
    return _checked(stream, "snapshot", made, (count,))


def _checked(stream: Stream, name: str, made: Samples, shape: tuple[int, ...]) -> Samples:
    """Real numbers in arrays of the right shapes; NaN only as a y that is missing in a round."""
    if plugins.is_ours(type(stream)):
        return made

    def wrong(found: str) -> InputError:
        return broken(type(stream), name, found, CHECK)

    if not isinstance(made, Samples):
        raise wrong(f"returns {kind(made)}, not Samples")
    wanted = {"x": (*shape, stream.taps), "clean": shape, "noise": shape}
    for key, size in wanted.items():
        array = getattr(made, key)
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
            raise wrong(f"gives {kind(array)} as {key}, not an array of real numbers")
        if array.shape != size:
            raise wrong(f"gives {key} the shape {list(array.shape)}, not {list(size)}")
    there = ~np.isnan(made.y) if name == "samples" else np.ones(shape, bool)
    if not np.isfinite(made.x[there]).all() or not np.isfinite(made.y[there]).all():
        raise wrong("gives NaN or infinity in a sample")
    return made
