"""From advice to `psofed run`, `psofed serve` and `psofed client`: the same samples, one file."""

import csv
import json
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from devices import ENV, Team, free_port, listening, wait_for
from psofed import experiment as experiments
from psofed.core.seeds import Seeds
from psofed.deploy import plan as plans
from psofed.deploy.sources import MalformedError, Named, Sample, lines, replay
from psofed.errors import InputError
from psofed.methods import psofed as pso
from psofed.report import twin
from psofed.rows import recipe as recipes
from psofed.rows import table as tables
from psofed.rows import warmup
from psofed.rows.columns import Columns
from psofed.rows.live import Live
from psofed.rows.rounds import Rounds
from psofed.streams import table as streams
from psofed.tables import example, fit, handover
from psofed.tables.federate import Span
from psofed.tables.plan import Plan

COLUMNS = replace(
    example.COLUMNS, lags=(1,), lags_of={"wind": (3,)}, target_lags=(6, 24),
    missing={"traffic": "indicator", "wind": "skip"},
)  # fmt: skip
DELAY = 6


@pytest.fixture(scope="module")
def rounds():
    table = tables.read(example.path(), COLUMNS)
    return Rounds(table, warmup.learn(table, 240), dtype=np.float64)


@pytest.fixture(scope="module")
def made(rounds):
    plan = Plan(COLUMNS, label_delay=DELAY, dim=50, width=2.0, step=0.4, methods=(pso.Options(10),))
    return handover.experiment(rounds, plan, Span(240, 900, 1200), example.path())[0]


def samples_of(rounds, k):
    """Ticks, x and y (NaN without a label) of one client, as a fit sees them."""
    ticks, xs, ys = [], [], []
    for block in rounds.blocks():
        i = np.flatnonzero(block.has[:, k])
        ticks.append(block.first + i)
        xs.append(block.x[i, k])
        ys.append(block.y[i, k])
    return np.concatenate(ticks), np.concatenate(xs), np.concatenate(ys)


@pytest.mark.parametrize("name", ["harbour", "hill", "bridge"])
def test_rows_that_come_one_by_one_are_the_samples_of_the_table(rounds, name):
    k = rounds.table.clients.index(name)
    ticks, x, y = samples_of(rounds, k)
    wanted = {int(n): (a, b) for n, a, b in zip(ticks, x, y, strict=True)}
    live = Live(recipes.of(rounds.table, rounds.encoder), name)
    rows = [row for row in example.rows() if row["station"] == name]
    late: list[tuple[dict[str, str], int]] = []
    asked = learned = 0
    for row in rows:
        n = int(rounds.table.ticks(np.array(moment(row["time"]))))
        # What is known by now is told first, with nothing but the time and the target.
        while late and n - late[0][1] >= DELAY:
            label, then = late.pop(0)
            told = {key: label[key] for key in ("time", "pollutant")}
            if label["pollutant"] and then not in wanted:  # nothing to learn, but lags need it
                with pytest.raises(InputError, match="no question waits"):
                    live(told)
            elif label["pollutant"]:
                found, value = live(told)
                np.testing.assert_allclose(found, wanted[then][0], rtol=1e-12, atol=1e-12)
                assert value == pytest.approx(wanted[then][1], rel=1e-12)
                learned += 1
        late.append((row, n))
        question = {key: value for key, value in row.items() if key != "pollutant"}
        if n in wanted:
            np.testing.assert_allclose(live(question)[0], wanted[n][0], rtol=1e-12, atol=1e-12)
            asked += 1
        else:
            with pytest.raises(InputError, match=r"missing value|without the past"):
                live(question)
    assert asked == len(wanted)
    assert learned > 400


def moment(text):
    from datetime import UTC, datetime

    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.fixture
def live():
    columns = Columns("y", ("t",), "who", inputs=("a", "c"))
    scaling = {"a": (1.0, 2.0), "y": (10.0, 5.0)}
    return Live(recipes.Recipe(columns, scaling, {"c": ("n", "s")}), "p")


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ({"a": 1}, "column 't' is missing"),
        ({"t": "", "a": 1}, "the time is empty"),
        ({"t": 1, "a": "x"}, "column 'a' is 'x', not a number"),
        ({"t": "noon", "a": 1}, "column 't' is 'noon'"),
        ({"t": 1, "a": 1, "who": "q"}, "this is client 'p'"),
        ({"t": 1, "a": 1e40}, "column 'a' is 1e\\+40"),
        ({"t": 1, "c": "n"}, "missing value"),
    ],
)
def test_a_row_that_cannot_be_used_says_why_and_the_next_one_is(live, row, found):
    with pytest.raises(InputError, match=found):
        live(row)
    x, y = live({"t": 2, "a": 5, "c": " s", "who": "p", "y": 20, "more": "ignored"})
    assert x.tolist() == [2, 0, 1]
    assert y == 2


