"""Epsilon of Gaussian noise, and the noise for an epsilon.

What is told about one sample, or about one client, is shifted by at most `ratio` times the noise
(see docs/privacy.md for why). Then the Gaussian mechanism is (epsilon, delta) private if and only
if delta is at least `delta_of`: B. Balle, Y.-X. Wang, "Improving the Gaussian mechanism for
differential privacy", ICML 2018 (arXiv 1805.06530). T tellings, each with a shift of r, are one
with r sqrt(T). Devices need this, so it is plain mathematics; what secret cohorts add,
dp-accounting says.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import erfc, exp, inf, log, log1p, pi, sqrt

from psofed.extras import need

FAR = 25.0  # beyond so many standard deviations a tail is computed by its logarithm
HALVINGS = 80


def delta_of(epsilon: float, ratio: float) -> float:
    """The least delta at this epsilon: Phi(r/2 - epsilon/r) - e^epsilon Phi(-r/2 - epsilon/r).

    >>> round(delta_of(1.0, 1.0), 4)
    0.1269
    """
    if ratio <= 0:
        return 0.0
    left, right = epsilon / ratio - ratio / 2, epsilon / ratio + ratio / 2
    return max(_tail(left) - exp(min(epsilon + _log_tail(right), 0.0)), 0.0)


def epsilon(ratio: float, delta: float) -> float:
    """The least epsilon at this delta.

    >>> round(epsilon(1.0, 1e-5), 3), round(epsilon(0.1 * 50**0.5, 1e-5), 3)
    (4.377, 2.943)
    """
    most = ratio**2 / 2 + ratio * sqrt(2 * log(1 / delta))  # where the tail alone is below delta
    if delta_of(0.0, ratio) <= delta:
        return 0.0
    return _upper(lambda found: delta_of(found, ratio) <= delta, 0.0, most)


def ratio(epsilon: float, delta: float) -> float:
    """The largest shift, in units of the noise, that this epsilon and delta allow.

    >>> round(ratio(4.0, 1e-5), 4)
    0.9249
    """
    most = 1.0
    while delta_of(epsilon, most) <= delta:
        most *= 2
    # The upper end of 1/r is the lower one of r: never more than is allowed.
    least = 1 / most
    while delta_of(epsilon, 1 / least) > delta:
        least *= 2
    return 1 / _upper(lambda found: delta_of(epsilon, 1 / found) <= delta, least / 2, least)


@lru_cache
def amplified(ratio: float, delta: float, share: float, times: int) -> float:
    """The epsilon of T tellings for who does not know which clients took part in which rounds.

    Every client is in a round with probability `share`, independently (Poisson): an approximation
    of a cohort of fixed size, which is what is drawn. Computed by dp-accounting.
    """
    dp = need("dp_accounting", "privacy", "amplified privacy")
    pld = need("dp_accounting.pld", "privacy", "amplified privacy")
    if ratio <= 0 or times < 1:
        return 0.0
    event = dp.GaussianDpEvent(1 / ratio)
    event = dp.PoissonSampledDpEvent(share, event) if share < 1 else event
    accountant = pld.PLDAccountant()
    accountant.compose(event, times)
    return float(accountant.get_epsilon(delta))


def _upper(good: Callable[[float], bool], low: float, high: float) -> float:
    """The least good number of low..high, where all above it are good: rounded up."""
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if good(middle) else (middle, high)
    return high


def _tail(x: float) -> float:
    """Phi(-x)."""
    return erfc(x / sqrt(2)) / 2


def _log_tail(x: float) -> float:
    """log Phi(-x), also where Phi(-x) is too small for a number."""
    if x < FAR:
        tail = _tail(x)
        return log(tail) if tail > 0 else -inf
    return -x * x / 2 - log(x) - log(2 * pi) / 2 + log1p(-1 / x**2 + 3 / x**4)
