"""A quick fit of the example table."""

from psofed.methods import psofed
from psofed.streams.data import reading as tables
from psofed.streams.data.columns import Columns
from psofed.tables import example, fitting
from psofed.tables.plan import Plan

COLUMNS = Columns(
    target="pollutant", time=("time",), client="station", calendar=("hour", "weekday"),
    categorical=("wind_from",), lags=(1,), lags_of={"wind": (2,)}, target_lags=(12,),
    missing={"traffic": "indicator", "temperature": "skip"},
)  # fmt: skip


def fitted():
    table = tables.read(example.PATH, COLUMNS)
    methods = (psofed.Options(10),)
    plan = Plan(COLUMNS, label_delay=6, dim=40, width=2.0, step=0.4, methods=methods)
    return fitting.fit(table, plan)
