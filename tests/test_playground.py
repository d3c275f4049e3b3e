"""The playground in a real browser: its arithmetic, its picture, its controls, its address."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from urllib.parse import parse_qs, urlencode

import numpy as np
import pytest

from conftest import GOLDEN, ROOT
from psofed import case as cases
from psofed.cli.main import cli
from psofed.core.features import Waves
from psofed.core.schedule import Rotating
from psofed.report import playground, site
from psofed.simulate import reference
from psofed.streams import paper
from psofed.web.page import asset, page

NEAR = {"rtol": 0, "atol": 1e-9}
FIRST = {
    "K": 12, "D": 40, "M": 4, "S": 3, "shift": 4, "mu": 0.75, "noise": 0.0175, "N": 200,
    "runs": 1, "seed": 1, "scheme": "coordinated", "mask": "block", "idle": True,
}  # fmt: skip
REPLAY = """(one) => {
  const clients = one.masks.length, dim = one.b.length, taps = one.x[0][0].length;
  const flat = (rows) => Float64Array.from(rows.flat());
  const map = { W: flat(one.W), b: Float64Array.from(one.b), dim, taps };
  const shape = { clients, dim, step: one.step };
  const run = one.algorithm === "online" ? onlineFed(shape) : new PsoFed({ ...shape, idle: true,
    shift: one.shift, masks: one.masks.map((mask) => Int32Array.from(mask)) });
  run.w.set(one.w0);
  run.local.set(flat(one.local0));
  const z = new Float64Array(clients * dim);
  const models = [[Array.from(run.w), Array.from(run.local)]];
  one.cohorts.forEach((cohort, n) => {
    features(map, flat(one.x.map((rows) => rows[n])), clients, z);
    run.down(n, cohort);
    run.learn(cohort, z, one.y.map((row) => row[n]));
    run.up(n, cohort);
    models.push([Array.from(run.w), Array.from(run.local)]);
  });
  return models;
}"""
WATCH = """([settings, rounds]) => {
  const world = new World(settings, 0);
  const { W, b } = world.map;
  const found = { W: Array.from(W), b: Array.from(b), masks: world.masks.map((m) => Array.from(m)),
    x: [], y: [], cohorts: [], psofed: [], local: [], online: [], alone: [], errors: [] };
  const look = () => {
    found.psofed.push(Array.from(world.psofed.w));
    found.local.push(Array.from(world.psofed.local));
    found.online.push(Array.from(world.online.w));
    found.alone.push(Array.from(world.local.local));
    found.errors.push(world.errors(true));
  };
  look();
  for (let n = 0; n < rounds; n += 1) {
    found.cohorts.push(world.cohort);
    world.round();
    found.x.push(Array.from(world.x));
    found.y.push(Array.from(world.y));
    look();
  }
  return { ...found, testZ: Array.from(world.test.z), testY: Array.from(world.test.y) };
}"""


class Sleeping(cases.Case):
    """A case whose idle clients do not learn."""

    idle = False


@pytest.fixture
def bench(tab, tmp_path):
    """A tab in which the worker's scripts stand ready, but nothing runs."""
    path = tmp_path / "bench.html"
    scripts = ("dom.js", *playground.WORKER)
    path.write_text(page("bench", {}, scripts), encoding="utf-8")
    return tab(path)


@pytest.fixture
def open_play(tab, tmp_path):
    """Open the playground with these settings, paused unless said otherwise."""

    def make(address="", playing=False, **options):
        path = tmp_path / "playground.html"
        path.write_text(playground.render(), encoding="utf-8")
        motion = "no-preference" if playing else "reduce"
        shown = tab(
            path.as_uri() + address, allow=path.as_uri(), **{"reduced_motion": motion} | options
        )
        until(shown, "Boolean(playground.shown && playground.curves.done)")
        return shown

    return make


def until(shown, condition):
    """Wait until it holds, asking from outside: the page allows no evaluation within."""
    end = time.monotonic() + 60
    while not shown.evaluate(condition):
        assert time.monotonic() < end, condition
        time.sleep(0.02)


def settle(shown):
    until(shown, "playground.curves.done && playground.cost !== null && !playground.asked")


def hash_of(**changes):
    settings = FIRST | changes
    return "#" + urlencode({k: str(v).lower() for k, v in settings.items()})