def test_a_label_may_come_late_but_only_once_and_time_does_not_go_back(live):
    assert live({"t": 5, "a": 1, "c": "?"})[0].tolist() == [0, 0, 0]
    assert live({"t": 5, "a": 9})[0].tolist() == [0, 0, 0]  # asked again: as it was known then
    assert live({"t": 5, "y": 10})[1] == 0
    for row in ({"t": 5, "y": 10}, {"t": 4, "a": 1, "y": 1}, {"t": 4, "a": 1}):
        with pytest.raises(InputError, match="the time"):
            live(row)


def test_lines_are_json_by_column_or_csv_after_their_names(live):
    text = ["t,a,c,y", "1,3,n,20", '{"t": 2, "a": 5, "c": "s"}', "3,1", "[", '{"t": 2,', "4,x,n,1"]
    found = list(lines(text, Named(live)))
    assert [type(f) for f in found] == [Sample] * 2 + [MalformedError] * 4
    assert (found[0].x.tolist(), found[0].y) == ([1, 1, 0], 2)
    assert found[1].y is None
    assert "line 4: 2 cells came, 4 are wanted" in str(found[2])
    assert "column 'a' is 'x', not a number" in str(found[-1])


def test_a_client_learns_its_labelled_rows_in_order_and_the_last_part_judges(rounds, made):
    stream = made.stream
    everybody = np.arange(made.clients)
    found = stream.samples(Seeds(0), everybody, 0, made.rounds, np.float64)
    judged = stream.snapshot(Seeds(0), "test", made.clients, 4000)
    last = []
    for k, name in enumerate(stream.clients):
        ticks, x, y = samples_of(rounds, rounds.table.clients.index(name))
        learned = ~np.isnan(y) & (ticks >= 240) & (ticks < 900)
        count = int(learned.sum())
        np.testing.assert_array_equal(found.x[k, :count], x[learned])
        np.testing.assert_array_equal(found.y[k, :count], y[learned])
        # Who has fewer labels than there are rounds begins again.
        np.testing.assert_array_equal(found.y[k], np.resize(y[learned], made.rounds))
        last.append({float(v) for v in y[~np.isnan(y) & (ticks >= 900)]})
    assert {float(v) for v in judged.clean} == set().union(*last)
    source = replay(made, 3)
    x, y = source(5, 300)
    np.testing.assert_array_equal(y, found.y[3, 5:300].astype(np.float32))


def test_the_file_gives_back_the_experiment_and_each_mistake_in_it_is_named(made, tmp_path):
    path = tmp_path / "run.toml"
    text = handover.to_toml(made, "float16")
    path.write_text(text)
    plan = plans.read(path)
    assert plan.experiment == made
    assert (plan.deploy.clock, plan.deploy.wire) == ("live", "float16")
    moved = replace(made, stream=replace(made.stream, file="elsewhere.csv"))
    assert plans.Plan(moved, plan.deploy).digest == plan.digest
    for old, new, found in (
        ("clients = 8", "clients = 9", "clients is 9, but the stream has 8"),
        ("tick = 3600.0", "tick = 0.0", "stream.tick is 0.0"),
        ("calendar = true", 'calendar = "yes"', "stream.calendar is 'yes', a text"),
        ("first = 240", "first = 900", "stream.first and frozen are 900 and 900"),
        ("label_delay = 6", "label_delay = 7", "target_lags has 6, but labels come 7 ticks late"),
        ("wind_from = [\n", "wind_form = [\n", "stream.column 'wind_from' has no scaling"),
        ("[stream.scaling]", "[stream.scales]", "stream.scales is not a known key"),
        ('target = "pollutant"\n', "", "stream.columns.target is missing"),
    ):
        assert old in text
        path.write_text(text.replace(old, new, 1))
        with pytest.raises(InputError, match=re.escape(found)):
            experiments.read(path)


def test_a_file_of_others_or_without_labels_is_refused_by_name(made, tmp_path):
    stream = made.stream
    other = tmp_path / "other.csv"
    other.write_text("time,station,temperature,wind,wind_from,traffic,pollutant\n"
                     "2024-05-01T00:00,mill,1,1,N,1,\n")  # fmt: skip
    with pytest.raises(InputError, match=r"other.csv: has no row of 'mill' with a label"):
        stream.recorded(other, stream.clients.index("mill"))
    with pytest.raises(InputError, match=r"other.csv: has no client 'harbour'"):
        replace(stream, file=str(other)).samples(Seeds(0), np.arange(1), 0, 1)
    with pytest.raises(InputError, match=r"stream.file is missing"):
        replace(stream, file="").samples(Seeds(0), np.arange(1), 0, 1)


