"""The file that advice writes, run and served: devices that feed it rows."""

import json
import re
import subprocess

import numpy as np
import pytest
import tomli_w

from helpers.devices import Team, wait_for
from helpers.small_tables import write_rows
from psofed.cli.laws import executors
from psofed.fleet.protocol import deployment as plans
from psofed.methods import psofed as pso
from psofed.streams.data import reading as tables
from psofed.tables import example, fitting
from psofed.tables import plan as fit_plans
from psofed.tables.plan import Plan

STATIONS = ("harbour", "mill", "quarry")


@pytest.fixture(scope="module")
def handed(tmp_path_factory):
    """The file for devices, as `psofed advise` writes it."""
    folder = tmp_path_factory.mktemp("handed")
    write_rows(folder / "t.csv", [row for row in example.rows() if row["station"] in STATIONS])
    table = tables.read(folder / "t.csv", example.COLUMNS)
    plan = Plan(example.COLUMNS, label_delay=6, dim=40, width=2.0, step=0.4, cohort=2,
                methods=(pso.Options(10),))  # fmt: skip
    span = fitting.spans(table, plan)
    made = plan.experiment(fitting.sampled(table, plan, span), span, folder / "t.csv")
    file = folder / "run.toml"
    file.write_text(fit_plans.RUN_HEAD + tomli_w.dumps(fit_plans.run_table(made, "float32")))
    return file


def test_the_file_is_served_and_devices_feed_it_rows(handed, start, tmp_path, broker):
    text = re.sub(r'file = ".*"', 'file = ""', handed.read_text())  # a device has no table
    file = tmp_path / "run.toml"
    file.write_text(text)
    team = Team(tmp_path, file, broker.url, ("--set", "every=0.05", "--set", "deadline=0.2"))
    devices, truth = {}, {}
    try:
        team.start("server")
        for name in ("harbour", "quarry"):
            devices[name] = _device(start, file, tmp_path, name, broker.url)
            truth[name] = _feed(devices[name], name)
        for name in devices:
            wait_for(lambda name=name: len(_answers(tmp_path, name)) == len(truth[name]), 120)
        wait_for(lambda: len(re.findall(r"[12] of 2 answered", team.log("server"))) >= 5, 120)
    finally:
        for device in devices.values():
            device.stdin.close()
            device.terminate()
            device.wait(30)
        team.stop()
    for name, wanted in truth.items():
        told = (tmp_path / f"{name}.err").read_text()
        assert f"Client {name} (" in told
        assert "skipped" not in told
        late = (np.array(wanted) - _answers(tmp_path, name))[-100:]
        assert np.mean(late**2) < np.var(wanted)  # in the units of the table


def _answers(folder, name):
    whole = (folder / f"{name}.out").read_text().rpartition("\n")[0]
    return np.array([json.loads(line)["y"] for line in whole.splitlines()])


def _device(start, file, folder, name, url):
    to = ("--state", folder / name, "--broker", url, "--stream", "-")
    with (folder / f"{name}.out").open("w") as out, (folder / f"{name}.err").open("w") as err:
        pipes = {"stdin": subprocess.PIPE, "stdout": out, "stderr": err}
        return start("deploy", "client", file, "--id", name, *to, **pipes)


def _feed(device, name, count=200):
    """Ask about each row, then tell its label; what the labels were."""
    rows = [r for r in example.rows() if r["station"] == name and r["pollutant"]][:count]
    for row in rows:
        question = {key: value for key, value in row.items() if key != "pollutant"}
        label = {"time": row["time"], "pollutant": float(row["pollutant"])}
        device.stdin.write(json.dumps(question) + "\n" + json.dumps(label) + "\n")
    device.stdin.flush()
    return [float(row["pollutant"]) for row in rows]


def test_a_recorded_file_is_replayed_in_lockstep_and_equals_the_simulation(
    handed, tmp_path, broker
):
    text = handed.read_text().replace('clock = "live"', 'clock = "lockstep"')
    text = re.sub(r"\nrounds = \d+", "\nrounds = 40", text)
    # Ticks of the warm-up, too; what comes after them judges.
    text = re.sub(r"\nfirst = \d+", "\nfirst = 0", text)
    text = re.sub(r"\nfrozen = \d+", "\nfrozen = 40", text)
    own = tmp_path / "mill.csv"  # the device's own log: without a column of the client
    mill = [row for row in example.rows() if row["station"] == "mill"]
    write_rows(own, [{k: v for k, v in row.items() if k != "station"} for row in mill])
    path = tmp_path / "run.toml"
    path.write_text(text)
    plan = plans.read(path)
    names = plan.experiment.stream.clients
    x, y = plan.experiment.stream.recorded(own, names.index("mill"))
    again = plan.experiment.stream.recorded(example.PATH, names.index("mill"))
    np.testing.assert_array_equal(x, again[0])
    np.testing.assert_array_equal(y, again[1])
    team = Team(tmp_path, path, broker.url)
    try:
        team.start("server", *range(len(names)))
        assert team.running["server"].wait(120) == 0, team.log("server")
    finally:
        team.stop()
    w, _ = executors.simulate(plan, 40)
    np.testing.assert_allclose(np.load(tmp_path / "server" / "model.npy"), w, atol=1e-6)
    assert "MSE" in team.log("server")
