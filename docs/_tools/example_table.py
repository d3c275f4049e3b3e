"""Writes the synthetic table that ships with psofed: `python docs/_tools/example_table.py FILE`.

Synthetic, not measured: eight made-up stations estimate a made-up pollutant from temperature, wind
and traffic. One station starts late, one stops early, one reports every second hour, one is unlike
the others, and some values are missing.
"""

from __future__ import annotations

import gzip
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from psofed.core.seeds import Seeds

HOURS = 1200
STATIONS = ("harbour", "market", "school", "park", "mill", "bridge", "hill", "quarry")
BEGIN = datetime(2024, 3, 1, tzinfo=UTC)


def main(target: str, seed: int = 0) -> None:
    """Write the table."""
    with open(target, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
        lines = [",".join(("time", "station", "temperature", "wind", "wind_from", "traffic",
                           "pollutant"))]  # fmt: skip
        lines += [",".join(row) for row in _rows(seed)]
        packed.write(("\n".join(lines) + "\n").encode())


def _rows(seed: int) -> list[list[str]]:
    series = [_station(seed, k) for k in range(len(STATIONS))]
    rows = []
    for n in range(HOURS):
        for k, name in enumerate(STATIONS):
            late, stopped = name == "bridge" and n < 400, name == "mill" and n > 1050
            if late or stopped or (name == "hill" and n % 2):
                continue
            rows.append([(BEGIN + timedelta(hours=n)).strftime("%Y-%m-%dT%H:%M"), name,
                         *series[k][n]])  # fmt: skip
    return rows


def _station(seed: int, k: int) -> list[list[str]]:
    """Temperature with a daily wave, AR(1) wind, traffic in two rush hours; the pollutant."""
    g = Seeds(seed).generator("example table", client=k)
    n = np.arange(HOURS)
    slow = _ar1(g.standard_normal(HOURS), 0.97)
    wind = np.abs(3 + 1.5 * _ar1(g.standard_normal(HOURS), 0.9))
    temperature = 10 + 0.008 * n + 5 * np.sin(2 * np.pi * (n % 24 - 9) / 24) + 2 * slow
    hour = n % 24
    rush = np.exp(-((hour - 8) ** 2) / 4) + np.exp(-((hour - 18) ** 2) / 6)
    traffic = 100 * (0.2 + rush) * (1 + 0.2 * g.standard_normal(HOURS)).clip(0.2)
    side = (np.floor((n + 40 * k) / 37) % 4).astype(int)
    sign = 0.3 if STATIONS[k] == "quarry" else 1.0  # a station for which sharing does not help
    signal = sign * 18 * np.tanh((temperature - 12) / 5) + 0.25 * traffic / (0.5 + wind)
    noise = 6 * g.standard_normal(HOURS)
    pollutant = 40 + signal + 4 * (side == 2) * wind + 2 * g.standard_normal() + noise
    gone = g.random((HOURS, 4)) < 0.02
    columns: list[Any] = [temperature, wind, traffic, pollutant]
    texts = [
        ["" if gone[i, j] else f"{c[i]:.1f}" for i in range(HOURS)] for j, c in enumerate(columns)
    ]
    t, w, tr, p = texts
    return [[t[i], w[i], "NESW"[side[i]], tr[i], p[i]] for i in range(HOURS)]


def _ar1(u: Any, theta: float) -> Any:
    out = np.empty_like(u)
    last = 0.0
    for i, value in enumerate(u):
        last = theta * last + np.sqrt(1 - theta**2) * value
        out[i] = last
    return out


if __name__ == "__main__":
    main(sys.argv[1])