def test_wide_tables_and_folders_become_streams_too(tmp_path):
    g = np.random.default_rng(0)
    values = g.uniform(-1, 1, (80, 2, 2)).round(4)
    folder = tmp_path / "folder"
    folder.mkdir()
    for k, name in enumerate("pq"):
        rows = [
            f"2026,1,{1 + n // 24},{n % 24},{values[n, k, 0]},{values[n, k, 1]}" for n in range(80)
        ]
        (folder / f"{name}.csv").write_text("\n".join(["year,month,day,hour,a,y", *rows]))
    wide = tmp_path / "wide.csv"
    rows = [f"{n},{','.join(map(str, values[n].ravel()))}" for n in range(80)]
    wide.write_text("\n".join(["t,p.a,p.y,q.a,q.y", *rows]))
    times = ("year", "month", "day", "hour")
    for source, columns in (
        (folder, Columns("y", times, inputs=("a",))),
        (wide, Columns("y", ("t",), wide=".", inputs=("a",))),
    ):
        table = tables.read(source, columns)
        rounds = Rounds(table, warmup.learn(table, 20))
        plan = Plan(columns, dim=10, width=1.0, step=0.5, cohort=1)
        made = handover.experiment(rounds, plan, Span(20, 60, 80), source)[0]
        assert made.stream.clients == ("p", "q")
        assert made.rounds == 40
        found = made.stream.samples(Seeds(0), np.arange(2), 0, 40, np.float64)
        real = rounds.encoder.restore(found.y)
        np.testing.assert_allclose(real, values[20:60, :, 1].T, rtol=1e-9, atol=1e-9)
        everything = made.stream.recorded(source, 1)[1]
        np.testing.assert_allclose(rounds.encoder.restore(everything), values[:, 1, 1], atol=1e-9)
    own = replace(
        made.stream, columns=Columns("y", times, inputs=("a",)), calendar=True, tick=3600.0
    )
    assert len(own.recorded(folder / "q.csv", 1)[1]) == 80


@pytest.mark.parametrize("who", ["mil", "8", "-1"])
def test_a_client_that_is_not_in_the_table_is_told_who_is(made, psofed, tmp_path, who):
    (tmp_path / "run.toml").write_text(handover.to_toml(made, "float32"))
    asked = ("--state", "s", "--broker", "mqtt://127.0.0.1:1", "--stream", "-")
    result = psofed("client", "run.toml", f"--id={who}", *asked)
    assert result.returncode == 2
    assert "use 0 to 7, or a name: harbour, market" in result.stderr.strip().splitlines()[-1]


def test_a_fit_without_gaps_and_a_run_of_its_file_end_with_the_same_model(tmp_path):
    g = np.random.default_rng(0)
    path = tmp_path / "made.csv"
    x = g.uniform(-1, 1, (60, 5, 2))
    y = np.sin(2 * x[..., 0]) + x[..., 1]
    cells = [
        f"{n},c{k},{x[n, k, 0]:.17g},{x[n, k, 1]:.17g},{y[n, k]:.17g}"
        for n in range(60)
        for k in range(5)
    ]
    path.write_text("\n".join(["t,who,a,b,y", *cells]))
    ranges = {"a": (-1.0, 1.0), "b": (-1.0, 1.0), "y": (-2.0, 2.0)}
    columns = Columns("y", ("t",), "who", ranges=ranges)
    plan = Plan(columns, warmup=0, frozen=0.25, dim=20, width=1.0, step=0.5, cohort=2, seed=3,
                methods=(pso.Options(4),))  # fmt: skip
    table = tables.read(path, columns)
    done = fit.fit(table, plan, compare=False)
    whole = handover.experiment(Rounds(table, done.encoder), plan, done.span, path)[0]
    learn_all = replace(whole, rounds=60, stream=replace(whole.stream, frozen=60))
    object.__setattr__(learn_all.stream, "_parts", _without_a_last_part(learn_all.stream))
    deployed = plans.Plan(learn_all, plans.Deploy(method=0))
    w, own = twin.simulate(deployed, 60)
    np.testing.assert_allclose(w, done.shared, atol=1e-5)
    np.testing.assert_allclose(own, done.own, atol=1e-5)


def _without_a_last_part(stream):
    parts = streams._read(stream.recipe, stream.file)
    learned = [parts[name][1:] for name in stream.clients]
    return learned, learned