def slide(shown, name, value):
    """Move a slider as a finger would: its value, then the event."""
    shown.locator(f"#{name}").evaluate(
        "(input, value) => { input.value = value; input.dispatchEvent(new Event('input')); }", value
    )


def curve(shown, key="psofed"):
    settle(shown)
    return shown.evaluate(f"playground.curves.{key}")


# --- the arithmetic ---


def every_case():
    return [cases.read(path) for path in GOLDEN] + [cases.draw(i, seed=8) for i in range(30)]


def test_the_algorithm_is_the_core_s_at_every_round_of_exported_cases(bench):
    for one in every_case():
        table = {
            "algorithm": one.algorithm, "W": one.features.W, "b": one.features.b, "x": one.x,
            "y": one.y, "cohorts": one.cohorts, "step": one.step, "masks": one.masks,
            "shift": one.shift, "w0": one.w0, "local0": one.local0,
        }  # fmt: skip
        models = bench.evaluate(REPLAY, json.loads(json.dumps(table, default=np.ndarray.tolist)))
        w, local = reference.run(one)
        np.testing.assert_allclose([m[0] for m in models], w, **NEAR, err_msg=one.name)
        found = np.array([m[1] for m in models]).reshape(local.shape)
        np.testing.assert_allclose(found, local, **NEAR, err_msg=one.name)
        if one.w is not None:
            np.testing.assert_allclose([m[0] for m in models], one.w, **NEAR, err_msg=one.name)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"M": 1, "shift": 1},
        {"M": 40},
        {"shift": 0},
        {"shift": 39, "mask": "scattered"},
        {"scheme": "uncoordinated"},
        {"scheme": "uncoordinated", "mask": "scattered", "M": 7, "shift": 1},
        {"idle": False},
        {"S": 12},
        {"K": 5, "D": 11, "S": 1, "M": 3, "shift": 3, "mu": 1.2, "noise": 0.1, "seed": 99},
    ],
    ids=str,
)
def test_a_run_of_the_page_is_the_core_s_on_the_same_draws(bench, changes):
    s, rounds = FIRST | changes, 30
    found = bench.evaluate(WATCH, [s, rounds])
    clients, dim = s["K"], s["D"]
    masks = np.broadcast_to(found["masks"], (clients, s["M"]))
    kind = cases.Case if s["idle"] else Sleeping
    features = Waves(np.reshape(found["W"], (dim, 4)), np.array(found["b"]))
    pso = kind(
        name="", algorithm="pso", features=features,
        x=np.reshape(found["x"], (rounds, clients, 4)).swapaxes(0, 1), y=np.transpose(found["y"]),
        cohorts=tuple(map(tuple, found["cohorts"])), step=s["mu"], masks=masks, shift=s["shift"],
        w0=np.zeros(dim), local0=np.zeros((clients, dim)),
    )  # fmt: skip
    whole = np.broadcast_to(np.arange(dim), (clients, dim))
    online = Sleeping(**vars(replace(pso, algorithm="online", masks=whole, shift=0)))
    alone = cases.Case(**vars(pso) | {"cohorts": ((),) * rounds})
    w, local = reference.run(pso)
    np.testing.assert_allclose(found["psofed"], w, **NEAR)
    np.testing.assert_allclose(np.reshape(found["local"], local.shape), local, **NEAR)
    w_online, _ = reference.run(online)
    np.testing.assert_allclose(found["online"], w_online, **NEAR)
    _, w_alone = reference.run(alone)
    np.testing.assert_allclose(np.reshape(found["alone"], w_alone.shape), w_alone, **NEAR)
    z, y = np.reshape(found["testZ"], (-1, dim)), np.array(found["testY"])

    def mse(models):
        return np.mean(np.square(models @ z.T - y), axis=-1)

    expected = np.stack([mse(w), mse(w_online), mse(w_alone).mean(axis=-1)], axis=-1)
    np.testing.assert_allclose(found["errors"], expected, **NEAR)
    if s["M"] == dim:
        np.testing.assert_array_equal(found["psofed"], found["online"])


