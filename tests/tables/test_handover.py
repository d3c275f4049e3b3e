"""From advice to `psofed run`, `psofed deploy serve` and `psofed deploy client`: the same samples, one file."""

import gzip
import re
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
import tomli_w

from psofed import experiment as experiments
from psofed.cli.laws import executors
from psofed.compare import budget
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.federation.round import relays
from psofed.fleet.protocol import deployment as plans
from psofed.fleet.samples import MalformedError, NamedCells, Sample, lines, replay
from psofed.methods import fedavg, memofed, onlinefed, paofed
from psofed.methods import psofed as pso
from psofed.rivals import raw
from psofed.simulate import any_method, montecarlo
from psofed.simulate.draws import draw
from psofed.streams.data import reading as tables
from psofed.streams.data import recipe as recipes
from psofed.streams.data.columns import Columns
from psofed.streams.data.rounds import Rounds
from psofed.streams.table import Live
from psofed.tables import backtest, example, fitting
from psofed.tables import plan as fit_plans
from psofed.tables.plan import Plan, Span

COLUMNS = replace(
    example.COLUMNS, lags=(1,), lags_of={"wind": (3,)}, target_lags=(6, 24),
    missing={"traffic": "indicator", "wind": "skip"},
)  # fmt: skip

DELAY = 6


@pytest.fixture(scope="module")
def rounds():
    table = tables.read(example.PATH, COLUMNS)
    return Rounds(table, recipes.learn(table, 240), dtype=np.float64)


@pytest.fixture(scope="module")
def made(rounds):
    plan = Plan(COLUMNS, label_delay=DELAY, dim=50, width=2.0, step=0.4, methods=(pso.Options(10),))
    return plan.experiment(rounds, Span(240, 900, 1200), example.PATH)


def test_methods_are_fitted_to_a_budget_on_a_table_of_more_clients_than_two_cohorts(made):
    few = replace(made, cohort=2, runs=1, rounds=300, stream=replace(made.stream, frozen=300))
    assert few.clients > 2 * few.cohort
    assert budget.fit(few, pso.Options(10), 0.1).options.shared == few.features.dim // 10
    chosen = budget.fit(few, fedavg.Options(), 0.1)
    curves = montecarlo.run(replace(few, methods=(onlinefed.Options(), chosen.options)))
    assert curves.traffic_share(1, 0) == pytest.approx(chosen.cost.share)


def samples_of(rounds, k):
    """Ticks, x and y (NaN without a label) of one client, as a fit sees them."""
    ticks, xs, ys = [], [], []
    for block in rounds.blocks():
        i = np.flatnonzero(block.has[:, k])
        ticks.append(block.first + i)
        xs.append(block.x[i, k])
        ys.append(block.y[i, k])
    return np.concatenate(ticks), np.concatenate(xs), np.concatenate(ys)


def test_rows_that_come_one_by_one_are_the_samples_of_the_table(rounds):
    name = "harbour"
    k = rounds.table.clients.index(name)
    ticks, x, y = samples_of(rounds, k)
    wanted = {int(n): (a, b) for n, a, b in zip(ticks, x, y, strict=True)}
    live = Live(rounds.recipe, name)
    rows = [row for row in example.rows() if row["station"] == name][:500]
    late: list[tuple[dict[str, str], int]] = []
    asked, learned, refused = 0, 0, 0
    for row in rows:
        n = int(rounds.table.ticks(np.array(moment(row["time"]))))
        # What is known by now is told first, with nothing but the time and the target.
        while late and n - late[0][1] >= DELAY:
            label, then = late.pop(0)
            told = {key: label[key] for key in ("time", "pollutant")}
            if label["pollutant"] and then not in wanted:  # nothing to learn, but lags need it
                with pytest.raises(InputError, match="no question at that time"):
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
            with pytest.raises(InputError, match=r"missing value|without the older"):
                live(question)
            refused += 1
    assert asked == sum(t <= n for t in wanted)
    assert learned > 300
    assert refused > 5


