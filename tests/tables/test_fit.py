"""A federation over a table: honest, the same as the other executors, saved and used again."""

from dataclasses import replace

import example_table
import numpy as np
import pytest
import real_sets

from helpers.small_tables import table_of
from psofed.core.features import cosine
from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.federation import plugins, records, schema
from psofed.fleet.protocol import in_memory
from psofed.methods import centralised, fedavg, local, onlinefed, periodic, psofed
from psofed.rivals import quantised
from psofed.streams.data import reading as tables
from psofed.streams.data import recipe as recipes
from psofed.streams.data.columns import Columns
from psofed.streams.data.rounds import Rounds
from psofed.tables import advice as advising
from psofed.tables import backtest, example, experts, fitting, model, plan
from psofed.tables.advice import Limits
from psofed.tables.plan import Plan, Span
from psofed.tables.player import Player, scaling_bytes, task
from psofed.tables.scores import WORST


def draw(clients=5, rounds=40, taps=2, seed=0):
    g = np.random.default_rng(seed)
    x = g.uniform(-1, 1, (clients, rounds, taps))
    return x, np.sin(2 * x[..., 0]) + x[..., -1] + 0.1 * g.standard_normal((clients, rounds))


OPTIONS = [
    psofed.Options(3), psofed.Options(3, "coordinated"), psofed.Options(4, idle=False),
    onlinefed.Options(), local.Options(), centralised.Options(), fedavg.Options(local_steps=4),
    periodic.Options(3, local_steps=2), quantised.Options(4),
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: o.title())
def test_a_table_without_gaps_gives_the_models_and_bytes_of_the_messages_executor(
    tmp_path, options
):
    x, y = draw()
    table = table_of(tmp_path, x, y)
    rounds = Rounds(table, recipes.learn(table, table.rounds))
    features = cosine(Seeds(3), 12, 2, 1.0)
    wanted = task(rounds, features, Seeds(3), 0.5, 2, 0)
    method = schema.load("psofed.methods", options.name).Method(options, wanted)
    span = Span(0, 30, 40)
    player = Player("", method, features, rounds)
    scores = backtest.run(rounds, [player], 0, span)
    sent = in_memory.run(schema.load("psofed.methods", options.name).Method(options, wanted), x, y)
    assert np.abs(player.shared - sent.models[-1]).max() < 2e-5
    assert [scores.scores[0].up, scores.scores[0].down] == sent.traffic[:, :2].sum(axis=0).tolist()


def test_who_has_no_sample_does_not_learn_and_who_is_not_there_is_not_asked(tmp_path):
    x, y = draw(clients=3, rounds=30)
    y[2, :10] = np.inf  # starts late
    y[1, 20:] = np.inf  # stops
    table = table_of(tmp_path, x, y)
    rounds = Rounds(table, recipes.learn(table, table.rounds))
    features = cosine(Seeds(3), 12, 2, 1.0)
    wanted = task(rounds, features, Seeds(3), 0.5, 3, 0)
    assert [wanted.cohorts.cohort(n).tolist() for n in (0, 15, 25)] == [[0, 1], [0, 1, 2], [0, 2]]
    alone = local.Method(local.Options(), wanted)
    player = Player("", alone, features, rounds)
    backtest.run(rounds, [player], 0, Span(0, 20, 30))
    w = np.zeros(12)
    for n in range(20):
        z = features(x[1, n])
        w += 0.5 * (y[1, n] - w @ z) * z
    assert np.abs(player.own[1] - w).max() < 1e-5


@pytest.mark.parametrize("delay", [0, 7])
def test_noise_that_is_known_only_later_is_not_predicted(tmp_path, delay):
    g = np.random.default_rng(delay)
    x = g.standard_normal((4, 1500, 2))
    y = g.standard_normal((4, 1500))
    lags = (max(delay, 1), max(delay, 1) + 1)
    columns = Columns(target="y", time=("t",), client="who", target_lags=lags)
    table = table_of(tmp_path, x, y, columns)
    done = fitting.fit(table, Plan(columns, label_delay=delay, dim=50))
    for j, score in enumerate(done.scores.scores):
        assert score.errors.keys() == {"prequential", "choice", "frozen"}
        for part, models in score.errors.items():
            for kind in models:
                assert done.scores.error(j, part, kind) > 0.99, (score.title, part, kind)


def test_a_leak_would_be_seen_by_that_test(tmp_path):
    g = np.random.default_rng(0)
    y = g.standard_normal((4, 600))
    table = table_of(tmp_path, np.stack([y, y], axis=2), y)
    done = fitting.fit(table, Plan(table.columns, dim=50, width=2.0, step=0.5))
    assert done.scores.error(0, "frozen") < 0.2


