"""The playground's arithmetic is the core's."""

import json
from dataclasses import replace

import numpy as np
import pytest

from helpers import GOLDEN, golden
from helpers.playing import FIRST, answer
from psofed.core.features import Cosines
from psofed.report import playground
from psofed.report.page import asset
from psofed.simulate import reference
from psofed.simulate import reference as cases
from psofed.streams import paper

NEAR = {"rtol": 0, "atol": 1e-9}

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


def test_the_algorithm_is_the_core_s_at_every_round_of_exported_cases(bench):
    assert len(GOLDEN) == 8
    for one in (*map(golden.read, GOLDEN), *(cases.draw(i, seed=8) for i in range(10))):
        table = {
            "algorithm": one.algorithm, "W": one.features.W, "b": one.features.b, "x": one.x,
            "y": one.y, "cohorts": one.cohorts, "step": one.step, "masks": one.masks,
            "shift": one.shift, "w0": one.w0, "local0": one.local0,
        }  # fmt: skip
        models = answer(bench, REPLAY, json.loads(json.dumps(table, default=np.ndarray.tolist)))
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
    found = answer(bench, WATCH, [s, rounds])
    clients, dim = s["K"], s["D"]
    masks = np.broadcast_to(found["masks"], (clients, s["M"]))
    kind = cases.Case if s["idle"] else Sleeping
    features = Cosines(np.reshape(found["W"], (dim, 4)), np.array(found["b"]))
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


def test_the_spread_of_runs_is_one_standard_error_and_paired(bench):
    settings, count = FIRST | {"N": 40, "runs": 4}, 4
    judged = """(settings) => {
      const curves = new Curves(settings);
      const found = { runs: [] };
      for (let run = 0; run < settings.runs; run += 1) {
        const world = new World(settings, run);
        for (let n = 0; n < settings.N; n += 1) world.round();
        found.runs.push(world.errors(false).slice(0, 2));
      }
      while (!curves.done) Object.assign(found, curves.advance(Infinity));
      return found;
    }"""
    found = answer(bench, judged, settings)
    runs = np.array(found["runs"])
    share = runs / runs.mean(axis=0)
    per_db = 10 / np.log(10)
    expected = per_db * share.std(axis=0, ddof=1) / np.sqrt(count)
    paired = per_db * (share[:, 0] - share[:, 1]).std(ddof=1) / np.sqrt(count)
    assert found["psofedError"][-1] == pytest.approx(expected[0], rel=1e-9)
    assert found["onlineError"][-1] == pytest.approx(expected[1], rel=1e-9)
    assert found["gapError"][-1] == pytest.approx(paired, rel=1e-9)
    alone = answer(bench, judged, settings | {"runs": 1})
    assert alone["gapError"][-1] is None


def test_the_page_learns_the_paper_s_function_from_inputs_of_the_paper_s_law(bench):
    x = np.random.default_rng(0).normal(size=(50, 4))
    found = answer(bench, "(rows) => rows.map((row) => truth(row))", x.tolist())
    np.testing.assert_allclose(found, paper.f(x), rtol=0, atol=1e-12)
    laws = "({ K, noise }) => drawLaws({ K, noise }, new Random(1))"
    drawn = answer(bench, laws, {"K": 4000, "noise": 0.0175})
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
    normal, uniform, pairs = answer(bench, draw, 7)
    assert np.mean(normal) == pytest.approx(0, abs=0.03)
    assert np.std(normal) == pytest.approx(1, abs=0.03)
    assert np.mean(np.abs(normal) > 1.96) == pytest.approx(0.05, abs=0.008)
    assert np.histogram(uniform, 10, (0, 1))[0] == pytest.approx(2000, abs=250)
    _, counts = np.unique(pairs, return_counts=True)
    assert len(counts) == 10
    assert counts == pytest.approx(500, abs=110)
    assert answer(bench, draw, 7)[0] == normal
    assert answer(bench, draw, 8)[0] != normal


def test_the_worker_runs_the_very_text_that_is_tested():
    text = playground.render()
    start = text.index('id="data">') + len('id="data">')
    worker = json.loads(text[start : text.index("</script>", start)])["worker"]
    assert worker == "\n".join(asset(name) for name in playground.WORKER)


def test_a_wish_for_a_round_that_is_overtaken_leaves_nothing_stale(bench):
    look = """(settings) => {
      const hasty = new Replay(settings), calm = new Replay(settings);
      while (hasty.world.n < 20) hasty.reach(100, 0); // no time: one round, then the next wish
      hasty.reach(19, Infinity);
      calm.reach(19, Infinity);
      return [hasty, calm].map((replay) => [replay.frame().n, Array.from(replay.frame().clients)]);
    }"""
    hasty, calm = answer(bench, look, FIRST)
    assert hasty[0] == 19
    assert hasty == calm