def test_the_page_learns_the_paper_s_function_from_inputs_of_the_paper_s_law(bench):
    x = np.random.default_rng(0).normal(size=(50, 4))
    found = bench.evaluate("(rows) => rows.map((row) => truth(row))", x.tolist())
    np.testing.assert_allclose(found, paper.f(x), rtol=0, atol=1e-12)
    laws = "({ K, noise }) => drawLaws({ K, noise }, new Random(1))"
    drawn = bench.evaluate(laws, {"K": 4000, "noise": 0.0175})
    ranges = {"theta": (0.2, 0.9), "mean": (-0.2, 0.2)}
    squares = {"deviation": (0.2, 1.2), "noise": (0.005, 0.03)}
    for name, (low, high) in (ranges | squares).items():
        values = np.array([law[name] for law in drawn]) ** (2 if name in squares else 1)
        assert low <= values.min() < values.max() <= high
        assert values.mean() == pytest.approx((low + high) / 2, rel=0.03, abs=0.01)


def test_random_numbers_have_their_law_and_come_back_with_their_seed(bench):
    draw = """(seed) => {
      const random = new Random(seed, "x");
      const many = (one) => Array.from({ length: 20000 }, one);
      return [many(() => random.normal()), many(() => random.uniform()),
        many(() => random.subset(2, 5).join("")).slice(0, 5000)];
    }"""
    normal, uniform, pairs = bench.evaluate(draw, 7)
    assert np.mean(normal) == pytest.approx(0, abs=0.03)
    assert np.std(normal) == pytest.approx(1, abs=0.03)
    assert np.mean(np.abs(normal) > 1.96) == pytest.approx(0.05, abs=0.008)
    assert np.histogram(uniform, 10, (0, 1))[0] == pytest.approx(2000, abs=250)
    _, counts = np.unique(pairs, return_counts=True)
    assert len(counts) == 10
    assert counts == pytest.approx(500, abs=110)
    assert bench.evaluate(draw, 7)[0] == normal
    assert bench.evaluate(draw, 8)[0] != normal


def test_the_worker_runs_the_very_text_that_is_tested():
    text = playground.render()
    start = text.index('id="data">') + len('id="data">')
    worker = json.loads(text[start : text.index("</script>", start)])["worker"]
    assert worker == "\n".join(asset(name) for name in playground.WORKER)


# --- the picture ---


def test_the_picture_highlights_exactly_the_schedule_s_windows(open_play):
    shown = open_play(hash_of(scheme="uncoordinated", M=5, shift=3, mask="scattered"))
    boxes = """(way) => {
      const { picture } = playground, list = [];
      const old = picture.outline;
      picture.outline = (x, y, width, height, kind) => {
        const first = Math.round((x - picture.lay.left) / picture.lay.cell);
        const count = Math.round(width / picture.lay.cell);
        const k = y < picture.lay.top ? -1 : Math.floor((y - picture.lay.top) / picture.lay.row);
        if (kind === way) for (let i = 0; i < count; i += 1) list.push([k, first + i]);
      };
      picture.draw("up", 1, false);
      picture.outline = old;
      return list;
    }"""
    start = {}
    for n in (0, 1, 7, 120):
        shown.evaluate(f"playground.seek({n})")
        until(shown, f"playground.n === {n} && !playground.asked")
        cohort = shown.evaluate("playground.shown.cohort")
        for way, at in (("down", n), ("up", n + 1)):
            marked = shown.evaluate(boxes, way)
            for k in cohort:
                entries = sorted(i for row, i in marked if row == k)
                first = sorted((np.array(entries) - 3 * at) % 40)
                assert start.setdefault(k, first) == first  # the same S_{k,0} from every round
                again = Rotating(np.array([start[k]]), 3, 40).entries(0, at)
                assert sorted(again.tolist()) == entries
                assert len(entries) == 5
            server = {i for row, i in marked if row == -1}
            assert server == {i for row, i in marked if row in cohort}
            assert {row for row, _ in marked} == {-1, *cohort}


def test_the_parts_of_a_round_change_what_they_should_and_nothing_else(open_play):
    shown = open_play(hash_of())
    shown.evaluate("playground.seek(20)")
    until(shown, "playground.n === 20 && !playground.asked")
    frame = shown.evaluate(
        """() => { const f = playground.shown; return { ...f, server: Array.from(f.server),
          clients: Array.from(f.clients), down: f.down.map((w) => Array.from(w)),
          up: f.up.map((w) => Array.from(w)) }; }"""
    )
    before, down, learned = np.reshape(frame["clients"], (3, 12, 40))
    server, after = np.reshape(frame["server"], (2, 40))
    idle = [k for k in range(12) if k not in frame["cohort"]]
    np.testing.assert_array_equal(before[idle], down[idle])
    assert (np.abs(learned - down).sum(axis=1) > 0).all()  # everybody learns, the idle too
    for k, window in zip(frame["cohort"], frame["down"], strict=True):
        rest = np.setdiff1d(np.arange(40), window)
        np.testing.assert_array_equal(down[k, window], server[window])
        np.testing.assert_array_equal(down[k, rest], before[k, rest])
    up = frame["up"][0]
    np.testing.assert_allclose(after[up], learned[frame["cohort"]][:, up].mean(axis=0), atol=1e-6)
    rest = np.setdiff1d(np.arange(40), up)
    np.testing.assert_array_equal(after[rest], server[rest])


