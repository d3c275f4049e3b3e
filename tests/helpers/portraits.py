"""A quick fit of the example table, with a portrait."""

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
INTERVALS = {
    "method": "PSO-Fed",
    "parts": ["all", "last", "Dec-Feb"],
    "shared": [{
        "level": 0.9, "constant_width": 20.0,
        "by_part": [
            {"part": "last", "coverage": 0.912, "lowest_client": 0.8, "highest_client": 0.95,
             "width": 21.5, "by_client": [0.8, 0.95, None, 0.9, 0.9, 0.9, 0.91, 0.92]},
            {"part": "Dec-Feb", "coverage": None, "lowest_client": None, "highest_client": None,
             "width": None, "by_client": []},
        ],
        "over_time": {"round": [100, 200, 300], "coverage": [0.85, 0.9, 0.93],
                      "width": [20.0, 21.0, 22.0]},
    }],
}  # fmt: skip


def fitted():
    table = tables.read(example.PATH, COLUMNS)
    methods = (psofed.Options(10),)
    plan = Plan(COLUMNS, label_delay=6, dim=40, width=2.0, step=0.4, methods=methods)
    return fitting.fit(table, plan)
