"""What the compiled engine works on, by name: `family` prepares it, native/job.h reads it.

The fields are those of the C structs of the same names, in the same order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

Array = NDArray[Any]
WAVES, BUMPS, GIVEN = 0, 1, 2  # kinds of feature maps; given: x has the features themselves
PER_CLIENT, COMMON, FRESH = 0, 1, 2  # how the row of a window is found in its table
PAD, LEAST = 8, 16  # features are padded to a multiple of this, and to so many at least
BLOCK = 16  # samples whose features are computed at once: they stay in the first-level cache
MANY = 16  # a window of more entries is a mask
COLUMNS, SAMPLES = 12, 128  # of the test set: those whose products are added up at once
HOLD = 16  # models that are judged together


class Data(NamedTuple):
    """The samples of a chunk of rounds, and who is selected in them."""

    first: int  # the chunk's first round
    clients: int
    rounds: int
    x: Array  # [client, round, input]: also windows of a series, which overlap
    x_strides: Array  # in numbers
    y: Array  # [client, round]
    start: Array  # the cohort of the chunk's i-th round is members[start[i]:start[i + 1]]
    members: Array
    again: Array  # [client]: selected in a later chunk, so it must be up to date at this one's end


class Map(NamedTuple):
    """The feature map: slope and offset in turns (waves), or centres and zeros (bumps)."""

    kind: int
    taps: int
    size: int  # entries of a model, padded
    slope: Array  # [tap, feature]
    offset: Array  # [feature]
    scale: Array  # [feature]
    constant: float  # of bumps: 1 / (2 sigma^2)
    sine: Array  # of waves: the polynomial, times the scale
    wide: int  # features before the basis, padded; without one, `size`
    turned: int  # whether there is a basis
    basis: Array  # [wide, size]: T


class Plans(NamedTuple):
    """The windows of each method: a table of positions, and how to find the row in it."""

    dim: int
    methods: int
    idle: int  # the first `idle` methods learn when they are not selected
    step: Array  # [method], and three more that are not used
    rows: Array  # PER_CLIENT, COMMON or FRESH
    shift: Array
    shared: Array
    first: Array  # where the table of method j begins in `table`
    table: Array
    dense: Array  # [method]: whether too many entries change to track them; always if M = D
    averaged: Array  # [method]: whether the average of its models is judged
    masked: Array  # [method]: where its masks begin, or -1 if it has none
    masks: Array  # rows of `length`: the window at n = 0 twice, -1 inside and 0 outside
    length: int
    epsilon: float  # of normalised LMS; 0: LMS


class Models(NamedTuple):
    """What the recursion changes: global models [method, D] and local ones [client, method, D]."""

    w: Array
    local: Array
    position: Array  # the next sample of each client
    fit: Array  # [method, row]: the test set's outputs, see `Judge`
    average: Array  # [method, feature]: weighted means of the global models


class Judge(NamedTuple):
    """The test error: mse = scale |factor^T w - target|^2 + rest, and when it is taken."""

    rows: int
    triangular: int  # factor[i, d] is zero for d > i
    last: int  # how many marks
    factor: Array  # [feature, row]
    target: Array  # [row]
    shift: Array  # [row]: how the target moves when f has changed
    shares: Array  # [mark]: how far it has
    scale: float
    rest: Array  # [mark]
    marks: Array  # the rounds n whose w_n is judged
    mse: Array  # [mark, method]: the result
    keep: int
    history: Array  # [mark, method, feature]: the models themselves, if they are kept


class Scratch(NamedTuple):
    """Working memory of the engine."""

    z: Array  # [sample, feature]
    change: Array  # [method, feature]: the sum of eq. (11) so far
    stamp: Array  # [method, feature]: the last round in which the entry changed
    touched: Array  # [method, i]: the entries that changed in this round
    counts: Array  # [method]: how many
    every: Array  # 0, 1, ..., D - 1
    held: Array  # [i, feature]: models of the last marks, to be judged together
    owner: Array  # [i, 2]: mark and method of each
    fits: Array  # [i, row]: the test outputs of some of them
    shift: Array  # [2, method]: how far the windows of a round have moved, down and up


class Liars(NamedTuple):
    """Malicious members: v = own w_k + server w + mean m + spread s + offset."""

    rows: int  # malicious uploads in this chunk; without an attack 0
    own: float
    server: float
    mean: float
    spread: float
    at: Array  # [member]: its row of offsets; -1: it is honest
    offset: Array  # [row, feature]
    sent: Array  # [member, method, feature]: what they send
    middle: Array  # [method, feature]: m
    around: Array  # [method, feature]: s


class Clip(NamedTuple):
    """The defence "clip": its state, and room to work in; see defences/clip.py."""

    on: int
    clients: int  # K
    rows: int  # of them, those that are ever selected
    often: int  # uploads from one review to the next
    directions: int  # R
    clip: float
    floor: float
    ring: Array  # [method, 64]
    scale: Array  # [method], as the next three
    least: Array
    usual: Array
    uploads: Array
    waiting: Array  # [method]
    contacts: Array  # [method, client]
    size: Array  # [method, client]
    weight: Array  # [method, client]
    latest: Array  # [method, client]
    memory: Array  # [client, method, feature]
    V: Array  # [method, direction, feature]
    changes: Array  # [member, feature]: room, as all that follows
    G: Array  # [direction, feature]
    at: Array  # [member, feature]
    models: Array  # [member]: addresses
    sizes: Array  # [member]
    values: Array  # [client], as the next three
    some: Array
    away: Array
    left_over: Array
    along: Array  # [direction, client]


class Job(NamedTuple):
    """All of it."""

    data: Data
    map: Map
    plans: Plans
    models: Models
    judge: Judge
    pad: Scratch
    liars: Liars
    guard: Clip