def test_pointing_at_a_cell_reads_its_number(open_play):
    shown = open_play(hash_of())
    shown.evaluate("playground.seek(50)")
    until(shown, "playground.n === 50 && playground.part === 1 && !playground.dirty")
    spot = "[picture.lay.left + 10.5 * picture.lay.cell, picture.lay.top + 2.4 * picture.lay.row]"
    x, y = shown.evaluate(f"(() => {{ const {{ picture }} = playground; return {spot}; }})()")
    shown.locator("canvas.picture").hover(position={"x": x, "y": y})
    value = shown.evaluate("playground.shown.clients[2 * 480 + 2 * 40 + 10]")
    text = shown.locator(".readout").inner_text()
    assert text.startswith("Client 3, entry 11: ")
    assert float(text.split(": ")[1].replace("\N{MINUS SIGN}", "-")) == pytest.approx(
        value, rel=0.01
    )


# --- the controls ---


def test_another_m_moves_the_curve_and_costs_exactly_m_over_d(open_play):
    shown = open_play(hash_of(mask="scattered", shift=1))
    first, online = curve(shown), curve(shown, "online")
    assert first[0] == online[0]
    assert first[-1] < first[0] - 3
    for shared in (1, 10, 40):
        slide(shown, "M", shared)
        assert curve(shown) != first
        assert curve(shown, "online") == online  # on the same data, features and cohorts
        cost = shown.evaluate("playground.cost")
        assert cost == {"psofed": 2 * 4 * 3 * shared, "online": 2 * 4 * 3 * 40}
    assert curve(shown) == online  # M = D


def test_every_slider_moves_the_curve(open_play):
    shown = open_play(hash_of())
    values = {"K": 20, "D": 60, "S": 6, "shift": 7, "mu": 0.3, "noise": 0.2, "runs": 3, "N": 400}
    for name, value in values.items():
        before = curve(shown)
        slide(shown, name, value)
        assert curve(shown) != before, name
        assert shown.locator(f"output[for={name}]").inner_text() == str(value)
        shown.locator(f"#{name}").press("ArrowLeft")  # and by keyboard
        settle(shown)
        assert shown.evaluate(f"playground.settings.{name}") < value


def test_scheme_shape_and_idle_learning_move_the_curve(open_play):
    shown = open_play(hash_of())
    seen = [curve(shown)]
    for name in ("each its own", "scattered", "Idle clients learn on"):
        shown.get_by_label(name).click()
        seen.append(curve(shown))
    assert all(a != b for i, a in enumerate(seen) for b in seen[:i])


def test_the_switch_to_bytes_shows_the_same_errors_over_what_has_travelled(open_play):
    shown = open_play(hash_of())
    until(shown, "Boolean(playground.curveChart.chart)")
    shown.get_by_role("button", name="bytes", exact=True).click()
    until(shown, "playground.curveChart.chart.spec.xLog === true")
    series = shown.evaluate(
        "playground.curveChart.chart.spec.series.map((s) => [s.label, s.x, s.y])"
    )
    assert [label for label, *_ in series] == ["PSO-Fed", "Online-Fed"]
    assert series[0][1] == [n * 96 for n in range(201)]
    assert series[1][1] == [n * 960 for n in range(201)]
    assert series[0][2] == curve(shown)
    shown.get_by_role("button", name="rounds", exact=True).click()
    until(shown, "playground.curveChart.chart.spec.xLog === false")
    until(shown, "!playground.numbersDirty")
    cells = shown.locator("tbody tr").first.locator("td").all_inner_texts()
    assert cells[:2] == ["96 B", "19.2 kB"]
    assert float(cells[2].split()[0].replace("\N{MINUS SIGN}", "-")) == pytest.approx(
        curve(shown)[-1], abs=0.01
    )