def moment(text):
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
    assert live({"t": 5, "a": 9, "c": "s"})[0].tolist() == [4, 0, 1]  # another question, as asked
    assert live({"t": 5})[0].tolist() == [0, 0, 0]  # asked again: as it was known then
    x, y = live({"t": 5, "y": 10})
    assert (x.tolist(), y) == ([0, 0, 0], 0)
    for row in ({"t": 5, "y": 10}, {"t": 4, "a": 1, "y": 1}, {"t": 4, "a": 1}):
        with pytest.raises(InputError, match="the time"):
            live(row)


def test_lines_are_json_by_column_or_csv_after_their_names(live):
    text = ["t,a,c,y", "1,3,n,20", '{"t": 2, "a": 5, "c": "s"}', "3,1", "[", '{"t": 2,', "4,x,n,1"]
    found = list(lines(text, NamedCells(live)))
    assert [type(f) for f in found] == [Sample] * 2 + [MalformedError] * 4
    assert (found[0].x.tolist(), found[0].y) == ([1, 1, 0], 2)
    assert found[1].y is None
    assert "line 4: 2 cells instead of 4" in str(found[2])


def test_round_n_is_the_tick_in_which_a_label_becomes_known_and_the_last_part_judges(rounds, made):
    stream = made.stream
    assert made.rounds == 900
    everybody = np.arange(made.clients)
    found = stream.samples(Seeds(0), everybody, 0, made.rounds, np.float64)
    judged = stream.snapshot(Seeds(0), "test", made.clients, 4000)
    last = []
    for k, name in enumerate(stream.clients):
        ticks, x, y = samples_of(rounds, rounds.table.clients.index(name))
        known = ticks + DELAY
        learned = ~np.isnan(y) & (known >= 240) & (known < 900)
        assert learned.any()
        np.testing.assert_array_equal(np.flatnonzero(~np.isnan(found.y[k])), known[learned])
        np.testing.assert_array_equal(found.x[k, known[learned]], x[learned])
        np.testing.assert_array_equal(found.y[k, known[learned]], y[learned])
        last.append({float(v) for v in y[~np.isnan(y) & (ticks >= 900)]})
    assert {float(v) for v in judged.clean} == set().union(*last)
    source = replay(made, 3)
    x, y = source(245, 540)
    np.testing.assert_array_equal(y, found.y[3, 245:540].astype(np.float32))


