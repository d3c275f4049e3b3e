"""Methods at equal bytes: fitted, tuned, run on the same draws, and judged in one sentence."""

import json
from dataclasses import fields, replace

import numpy as np
import pytest

from helpers.command import wrong
from helpers.opened import told
from psofed.compare import budget, tuning
from psofed.compare.budget import Cost, completed, cost, everything, fit, reference_bytes
from psofed.compare.search import bytes_to_target
from psofed.curves import Curves
from psofed.experiment import Experiment, Features
from psofed.federation import schema
from psofed.federation.membership import Change
from psofed.federation.options import Common
from psofed.methods import fedavg, local, memofed, onlinefed, psofed
from psofed.report import comparisons as words
from psofed.rivals import topk
from psofed.simulate import montecarlo

SMALL = Experiment(
    clients=12, cohort=3, rounds=400, runs=2, test_samples=100, features=Features(dim=20),
    methods=(onlinefed.Options(),),
)  # fmt: skip


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("share", [0.5, 0.05])
@pytest.mark.parametrize("options", everything(20), ids=lambda o: o.title())
def test_a_fitted_method_costs_what_the_budget_allows(options, share):
    fitted = fit(SMALL, options, share)
    if fitted.options is None:
        assert fitted.why
    elif options.knob is None:
        assert fitted.options == options
    else:
        assert fitted.cost.share <= share * 1.0001
        both = (onlinefed.Options(), replace(fitted.options, label="x"))
        curves = montecarlo.run(replace(SMALL, runs=1, evaluate_every=100, methods=both))
        assert curves.traffic_share(1, 0) < 1.2 * share  # where bytes depend on data, about


def test_pso_fed_and_fedavg_meet_the_budget_exactly():
    for share, m, e in ((0.2, 4, 5), (0.05, 1, 20), (1.0, 20, 1)):
        assert fit(SMALL, psofed.Options(shared=7), share).options.shared == m
        fitted = fit(SMALL, fedavg.Options(local_steps=3), share)
        assert fitted.options.local_steps == e
        assert fitted.cost.share == pytest.approx(share)
    blocks = psofed.Options(shared=2, mask="block")  # of which D is a multiple
    assert [fit(SMALL, blocks, s).options.shared for s in (0.95, 0.3, 0.2, 0.15)] == [10, 5, 4, 2]


FORMS = [
    options
    for name in schema.names("psofed.methods")
    for module in [schema.load("psofed.methods", name)]
    for options in module.Options.compared(20) or [module.Options()]
]


