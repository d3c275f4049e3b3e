"""The arrays that the kernel works on, by name: `family` prepares them, `kernel` reads them."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

Array = NDArray[Any]
WAVES, BUMPS, GIVEN = 0, 1, 2  # kinds of feature maps; given: x has the features themselves
PER_CLIENT, COMMON, FRESH = 0, 1, 2  # how the row of a window is found in its table


class Data(NamedTuple):
    """The samples of a chunk of rounds, and who is selected in them."""

    first: int  # the chunk's first round
    x: Array  # [client, round, tap]
    y: Array  # [client, round]
    start: Array  # the cohort of the chunk's i-th round is members[start[i]:start[i + 1]]
    members: Array
    again: Array  # [client]: selected in a later chunk, so it must be up to date at this one's end


class Map(NamedTuple):
    """The feature map: slope and offset in turns (waves), or centres and zeros (bumps)."""

    kind: int
    slope: Array  # [tap, feature]
    offset: Array  # [feature]
    scale: Array  # [feature]
    constant: Any  # waves: a quarter turn; bumps: 1 / (2 sigma^2)
    sine: tuple[Any, ...]  # times the scale


class Plans(NamedTuple):
    """The windows of each method: a table of positions, and how to find the row in it.

    Methods are worked on in pairs: there is an even number of them, and of those that are idle.
    """

    dim: int
    step: Array
    idle: int  # the first `idle` methods learn when they are not selected
    rows: Array  # PER_CLIENT, COMMON or FRESH
    shift: Array
    shared: Array
    first: Array  # where the table of method j begins in `table`
    table: Array
    dense: Array  # [method]: whether too many entries change to track them; always if M = D


class Models(NamedTuple):
    """What the recursion changes: global models [method, D] and local ones [client, method, D]."""

    w: Array
    local: Array
    position: Array  # the next sample of each client
    fit: Array  # [method, row]: the test set's outputs, see `Judge`


class Scratch(NamedTuple):
    """Working memory of the kernel."""

    z: Array  # [sample, feature]
    change: Array  # [method, feature]: the sum of eq. (11) so far
    stamp: Array  # [method, feature]: the last round in which the entry changed
    touched: Array  # [method, i]: the entries that changed in this round
    counts: Array  # [method]: how many
    every: Array  # 0, 1, ..., D - 1
    held: Array  # [i, method, feature]: models of the last marks, to be judged together
    fits: Array  # [i, row]: their test outputs


class Judge(NamedTuple):
    """The test error: mse = scale |factor^T w - target|^2 + rest, and when it is taken."""

    factor: Array  # [feature, row]
    triangular: bool  # factor[i, d] is zero for d > i
    target: Array  # [row]
    shift: Array  # [row]: how the target moves when f has changed
    shares: Array  # [mark]: how far it has
    scale: float
    rest: Array  # [mark]
    marks: Array  # the rounds n whose w_n is judged
    mse: Array  # [mark, method]: the result
    history: Array  # [mark, method, feature]: the models themselves, or nothing