def test_play_pause_step_and_the_round_slider_move_the_picture(open_play):
    shown = open_play(hash_of(), playing=True)
    shown.evaluate("playground.setSpeed(5)")
    until(shown, "playground.n > 5")
    shown.get_by_role("button", name="Pause").click()
    settle(shown)
    at = shown.evaluate("playground.n")
    time.sleep(0.3)
    assert shown.evaluate("playground.n") == at
    slide(shown, "round", 31)
    until(shown, "playground.n === 30 && !playground.asked")
    for phase in ("select", "down", "learn", "up", "select"):
        shown.get_by_role("button", name="Step", exact=True).click()
        until(shown, f"PHASES[playground.phase] === '{phase}' && !playground.asked")
    assert shown.evaluate("playground.n") == 32
    shown.get_by_role("button", name="Next round").click()
    until(shown, "playground.n === 33")
    slide(shown, "round", 3)  # back again, to what was there before
    until(shown, "playground.n === 2 && !playground.asked")
    until(shown, "!playground.dirty")
    assert shown.locator(".caption").inner_text().startswith("Round 3.")


def test_going_back_shows_the_same_picture_as_going_there_first(open_play):
    look = "() => [Array.from(playground.shown.clients), Array.from(playground.shown.fit)]"
    shown = open_play(hash_of())
    seen = []
    for n in (40, 150, 40):
        shown.evaluate(f"playground.seek({n})")
        until(shown, f"playground.n === {n} && !playground.asked")
        seen.append(shown.evaluate(look))
    assert seen[0] == seen[2] != seen[1]


def test_a_wish_for_a_round_that_is_overtaken_leaves_nothing_stale(bench):
    look = """(settings) => {
      const hasty = new Replay(settings), calm = new Replay(settings);
      while (hasty.world.n < 20) hasty.reach(100, 0); // no time: one round, then the next wish
      hasty.reach(19, Infinity);
      calm.reach(19, Infinity);
      return [hasty, calm].map((replay) => [replay.frame().n, Array.from(replay.frame().clients)]);
    }"""
    hasty, calm = bench.evaluate(look, FIRST)
    assert hasty[0] == 19
    assert hasty == calm


def test_the_caption_says_who_talks_and_about_what(open_play):
    shown = open_play(hash_of(S=1, M=2, shift=2))
    k = shown.evaluate("playground.shown.cohort[0]") + 1
    texts = []
    for part in ("1 Select", "2 Send down", "3 Learn", "4 Send up"):
        shown.get_by_role("button", name=part).click()
        until(shown, "!playground.dirty")
        texts.append(shown.locator(".caption").inner_text())
    assert texts[0].startswith(f"Round 1. The server selects client {k} at random; the other 11")
    assert "Entries 1\N{EN DASH}2" in texts[1]
    assert "selected or not" in texts[2]
    assert "Entries 3\N{EN DASH}4" in texts[3]


def test_a_window_that_cannot_reach_everything_is_warned_about(open_play):
    shown = open_play(hash_of())
    assert shown.locator(".warning").inner_text() == ""
    slide(shown, "shift", 0)
    settle(shown)
    assert "36 of the 40 entries never travel" in shown.locator(".warning").inner_text()
    slide(shown, "shift", 1)
    settle(shown)
    assert "overlap in 3 entries" in shown.locator(".warning").inner_text()


def test_every_preset_works_and_says_what_to_look_for(open_play):
    shown = open_play(hash_of())
    texts = set()
    for button in shown.locator(".presets button").all():
        button.click()
        assert button.get_attribute("aria-pressed") == "true"
        texts.add(shown.locator(".look").inner_text())
        until(shown, "!playground.asked && !playground.dirty && playground.curves.n.length > 0")
    assert len(texts) == shown.locator(".presets button").count()


def test_models_that_run_away_break_nothing(open_play):
    shown = open_play(hash_of(mu=2, noise=0.25, N=1000))
    shown.evaluate("playground.seek(900)")
    until(shown, "playground.n === 900 && !playground.asked")
    assert len(curve(shown)) == 1001


# --- the address ---