@pytest.mark.parametrize("options", FORMS, ids=lambda o: o.title())
def test_a_knob_does_to_the_traffic_what_it_says(options):
    knob, dim = options.knob, SMALL.features.dim
    if knob is None:
        return
    high = int(reference_bytes(SMALL)) if knob.bytes else knob.most(dim, SMALL.rounds)
    values = sorted({knob.least, (knob.least + high) // 4, high})
    settings = [options.turned(value, dim) for value in values]
    assert [knob.of(each) for each in settings] == values
    shares = [cost(SMALL, each).share for each in settings]
    assert shares == sorted(shares, reverse=not knob.more)
    assert shares[0] != shares[-1]
    if knob.bytes:
        assert all(s * high <= value for s, value in zip(shares, values, strict=True))


def test_there_is_one_reference_and_it_comes_first_and_controls_last():
    found = everything(20)
    assert [o.role for o in found].count("reference") == 1
    assert found[0].role == "reference"
    order = [budget.ROLES.index(o.role) for o in found]
    assert order == sorted(order)
    titles = [o.title() for o in completed((topk.Options(),), 20)]
    assert titles == ["Online-Fed", "Top-5", "FedAvg E=5"]
    assert completed(found, 20) == found


@pytest.mark.parametrize("name", schema.names("psofed.methods"))
def test_no_option_hides_what_a_method_declares(name):
    own = {f.name for f in fields(schema.load("psofed.methods", name).Options)}
    assert not (own - {f.name for f in fields(Common)}) & set(dir(Common))


def test_a_cost_is_that_of_the_encoded_messages():
    paper = replace(SMALL, features=Features(dim=200), cohort=4)
    online, avg, pso, memo = (
        cost(paper, o)
        for o in (onlinefed.Options(), fedavg.Options(5), psofed.Options(5), memofed.Options())
    )
    assert online == (1.0, 800, 6400, 8 * 12)
    assert (avg.share, avg.largest, avg.peak) == (pytest.approx(0.2), 800, 3200)
    assert (pso.share, pso.largest, pso.peak) == (5 / 200, 20, 160)
    assert memo.share <= 1 / 40
    assert memo.largest == 53
    assert cost(paper, local.Options()) == (0, 0, 0, 0)


def made_up(mse_db, stderr_db, rounds):
    """Curves with these values and one kilobyte up and down in each round, for every method."""
    methods = tuple(psofed.Options(shared=1 + j) for j in range(len(mse_db) - 1))
    experiment = replace(SMALL, rounds=int(rounds[-1]), methods=(onlinefed.Options(), *methods))
    mse = 10 ** (np.array(mse_db) / 10)
    stderr = np.array(stderr_db) * mse * np.log(10) / 10
    spent = np.tile(np.diff(rounds, prepend=0) * 500.0, (len(mse), 1))
    points = np.ones((len(mse), 9)) * mse[:, -1:]
    errors = np.ones((9, len(mse), len(mse))) * 1e-9
    return Curves(experiment, 9, rounds, mse, stderr, spent, spent, spent, points, errors)


def test_a_target_is_reached_where_the_curve_stays_below_it():
    rounds = np.arange(0, 601, 10)
    curve = np.where(rounds < 200, 0.0, -5.0)
    curve[rounds == 250] = 0.0  # it comes back within a hundred rounds
    curves = made_up([curve, np.zeros(61)], [np.zeros(61), np.zeros(61)], rounds)
    reached = bytes_to_target(curves, 0, -4.0)
    assert reached.round == 260
    assert reached.bytes == reached.low == reached.high == 260_000
    assert bytes_to_target(curves, 1, -4.0).bytes == np.inf


@pytest.mark.parametrize(
    ("error", "expected"), [(0.01, "needs 2.00 times as many"), (3.0, "within error")]
)
def test_the_sentence_knows_what_is_within_error(error, expected):
    rounds = np.arange(0, 1001, 10)
    fast, slow = -rounds / 100.0, -rounds / 200.0
    flat = np.full(101, error)
    curves = made_up([np.zeros(101), fast, slow], [flat, flat, flat], rounds)
    entries = [
        tuning.Entry(o, Cost(s), 0.5, ())
        for o, s in zip(curves.experiment.methods, (1, 1, 1), strict=True)
    ]
    made = words.Comparison(curves, entries, [], 1.0, -1.999, "fair", "")
    assert expected in words.sentence(made)
    assert made.order("bytes")[0] == made.ranking()[0] == 1


FILE = {
    "clients": 8, "cohort": 2, "rounds": 200, "test_samples": 100, "features": {"dim": 10},
    "methods": [{"name": "psofed", "shared": 3}, {"name": "topk", "kept": 2}],
}  # fmt: skip


@pytest.mark.long
def test_the_command_compares_and_adds_fedavg_to_pso_fed(works, tmp_path, file):
    words = "--runs 3 --rounds 100 --budget 0.3 --target -1 --out out --tuning none"
    result = works("compare", file(**FILE), *words.split())
    for title in ("Online-Fed", "PSO-Fed M=3 uncoordinated", "Top-2", "FedAvg E=4"):
        assert title in result.stdout
    folder = tmp_path / "out"
    pictures = {f"{name}.{kind}" for name in ("rounds", "bytes") for kind in ("png", "pdf")}
    tables = {"experiment.toml", "comparison.json", "comparison.txt", "curves.csv"}
    assert {path.name for path in folder.iterdir()} == pictures | tables | {"report.html"}
    page = told(folder)
    table = json.loads((folder / "comparison.json").read_text())
    assert table["answer"] in result.stdout
    # Ranges are 95 % intervals in the file and in the report.
    lines = (folder / "comparison.txt").read_text().splitlines()
    printed = {line.split("  ")[0]: line for line in lines}
    (ranking,) = (
        part for part in page["parts"] if isinstance(part, dict) and "Fewest bytes" in part["title"]
    )
    place = ranking["head"].index("steady, dB")
    for method, row in zip(table["methods"], ranking["rows"], strict=True):
        mean, error = method["steady_db"]["value"], 1.96 * method["steady_db"]["stderr"]
        title = method["method"] + " *" * bool(method["at_the_end"])
        shown = [f"{mean:.2f}", f"{mean - error:.2f} to {mean + error:.2f}"]
        assert all(text in printed[title] for text in shown)
        assert [cell.replace("\N{MINUS SIGN}", "-") for cell in row[place : place + 2]] == shown
    assert all(m["traffic_share"] <= 0.3001 for m in table["methods"] if m["name"] != "onlinefed")


@pytest.mark.usefixtures("hasty")
def test_a_budget_that_nobody_fits_in_so_few_rounds_is_refused_and_says_why(psofed, tmp_path, file):
    whys = ("FedAvg E=5 would exchange models less than every", "% at the least", "or more rounds")
    done = psofed("compare", file(**FILE), "--budget", "0.0001", "--out", "out")
    wrong(done, "--budget is 0.0001, which no method fits", *whys)
    assert not (tmp_path / "out").exists()


def test_a_budget_is_that_of_a_quiet_fleet():
    last = SMALL.rounds - 1
    changing = replace(SMALL, fleet=(Change(last, add=(SMALL.clients,)),))
    for options in SMALL.methods:
        assert budget.cost(changing, options) == budget.cost(SMALL, options)