def test_the_last_value_is_the_last_label_that_was_known(tmp_path):
    y = np.arange(40.0)[None]
    table = table_of(tmp_path, np.zeros((1, 40, 1)), y)
    for delay, behind in ((0, 1), (1, 1), (5, 5)):
        rounds = Rounds(table, recipes.learn(table, 40))
        repeat = experts.Repeat("", 1, experts.LAST)
        scores = backtest.run(rounds, [repeat], delay, Span(10, 20, 40))
        last = scores.rows(1.0)[0]
        assert last["frozen_rmse"] == pytest.approx(behind, rel=1e-5)
        assert last["frozen_mae"] == pytest.approx(behind, rel=1e-5)


def test_the_example_is_what_its_generator_writes(tmp_path):
    example_table.main(str(tmp_path / "again.csv.gz"))
    assert (tmp_path / "again.csv.gz").read_bytes() == example.PATH.read_bytes()


@pytest.fixture(scope="module")
def done():
    table = tables.read(example.PATH, example.COLUMNS)
    wanted = Plan(example.COLUMNS, label_delay=6, dim=100, width=2.0, step=0.4,
                  methods=(psofed.Options(20),))  # fmt: skip
    return fitting.fit(table, wanted)


def test_the_same_plan_and_table_give_the_same_file(done):
    table = tables.read(example.PATH, example.COLUMNS)
    again = fitting.fit(table, replace(done.plan, compare=False))
    assert again.model.to_bytes() == done.model.to_bytes()


def test_the_worst_moments_are_in_the_table_and_sorted(done):
    worst = done.scores.worst
    sizes = [abs(row["predicted"] - row["actual"]) for row in worst]
    assert len(worst) == WORST
    assert sizes == sorted(sizes, reverse=True)
    rows = {(r["station"], r["time"][:16].replace("T", " ")): r for r in example.rows()}
    for row in worst:
        wanted = float(rows[row["client"], row["time"]]["pollutant"])
        assert row["actual"] == pytest.approx(wanted, rel=1e-4)
    assert 0 < worst[0]["share"] < 0.1


def test_a_header_that_lies_is_refused_even_with_a_right_digest(done, tmp_path):
    record = records.unpack(done.model.to_bytes())
    about, arrays = record.about, record.arrays
    path = tmp_path / "model.psofed"
    made = [records.Record(about | {"clients": ["a"]}, arrays)]
    for name in ("W", "b", "w", "own", "radius", "shared"):
        right = arrays[name]
        wrong = [np.ones(3, "f4"), np.ones((), "f4"), right[:-1], right.astype(float)]
        wrong += [np.full_like(right, value) for value in (np.inf, np.nan)]
        made += [records.Record(about, arrays | {name: each}) for each in wrong]
    made += [
        records.Record(about, {k: a for k, a in arrays.items() if k != name}) for name in "Wbw"
    ]
    for record in made:
        path.write_bytes(records.pack(record))
        with pytest.raises(InputError, match=r"makes no sense|record of something else"):
            model.load(path)
    path.write_bytes(b"\x80\x04cos\nsystem\n")
    with pytest.raises(InputError, match="is not a psofed model"):
        model.load(path)


def test_an_option_that_is_not_known_is_refused():
    with pytest.raises(InputError, match="did you mean 'label_delay'"):
        fitting.fit_table(example.PATH, target="pollutant", time="time", label_dely=6)


POLICY = """
[columns]
target = "y"
time = "t"
[[methods]]
name = "onlinefed"
[methods.policy]
name = "fedcs"
"""