@pytest.fixture(scope="module")
def advised(tmp_path_factory):
    folder = tmp_path_factory.mktemp("advised")
    asked = ("--example", "--dim", 40, "--width", 2, "--step", 0.4, "--payload", 51, "--out", "a")
    command = [sys.executable, "-m", "psofed", "advise", *map(str, asked)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=ENV, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "run.toml: psofed run, psofed serve, psofed client" in done.stdout
    return folder / "a" / "run.toml"


def test_advice_is_run_as_it_is(advised, psofed):
    result = psofed("run", advised, "--runs", 2, "--json", "--out", "r")
    assert result.returncode == 0, result.stderr
    methods = json.loads(result.stdout)["methods"]
    recommended = json.loads((advised.parent / "advice.json").read_text())["recommended"]
    assert [m["method"] for m in methods] == [recommended["method"], "Online-Fed"]
    # Errors of the shared model over the target's variance in the warm-up; here it is the same.
    assert -10 < methods[0]["mse_db"]["steady"]["value"] < -1


def test_advice_is_served_and_devices_feed_it_rows(advised, tmp_path):
    text = re.sub(r"cohort = \d+", "cohort = 2", advised.read_text())
    text = re.sub(r'file = ".*"', 'file = ""', text)  # a device has no table
    file, port = tmp_path / "run.toml", free_port()
    file.write_text(text)
    url = f"mqtt://127.0.0.1:{port}"
    serve = ("--listen", f"127.0.0.1:{port}", "--every", "0.05", "--deadline", "0.2")
    team = Team(tmp_path, file, "", serve)
    devices, truth = {}, {}
    try:
        team.start("server")
        wait_for(lambda: listening(port), 60)
        for name in ("harbour", "quarry"):
            devices[name] = _device(file, tmp_path, name, url)
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
        assert f"({name}) of run p" in told
        assert "skipped" not in told
        late = (np.array(wanted) - _answers(tmp_path, name))[-100:]
        assert np.mean(late**2) < np.var(wanted)  # in the units of the table


def _answers(folder, name):
    whole = (folder / f"{name}.out").read_text().rpartition("\n")[0]
    return np.array([json.loads(line)["y"] for line in whole.splitlines()])


def _device(file, folder, name, url):
    command = [sys.executable, "-m", "psofed", "client", file, "--id", name, "--state",
               folder / name, "--broker", url, "--stream", "-"]  # fmt: skip
    with (folder / f"{name}.out").open("w") as out, (folder / f"{name}.err").open("w") as err:
        return subprocess.Popen(
            list(map(str, command)), stdin=subprocess.PIPE, stdout=out, stderr=err, text=True,
            env=ENV,
        )  # fmt: skip


def _feed(device, name, count=400):
    """Ask about each row, then tell its label; what the labels were."""
    rows = [r for r in example.rows() if r["station"] == name and r["pollutant"]][:count]
    for row in rows:
        question = {key: value for key, value in row.items() if key != "pollutant"}
        label = {"time": row["time"], "pollutant": float(row["pollutant"])}
        device.stdin.write(json.dumps(question) + "\n" + json.dumps(label) + "\n")
    device.stdin.flush()
    return [float(row["pollutant"]) for row in rows]


def test_a_recorded_file_is_replayed_in_lockstep_and_equals_the_simulation(advised, tmp_path):
    text = advised.read_text().replace('clock = "live"', 'clock = "lockstep"')
    text = re.sub(r"\nrounds = \d+", "\nrounds = 12", text)
    own = tmp_path / "mill.csv"  # the device's own log: without a column of the client
    with open(own, "w", encoding="utf-8", newline="") as file:
        rows = [{k: v for k, v in r.items() if k != "station"} for r in example.rows()
                if r["station"] == "mill"]  # fmt: skip
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    path = tmp_path / "run.toml"
    path.write_text(text)
    plan = plans.read(path)
    names = plan.experiment.stream.clients
    x, y = plan.experiment.stream.recorded(own, names.index("mill"))
    again = plan.experiment.stream.recorded(example.path(), names.index("mill"))
    np.testing.assert_array_equal(x, again[0])
    np.testing.assert_array_equal(y, again[1])
    port = free_port()
    team = Team(tmp_path, path, "", ("--listen", f"127.0.0.1:{port}"))
    try:
        team.start("server")
        wait_for(lambda: listening(port))
        team.url = f"mqtt://127.0.0.1:{port}"
        for k in range(len(names)):
            team.start(k)
        assert team.running["server"].wait(120) == 0, team.log("server")
    finally:
        team.stop()
    w, _ = twin.simulate(plan, 12)
    np.testing.assert_allclose(np.load(tmp_path / "server" / "model.npy"), w, atol=1e-6)
    assert "MSE" in team.log("server")
