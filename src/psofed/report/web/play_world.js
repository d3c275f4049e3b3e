"use strict";

// One run of the paper's section 4: clients with their own AR(1) inputs, one nonlinear f, and the
// compared methods on the same data, features and cohorts.
const TAPS = 4;
const WIDTH = 2; // sigma, the width of the kernel
const TESTS = 400;
const BYTES = 4; // of a number that travels

// f(x) = sqrt(x1^2 + sin^2(pi x4)) + (0.8 - 0.5 exp(-x2^2)) x3.
function truth(x, at = 0) {
  const [x1, x2, x3, x4] = [x[at], x[at + 1], x[at + 2], x[at + 3]];
  return Math.sqrt(x1 ** 2 + Math.sin(Math.PI * x4) ** 2) + (0.8 - 0.5 * Math.exp(-(x2 ** 2))) * x3;
}

class World {
  // `alone` also runs clients that never talk: they cost as much as PSO-Fed.
  constructor(settings, run = 0, alone = true) {
    const { K, D, S, mu, seed } = settings;
    const random = (purpose) => new Random(seed, run, purpose);
    this.settings = settings;
    this.n = 0;
    this.laws = drawLaws(settings, random("laws"));
    this.map = drawFeatures(D, random("features"));
    this.stream = random("stream");
    this.cohorts = random("cohorts");
    this.masks = drawMasks(settings, random("masks"));
    this.x = new Float64Array(K * TAPS);
    this.y = new Float64Array(K);
    this.z = new Float64Array(K * D);
    for (let k = 0; k < K; k += 1) begin(this.laws[k], this.x, k * TAPS, random(`before ${k}`));
    const shape = { clients: K, dim: D, step: mu };
    this.psofed = new PsoFed({ ...shape, masks: this.masks, shift: settings.shift, idle: settings.idle });
    this.online = onlineFed(shape);
    this.local = alone ? localOnly(shape) : null;
    this.test = drawTest(this, random("test"));
    this.cohort = this.cohorts.subset(S, K);
  }

  // Eq. (1): one new sample for each client, y = f(x) + nu, and its features.
  sample() {
    const { laws, x, y, stream } = this;
    laws.forEach((law, k) => {
      const at = k * TAPS;
      const newest = law.theta * x[at] + law.scale * (law.mean + law.deviation * stream.normal());
      x.copyWithin(at + 1, at, at + TAPS - 1);
      x[at] = newest;
      y[k] = truth(x, at) + law.noise * stream.normal();
    });
    features(this.map, x, laws.length, this.z);
  }

  // One round. `look` is called after each part of PSO-Fed's: "down", "learn", "up".
  round(look = () => {}) {
    const { n, cohort, psofed, online, local } = this;
    this.sample();
    psofed.down(n, cohort);
    look("down");
    psofed.learn(cohort, this.z, this.y);
    look("learn");
    psofed.up(n, cohort);
    look("up");
    online.down(n, cohort);
    online.learn(cohort, this.z, this.y);
    online.up(n, cohort);
    if (local) local.learn(cohort, this.z, this.y);
    this.n += 1;
    this.cohort = this.cohorts.subset(cohort.length, this.settings.K);
  }

  // The test errors of the three: of the server's models, and of the clients' own on average.
  errors(withLocal) {
    const { K, D } = this.settings;
    const of = (w) => meanSquare(w, 0, this.test, D);
    let alone = NaN;
    if (withLocal && this.local) {
      alone = 0;
      for (let k = 0; k < K; k += 1) alone += meanSquare(this.local.local, k * D, this.test, D) / K;
    }
    return [of(this.psofed.w), of(this.online.w), alone];
  }
}

// theta_k, mu_k, sigma_u and sigma_nu of each client, from the paper's ranges. The noise setting is
// the mean variance; 0.0175 gives the paper's U(0.005, 0.03).
function drawLaws({ K, noise }, random) {
  return Array.from({ length: K }, () => {
    const theta = random.uniform(0.2, 0.9);
    const mean = random.uniform(-0.2, 0.2);
    const deviation = Math.sqrt(random.uniform(0.2, 1.2));
    return { theta, mean, deviation, scale: Math.sqrt(1 - theta ** 2),
      noise: Math.sqrt(noise * random.uniform(2 / 7, 12 / 7)) };
  });
}

// W ~ N(0, 1/sigma^2), b ~ U(0, 2 pi); all clients share them.
function drawFeatures(dim, random) {
  const W = Float64Array.from({ length: dim * TAPS }, () => random.normal() / WIDTH);
  const b = Float64Array.from({ length: dim }, () => random.uniform(0, 2 * Math.PI));
  return { W, b, dim, taps: TAPS };
}

// S_{k,0}: a block or a random set of positions; one for all (coordinated), or each its own.
function drawMasks({ K, D, M, scheme, mask }, random) {
  const common = scheme === "coordinated";
  return Array.from({ length: common ? 1 : K }, () => {
    if (mask === "scattered") return Int32Array.from(random.subset(M, D));
    const offset = common ? 0 : Math.floor(random.uniform(0, D));
    return Int32Array.from({ length: M }, (_, i) => (offset + i) % D);
  });
}

// A window of the input in its stationary law, newest first.
function begin(law, x, at, random) {
  let value = law.mean * Math.sqrt((1 + law.theta) / (1 - law.theta)) + law.deviation * random.normal();
  for (let t = TAPS - 1; t >= 0; t -= 1) {
    x[at + t] = value;
    value = law.theta * value + law.scale * (law.mean + law.deviation * random.normal());
  }
}

// Noise-free samples of all clients in turn, fixed within the run.
function drawTest({ laws, map }, random) {
  const x = new Float64Array(TESTS * TAPS);
  const z = new Float64Array(TESTS * map.dim);
  const y = new Float64Array(TESTS);
  for (let i = 0; i < TESTS; i += 1) {
    begin(laws[i % laws.length], x, i * TAPS, random);
    y[i] = truth(x, i * TAPS);
  }
  features(map, x, TESTS, z);
  return { z, y };
}

// A cut through f: the input stands still at t, x = (t, t, t, t).
class Slice {
  constructor({ map }, points = 121, reach = 2) {
    this.t = Float64Array.from({ length: points }, (_, i) => reach * ((2 * i) / (points - 1) - 1));
    const x = Float64Array.from({ length: points * TAPS }, (_, i) => this.t[Math.floor(i / TAPS)]);
    this.dim = map.dim;
    this.z = new Float64Array(points * map.dim);
    this.y = this.t.map((_, i) => truth(x, i * TAPS));
    features(map, x, points, this.z);
  }

  of(w) {
    return this.t.map((_, i) => predict(w, 0, this.z, i * this.dim, this.dim));
  }
}

// What one round costs, up and down together.
function traffic({ S, D, M }) {
  return { psofed: 2 * BYTES * S * M, online: 2 * BYTES * S * D };
}