def test_a_plan_survives_a_round_trip_and_names_its_mistakes(done, tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(plugins.written(done.plan.to_table).toml)
    assert plan.read(path) == done.plan
    for text, found in (
        ("x", "is not TOML"), ("a = 1", "columns is missing"),
        ('step=-1\n[columns]\ntarget="y"\ntime="t"', "step is -1"),
        ('[columns]\ntarget="y"\ntime="t"\n[[methods]]\nshared=5', r"methods\[0\].name is missing; use one of"),
        ('[columns]\ntarget="y"\ntime="t"\n[[methods]]\nname="raw"\nwire="4 bit"', "but raw codes its samples"),
        (POLICY, r"methods\[0\].policy is given; leave it out: tables have no policies"),
    ):  # fmt: skip
        path.write_text(text)
        with pytest.raises(InputError, match=found):
            plan.read(path)


def test_what_is_advised_does_not_depend_on_the_part_that_it_is_reported_on(tmp_path):
    x, y = draw(clients=4, rounds=1200)
    answers = []
    for last in (1.0, -1.0):
        y[:, 930:] *= last  # the warm-up ends at 120, the report begins at 930
        table = table_of(tmp_path, x, y)
        wanted = Plan(table.columns, cohort=2, dim=30, width=1.0, step=0.5)
        answers.append(advising.advise(table, wanted, Limits(payload=40), tune_dim=False))
    one, other = answers
    assert one.best.title == other.best.title
    assert [c.chosen for c in one.choices] == [c.chosen for c in other.choices]
    assert other.best.error > 3 * one.best.error
    assert one.best.largest <= 40
    assert one.plan.methods == (one.best.options,)
    full = next(c for c in one.choices if c.title == "Online-Fed")
    assert full.why_not.startswith("message of")


def test_advice_without_a_part_to_choose_on_is_refused_with_its_place(tmp_path):
    x, y = draw(clients=2, rounds=60)
    table = table_of(tmp_path, x, y)
    for share in (0.0, 0.85):
        with pytest.raises(
            InputError, match=r"made.csv: row \d+: (frozen|warmup and frozen) leave"
        ):
            advising.advise(table, Plan(table.columns, frozen=share, label_delay=4), Limits())


def test_the_exchange_of_scaling_is_counted_once_for_each_device(done):
    # Three numbers, one of which is the target's; a category with four texts of one letter.
    count = 8 * 5 * 4 + 2 * 4 * 2
    assert scaling_bytes(done.recipe, {}) == count
    setup = {score.title: score.setup for score in done.scores.scores}
    assert setup["PSO-Fed M=20 uncoordinated"] == count + 8  # and the seed
    line, ridge = done.recipe.taps + 1, done.plan.dim + done.recipe.taps + 1
    told = 2 * 4 * (line + 2 * ridge)  # both models, and mean squares; up, and means down
    assert setup["Mix with PSO-Fed M=20 uncoordinated"] == count + 8 + told
    assert setup["Last value"] == setup["Line, alone"] == 0
    assert scaling_bytes(done.recipe, {"wind": (0, 9)}) == count - 40


def test_scores_that_mean_little_say_so(tmp_path):
    x, _ = draw(clients=1, rounds=200)
    table = table_of(tmp_path, x, np.ones((1, 200)))
    done = fitting.fit(table, Plan(table.columns, dim=10, width=1.0, step=0.5))
    assert any("does not vary" in note for note in done.notes)
    assert any("only one client" in note for note in done.notes)


def test_models_are_frozen_even_if_nothing_is_measured_at_that_moment(tmp_path):
    x, y = draw(clients=2, rounds=2400)
    y[:, 900:2200] = np.inf  # a long silence, in which the last part begins
    table = table_of(tmp_path, x, y)
    done = fitting.fit(table, Plan(table.columns, dim=10, width=1.0, step=0.5, compare=False))
    assert 900 < done.span.frozen < 2200
    assert 0 < done.scores.error(0, "frozen") < 1


def test_clients_that_contradict_each_other_are_told_to_learn_alone(tmp_path):
    x, y = draw(clients=4, rounds=1000)
    y *= np.array([1, -1, 2, -2])[:, None]
    table = table_of(tmp_path, x, y)
    advice = advising.advise(table, Plan(table.columns, cohort=2), Limits())
    assert not advice.federate
    assert advice.best.kind == "alone"
    found = advice.evidence
    assert found.gain.verdict != "gains"
    assert not found.counts["gains"]
    alone = found.silent.error
    assert found.sharing.error < 1.1 * alone, "a mix leaves out what does not help"
    assert advice.experiment is None
    assert advice.plan.methods == (local.Options(),)


AIR = real_sets.folder() / "beijing_air_quality"


@pytest.mark.skipif(not AIR.is_dir(), reason="the air-quality data is not here (PSOFED_DATA)")
def test_on_real_air_quality_a_fifth_of_the_traffic_is_enough(tmp_path):
    inputs = ("PM2.5", "PM10", "SO2", "NO2", "CO", "TEMP", "PRES", "DEWP", "RAIN", "wd", "WSPM")
    columns = Columns(
        target="O3", time=("year", "month", "day", "hour"), client="station", inputs=inputs,
        calendar=("hour", "yearday"),
    )  # fmt: skip
    for file in sorted(AIR.glob("*.csv*"))[::4]:
        (tmp_path / file.name).symlink_to(file)
    table = tables.read(tmp_path, columns)
    assert (table.rows, len(table.clients), table.rounds) == (105_192, 3, 35_064)
    assert not table.drops.counts
    wanted = Plan(columns, label_delay=24, width=2.739, step=0.1, compare=True)
    done = fitting.fit(table, wanted)
    error = {s.title: done.scores.error(j, "frozen") for j, s in enumerate(done.scores.scores)}
    partial, full, line, last = (
        error[t] for t in (psofed.Options().title(), "Online-Fed", "Line, alone", "Last value")
    )
    assert partial < 1.1 * full
    assert max(partial, full) < 0.6 * last
    assert done.error < 1.01 * min(partial, full, line, error["Ridge regression, alone"])
    sent = {s.title: s.bytes for s in done.scores.scores}
    assert sent[psofed.Options().title()] * 5 == sent["Online-Fed"]
    assert sent[done.model.title] == sent[psofed.Options().title()]
