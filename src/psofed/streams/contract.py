"""The contract of a stream: samples per client, in order, and a snapshot for testing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from psofed.core.native import Array
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.federation import plugins, schema
from psofed.federation.foreign import broken, kind
from psofed.federation.forms import Contract
from psofed.stages.attacks.contract import Attack

BLOCK = 256  # rounds in a block of samples, which is drawn as a function of its number
MALFORMED = "malformed"
# What an input measures, and so many rounds ago; None: it has few values, or is public.
Origin = tuple[str, int | None]


class SkippedError(InputError):
    """A row of a live stream that is not learned from, and of which kind it is."""

    def __init__(self, kind: str, field: str, found: str, right: str = "it is not used") -> None:
        super().__init__(field, found, right)
        self.kind = kind


@dataclass(frozen=True, eq=False)
class Samples:
    """Inputs x [..., L], the noise-free f(x) [...] and the noise; y = f(x) + noise, eq. (1)."""

    x: Array
    clean: Array
    noise: Array
    memory: Any = None  # what the stream needs to continue after these samples

    @property
    def y(self) -> Array:
        """Eq. (1): y = f(x) + nu."""
        return self.clean + self.noise


class Stream(Protocol):
    """Where samples come from. Its fields are the keys of the experiment's [stream] table.

    `samples` gives those of rounds first..stop-1 of `clients`; `first` is a multiple of BLOCK, and
    `memory` is that of the samples before (None at round 0), cut to the same clients. `snapshot`
    gives independent samples: of all clients, of which it takes evenly spread ones if there are
    more than samples, or of a list of clients, in turn. A stream that declares more derives from
    `StreamOptions`.
    """

    name: ClassVar[str]

    @property
    def independent(self) -> bool: ...  # whether the samples of a client are, over time

    @property
    def taps(self) -> int: ...

    def samples(
        self, seeds: Seeds, clients: Array, first: int, stop: int, dtype: Any, memory: Any = None
    ) -> Samples: ...

    def snapshot(self, seeds: Seeds, purpose: str, clients: int | Array, count: int) -> Samples: ...


class StreamOptions(schema.Named):
    """What a stream may declare beyond the contract, with the defaults.

    Where f changes over time, f_n = (1 - a_n) f + a_n later, and models are judged by f_n.
    """

    independent: ClassVar[bool] = False
    changes: ClassVar[bool] = False  # whether f does; it then has `later` and `blend`
    # Whether the noise-free values are unknown; it then has `live` and `recorded` samples.
    measured: ClassVar[bool] = False

    gaps: ClassVar[bool] = False  # whether a client may have no sample in a round: y is NaN there

    def presence(self) -> tuple[Array, Array, Array] | None:
        """By client its first round and the one after its last; by round, whether a client learns.

        None: all clients are there from the beginning to the end.
        """
        return None

    def check_rounds(self, rounds: int) -> None:
        """Refuse a number of rounds that the samples cannot serve."""

    def input_law(self, seeds: Seeds, clients: Array) -> tuple[Array, Array] | None:
        """Mean [K, L] and covariance [K, L, L] of Gaussian inputs: the theory then computes R_k."""
        return None

    def later(self, x: Array) -> Array | None:
        """What f changes into."""
        return None

    def blend(self, rounds: Array) -> Array:
        """a_n, how far f has changed at each of these rounds."""
        return np.zeros(len(rounds))

    def origins(self) -> list[Origin] | None:
        """Of each input; None: each sample has inputs of its own."""
        return None

    def clients_named(self) -> tuple[str, ...]:
        """The names of the clients, by number, if they are given."""
        return ()

    def restore(self, y: float) -> float:
        """A prediction in the units of the target."""
        return float(y)


_NOTHING = StreamOptions()


STREAM = Contract(
    "stream", "psofed.streams", StreamOptions, "", (Stream,), ("taps", "samples", "snapshot")
)


def about(stream: Stream) -> StreamOptions:
    """What a stream declares; the defaults if it is not derived from `StreamOptions`."""
    return stream if isinstance(stream, StreamOptions) else _NOTHING


def measured(stream: Stream) -> bool:
    """Whether the samples were measured: clients are given, and the noise is unknown."""
    return about(stream).measured


def origins(stream: Stream) -> list[Origin]:
    """Which measurement each input of a sample is."""
    declared = about(stream).origins()
    return [(f"x{i}", 0) for i in range(stream.taps)] if declared is None else declared


def copies(stream: Stream) -> int:
    """In how many samples one measurement is: as an input at each of its lags, or as a label.

    Whose lags begin above 0 are older labels.
    """
    lags: dict[str, list[int]] = {}
    for name, lag in origins(stream):
        if lag is not None:
            lags.setdefault(name, []).append(lag)
    return max((len(each) + (0 not in each) for each in lags.values()), default=1)


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
    bad = np.isin(clients, attack.attackers.ids)
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
