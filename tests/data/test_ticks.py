"""Rounds of time: by the calendar, in a unit of their own, and for clocks that are a little off."""

import numpy as np
import pytest

from helpers.extra import Extra
from helpers.small_tables import ALONE, LONG, samples
from psofed.errors import InputError
from psofed.streams.data import reading as tables
from psofed.streams.data.columns import Batch, Columns, Missing
from psofed.streams.data.times import Clock
from psofed.tables import fitting

pandas = Extra("pandas")


def dated(times, **columns):
    """A table whose input counts the rows."""
    n = np.arange(len(times))
    return tables.read(
        pandas.DataFrame({"t": times, "a": n % 5, "y": n}), Columns("y", ("t",), **columns)
    )


@pytest.mark.parametrize(
    ("freq", "tick"),
    [("MS", "1 month"), ("ME", "1 month"), ("BME", "1 month"), ("BMS", "1 month"),
     ("QS", "3 months"), ("2MS", "2 months"), ("YE", "12 months"), ("28D", "2.4192e+06 s"),
     ("30D", "2.592e+06 s"), ("W", "604800 s")],
)  # fmt: skip
def test_months_quarters_and_years_are_ticks_of_the_calendar(freq, tick):
    times = pandas.date_range("1990-01-01", periods=459, freq=freq)
    table = dated(times)
    assert str(table.ticks) == tick
    assert table.ticks(table.end).tolist() == [458]
    rounds, _ = samples(table)
    assert rounds.samples == 459


@pytest.mark.parametrize("form", ["%Y-%m", "%m/%Y", "%b %Y"])
def test_a_month_without_a_day_is_its_first_day(form):
    times = pandas.date_range("2000-01-01", periods=30, freq="MS")
    table = dated(times.strftime(form))
    assert (str(table.ticks), table.ticks.start) == ("1 month", times[0].timestamp())


def test_a_lag_of_twelve_months_is_the_same_month_a_year_ago():
    times = pandas.date_range("1980-01-31", periods=460, freq="ME").delete(100)
    unit = 12**0.5 * 1000  # the range of which the scale is 1000: nothing is clipped
    _, blocks = samples(dated(times, target_lags=(12,), ranges={"y": (0, unit), "a": (0, 1)}))
    ago, y = (
        np.concatenate([v[b.has[:, 0]] for b, v in some])
        for some in ([(b, b.x[:, 0, -1]) for b in blocks], [(b, b.y[:, 0]) for b in blocks])
    )
    month = np.delete(np.arange(12, 460), 100 - 12)
    apart = np.where((month > 100) & (month < 112), 11, 12)  # rows; one month lacks
    assert np.allclose(1000 * (y - ago), apart, atol=1e-3)


def test_numbers_have_no_day_unless_somebody_says_what_they_count():
    frame = pandas.DataFrame({"t": np.arange(200), "a": np.arange(200) % 7})
    frame["y"] = frame.a % 3
    plain = {"target": "y", "time": "t", "dim": 10, "width": 1.0, "step": 0.2, "compare": False}
    costs = {
        unit: fitting.fit_table(frame, **plain, tick_unit=unit).scores.rows(1.0)[0]
        for unit in (None, "h", "month")
    }
    per_day = {unit: row["bytes_per_device_and_day"] for unit, row in costs.items()}
    assert np.isnan(per_day[None])
    assert per_day["h"] == pytest.approx(24 * 30.436875 * per_day["month"])
    with pytest.raises(InputError, match="tick_unit is 'fortnight'; use s, min"):
        Columns("y", ("t",), tick_unit="fortnight")


def test_a_unit_of_the_tick_counts_for_dates_too():
    times = pandas.date_range("2024-01-01", periods=100, freq="D")
    assert dated(times, tick=2, tick_unit="day").rounds == 50 + 1
    assert dated(times, tick_unit="month").rounds == 4


@pytest.mark.parametrize("phase", [0, 300, 297])
def test_clocks_that_are_some_seconds_off_lose_no_rows(phase):
    """Two clients, one of which reports at other minutes; every tenth row is lacking."""
    g = np.random.default_rng(3)
    parts = []
    for k in range(2):
        n = np.flatnonzero(g.random(20_000) > 0.1)
        seconds = 600.0 * n + phase * k + g.integers(-4, 5, len(n)) + 4
        times = pandas.Timestamp("2024-01-01") + pandas.to_timedelta(seconds, unit="s")
        parts.append(pandas.DataFrame({"t": times, "who": f"n{k}", "a": n % 5, "y": n}))
    table = tables.read(pandas.concat(parts), LONG)
    assert str(table.ticks) == "600 s"
    rounds, _ = samples(table)
    assert rounds.drops.total == 0
    assert abs(table.rounds - 20_000) <= 1


def test_what_comes_without_any_rhythm_has_the_median_interval():
    times = np.cumsum(np.random.default_rng(0).exponential(size=300))
    frame = pandas.DataFrame({"t": times, "a": times % 3, "y": 1.0})
    assert tables.read(frame, ALONE).ticks.length == np.median(np.diff(times)[:256])


@pytest.mark.parametrize("days", [("2024-02-29", "2024-03-01"), (20240229, 20240301),
                                  ("29.02.2024", "01.03.2024")])  # fmt: skip
@pytest.mark.parametrize("hours", [(24, 1), ("24", "1"), ("24:00", "1:00")])
def test_an_hour_of_1_to_24_beside_a_date_is_when_it_ends(days, hours):
    read = Clock(("day", "hour"))
    found = read(Batch("", (2, 3), {"day": days, "hour": hours}), Missing(()))
    assert found.tolist() == [1709251200.0, 1709254800.0]


def test_quarters_and_other_periods_are_times():
    for freq, tick in ("Q", "3 months"), ("M", "1 month"), ("D", "86400 s"):
        time = pandas.period_range("1990-01", periods=80, freq=freq)
        for given in (time, time.astype(str), time.astype(str).str.replace("Q", "-Q")):
            table = dated(given)
            assert (str(table.ticks), table.rounds) == (tick, 80)