def test_settings_live_in_the_address_and_come_back(open_play):
    shown = open_play()
    slide(shown, "M", 9)
    shown.get_by_label("each its own").click()
    shown.get_by_role("button", name="Draw anew").click()
    settle(shown)
    address = shown.url.split("#")[1]
    settings = {k: v[0] for k, v in parse_qs(address).items()}
    assert settings["M"] == settings["shift"] == "9"  # a block moves by its own length
    assert settings["scheme"] == "uncoordinated"
    assert settings["seed"] == "2"
    again = open_play("#" + address)
    assert again.evaluate("playground.settings") == shown.evaluate("playground.settings")
    assert curve(again) == curve(shown)
    again.evaluate("location.hash = '#M=2&shift=2'")
    until(again, "playground.settings.M === 2")


@pytest.mark.parametrize(
    "address",
    [
        "#K=<img src=x onerror=window.hacked=1>&scheme=<script>window.hacked=1</script>",
        "#__proto__=1&constructor=2&K=__proto__&toString=x",
        "#K=1e9&D=-5&M=99999999999999999999&S=NaN&shift=Infinity&mu=0x10&noise=-1&N=1e400",
        "#K=100.7&D=8&M=200&S=500&runs=0&seed=-3&idle=maybe&mask=javascript:alert(1)",
        "#%E0%A4%A&&&===&K=%00&D=%F0%9F%92%A9",
        "#" + "K=5&" * 5000,
    ],
)
def test_a_hostile_address_ends_as_settings_within_their_limits(open_play, address):
    shown = open_play(address)
    assert shown.evaluate("window.hacked") is None
    s = shown.evaluate("playground.settings")
    assert set(s) == set(FIRST)
    assert 2 <= s["K"] <= 100
    assert 8 <= s["D"] <= 200
    assert 1 <= s["M"] <= s["D"]
    assert 1 <= s["S"] <= s["K"]
    assert 0 <= s["shift"] < s["D"]
    assert 0.05 <= s["mu"] <= 2
    assert 0 <= s["noise"] <= 0.25
    assert 200 <= s["N"] <= 5000
    assert 1 <= s["runs"] <= 20
    assert 0 <= s["seed"] <= 1e9
    assert all(float(s[name]).is_integer() for name in ("K", "D", "M", "S", "shift", "N", "runs"))
    assert s["scheme"] in ("coordinated", "uncoordinated")
    assert s["mask"] in ("block", "scattered")
    assert s["idle"] is True
    assert len(curve(shown)) == s["N"] + 1


# --- the page ---


@pytest.mark.parametrize("address", ["", hash_of(K=100, D=200, M=40, S=4, mask="scattered")])
def test_a_phone_needs_no_sideways_scrolling(open_play, address):
    shown = open_play(address, viewport={"width": 375, "height": 800})
    until(shown, "!playground.numbersDirty")
    assert shown.evaluate("document.documentElement.scrollWidth") <= 375


def test_it_plays_at_once_unless_motion_is_unwanted(open_play):
    assert open_play("", playing=True).evaluate("playground.playing") is True
    assert open_play("", playing=False).evaluate("playground.playing") is False


def test_the_main_thread_never_computes_a_round(open_play):
    shown = open_play(hash_of())
    assert shown.evaluate("typeof PsoFed + typeof World + typeof features") == "undefined" * 3


def test_the_site_has_the_page_that_the_command_writes(psofed, tmp_path):
    done = psofed("play", "--out", "page.html", "--no-open")
    assert done.returncode == 0, done.stderr
    written = (tmp_path / "page.html").read_bytes()
    site.lay_out(ROOT / "docs", tmp_path / "site")
    assert (tmp_path / "site" / "_static" / site.PLAYGROUND).read_bytes() == written
    assert f"site:_static/{site.PLAYGROUND}" in (tmp_path / "site" / "playground.md").read_text()
    assert len(written) < 200_000


@pytest.mark.parametrize("found", [True, False])
def test_the_page_is_opened_in_a_browser_if_there_is_one(monkeypatch, tmp_path, capsys, found):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or found)
    out = tmp_path / "page.html"
    cli.main(["play", "--out", str(out)], standalone_mode=False)
    assert opened == [out.as_uri()]
    assert ("No browser" in capsys.readouterr().out) is not found


def test_a_place_that_cannot_be_written_is_named(psofed):
    done = psofed("play", "--out", "nowhere/page.html", "--no-open")
    assert done.returncode == 2
    assert "nowhere/page.html" in done.stderr
    assert done.stderr.count("\n") == 1