def test_the_file_gives_back_the_experiment_and_each_mistake_in_it_is_named(made, tmp_path):
    path = tmp_path / "run.toml"
    text = tomli_w.dumps(fit_plans.run_table(made, "float16"))
    path.write_text(text)
    plan = plans.read(path)
    assert plan.experiment == made
    assert (plan.deploy.clock, plan.deploy.wire) == ("live", "float16")
    moved = replace(made, stream=replace(made.stream, file="elsewhere.csv"))
    assert plans.Deployment(moved, plan.deploy).digest == plan.digest
    for old, new, found in (
        ("clients = 8", "clients = 9", "clients is 9, but the stream has 8"),
        ("first = 240", "first = 900", "stream.first and frozen are 900 and 900"),
        ("label_delay = 6", "label_delay = 7", "target_lags has 6, but labels come 7 ticks late"),
        ("wind_from = [\n", "wind_form = [\n", "stream.column 'wind_from' has no scaling"),
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
    with pytest.raises(InputError, match=r"other.csv: has no client 'bridge'"):
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
        rounds = Rounds(table, recipes.learn(table, 20))
        plan = Plan(columns, dim=10, width=1.0, step=0.5, cohort=1)
        made = plan.experiment(rounds, Span(20, 60, 80), source)
        assert made.stream.clients == ("p", "q")
        assert made.rounds == 60
        found = made.stream.samples(Seeds(0), np.arange(2), 0, 60, np.float64)
        assert np.isnan(found.y[:, :20]).all()
        real = rounds.recipe.restore(found.y[:, 20:])
        np.testing.assert_allclose(real, values[20:60, :, 1].T, rtol=1e-9, atol=1e-9)
        everything = made.stream.recorded(source, 1)[1]
        np.testing.assert_allclose(rounds.recipe.restore(everything), values[:, 1, 1], atol=1e-9)


def test_a_station_that_joined_later_brings_its_own_rows_under_any_name(made, tmp_path):
    path = tmp_path / "all.csv"
    header, *rows = gzip.decompress(example.PATH.read_bytes()).decode().splitlines()
    path.write_text("\n".join([header, *rows]))
    with pytest.raises(InputError, match="client 8 has no name in the table"):
        made.stream.recorded(path, 8)
    market = [row for row in rows if ",market," in row]
    path.write_text("\n".join([header, *(row.replace(",market,", ",attic,") for row in market)]))
    x, y = made.stream.recorded(path, 8)
    path.write_text("\n".join([header, *market]))
    same, labels = made.stream.recorded(path, made.stream.clients.index("market"))
    assert np.array_equal(x, same)
    assert np.array_equal(y, labels)
    assert made.stream.live(8).name is None  # rows of any name are its own


def test_a_client_that_is_not_in_the_table_is_told_who_is(made, psofed, tmp_path):
    (tmp_path / "run.toml").write_text(tomli_w.dumps(fit_plans.run_table(made, "float32")))
    asked = ("--state", "s", "--broker", "mqtt://127.0.0.1:1", "--stream", "-")
    for who in ("mil", "-1"):
        result = psofed("deploy", "client", "run.toml", f"--id={who}", *asked)
        assert result.returncode == 2
        assert "use 0 to 7, or a name: bridge, harbour" in result.stderr.strip().splitlines()[-1]


def simulated(made):
    """The models that a run of the first method ends with: the server's, and the clients' own."""
    task = made.task(0)
    method, draws = made.start(task)[0], draw(made, task, everybody=True)
    if not relays(method):
        return executors.simulate(plans.Deployment(made, plans.Deploy(method=0)), made.rounds)
    *_, last = any_method.play(method, any_method.RunSamples(draws))
    return method.models(last.server, last.clients), None


FITTED = [
    pso.Options(4), pso.Options(4, average=True), onlinefed.Options(), fedavg.Options(local_steps=3),
    paofed.Options(shared=5, delay=0.5), raw.Options(), memofed.Options(size=8, budget=40.0),
]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "delay"), [*((options, 3) for options in FITTED), (FITTED[0], 0)]
)
def test_a_fit_and_a_run_of_its_file_end_with_the_same_models(tmp_path, options, delay):
    """With gaps, silent ticks, a client that comes late, one that stops, and one without labels."""
    g = np.random.default_rng(0)
    path = tmp_path / "made.csv"
    x = g.uniform(-1, 1, (90, 6, 2))
    y = np.sin(2 * x[..., 0]) + x[..., 1]
    there = g.uniform(size=(90, 6)) < 0.7
    there[40:44] = False
    there[46:49] = there[50:53] = False  # of blocks the beginning, or the end
    there[:30, 2] = there[50:, 3] = False
    there[[0, 89], 0] = True
    label = g.uniform(size=(90, 6)) < 0.8
    label[:, 5] = False
    cells = [
        f"{n},c{k},{x[n, k, 0]:.17g},{x[n, k, 1]:.17g},{y[n, k] if label[n, k] else ''}"
        for n, k in zip(*np.nonzero(there), strict=True)
    ]
    path.write_text("\n".join(["t,who,a,b,y", *cells]))
    ranges = {"a": (-1.0, 1.0), "b": (-1.0, 1.0), "y": (-2.0, 2.0)}
    columns = Columns("y", ("t",), "who", ranges=ranges)
    plan = Plan(columns, label_delay=delay, warmup=0.1, frozen=0.25, dim=20, width=1.0, step=0.5,
                cohort=3, seed=3, methods=(options,), compare=False)  # fmt: skip
    table = tables.read(path, columns)
    rounds = Rounds(table, recipes.learn(table, 9))
    span = fitting.spans(table, plan)
    _, player, *_ = contenders = fitting.line_up(rounds, plan, span.first)
    backtest.run(rounds, contenders, delay, span)
    made = plan.experiment(rounds, span, path)
    frozen = player.frozen["frozen"]
    shared, own = frozen["global"], frozen.get("own")
    w, local = simulated(made)
    assert np.abs(shared).max() > 0.05
    np.testing.assert_allclose(w, shared, atol=1e-5)
    if own is not None:
        np.testing.assert_allclose(local, own, atol=1e-5)
