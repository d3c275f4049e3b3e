"use strict";

// What can be set, its limits, and the address that holds it. An address comes from anywhere, so
// whatever is in it ends as one of these values or as nothing.
const FIRST = { K: 12, D: 40, M: 4, S: 3, shift: 4, mu: 0.75, noise: 0.0175, N: 1000, runs: 5, seed: 1,
  scheme: "coordinated", mask: "block", idle: true };

// A range may depend on what is above it: M cannot pass D, nor the cohort K.
const RANGES = {
  K: { label: "Clients", symbol: "K", low: 2, high: 100, step: 1 },
  D: { label: "Numbers in a model", symbol: "D", low: 8, high: 200, step: 1 },
  M: { label: "Numbers shared", symbol: "M", low: 1, high: (s) => s.D, step: 1 },
  S: { label: "Clients selected", symbol: "|S|", low: 1, high: (s) => s.K, step: 1 },
  shift: { label: "Shift a round", symbol: "τ", low: 0, high: (s) => s.D - 1, step: 1 },
  mu: { label: "Step", symbol: "μ", low: 0.05, high: 2, step: 0.05 },
  noise: { label: "Noise variance", symbol: "σ²", low: 0, high: 0.25, step: 0.0025 },
  N: { label: "Rounds", symbol: "N", low: 200, high: 5000, step: 200 },
  runs: { label: "Runs averaged in the curves", symbol: "", low: 1, high: 20, step: 1 },
};
const CHOICES = {
  scheme: { label: "Windows of the clients", options: [["coordinated", "all the same"], ["uncoordinated", "each its own"]] },
  mask: { label: "Shape of a window", options: [["block", "neighbours"], ["scattered", "scattered"]] },
};
const SEEDS = 1e9;

function limits(name, settings) {
  const { low, high, step } = RANGES[name];
  return { low, high: typeof high === "function" ? high(settings) : high, step };
}

// The settings nearest to what was wished for; what makes no sense is left as it was.
function valid(wish, otherwise = FIRST) {
  const settings = {};
  for (const name of Object.keys(RANGES)) {
    const { low, high, step } = limits(name, settings);
    const [value, usual] = [numeric(wish[name]), otherwise[name]];
    settings[name] = snap(Number.isFinite(value) ? value : usual, low, high, step);
  }
  for (const [name, { options }] of Object.entries(CHOICES)) {
    settings[name] = options.some(([value]) => value === wish[name]) ? wish[name] : otherwise[name];
  }
  settings.idle = [true, "true", "1"].includes(wish.idle) ? true
    : [false, "false", "0"].includes(wish.idle) ? false : otherwise.idle;
  const seed = numeric(wish.seed);
  settings.seed = snap(Number.isFinite(seed) ? seed : otherwise.seed, 0, SEEDS, 1);
  return settings;
}

// A plain decimal number, and nothing else that JavaScript would take for one.
function numeric(text) {
  return /^-?\d{1,12}(\.\d{1,12})?$/.test(String(text)) ? Number(text) : NaN;
}

function snap(value, low, high, step) {
  const steps = Math.round((Math.min(Math.max(value, low), high) - low) / step);
  return Number((low + steps * step).toFixed(6));
}

function toHash(settings) {
  return `#${new URLSearchParams(Object.entries(settings).map(([name, value]) => [name, String(value)]))}`;
}

function fromHash(hash) {
  const wish = {};
  for (const [name, value] of new URLSearchParams(hash.slice(1, 500))) {
    if (Object.keys(FIRST).includes(name)) wish[name] = value;
  }
  return valid(wish);
}

// Buttons that set something worth looking at, and what to look for.
const PAPER = { K: 100, D: 200, M: 40, S: 4, shift: 1, mu: 0.75, noise: 0.0175, N: 1000, runs: 1,
  scheme: "coordinated", mask: "scattered", idle: true };
const PRESETS = [
  { name: "Start here", wish: { ...FIRST, seed: undefined },
    look: "A tenth of each model travels. Watch the window walk to the right: what goes up in one round comes down in the next." },
  { name: "The paper’s setting", wish: PAPER,
    look: "A fifth of the traffic: PSO-Fed starts more slowly and ends about level with Online-Fed. Columns of one colour mean that clients agree." },
  { name: "One number a round", wish: { M: 1, shift: 1 },
    look: "The least that can be shared. Slow at first, because a number waits D rounds for its turn; meanwhile idle clients learn." },
  { name: "Everything is shared", wish: (s) => ({ M: s.D }),
    look: "Now the server’s model is Online-Fed’s, number for number: both curves are one. What idle clients learn is overwritten." },
  { name: "Idle clients sleep", wish: { idle: false },
    look: "Only the selected clients learn, so most bars at the right stay empty. Compare the curve with idle learning switched on again." },
  { name: "The window stands still", wish: { shift: 0 },
    look: "The same few numbers travel in every round and the rest of the server’s model stays zero: it cannot learn." },
  { name: "No noise", wish: { noise: 0 },
    look: "The rest of the error is not noise: D random cosines can approximate f only so well, and some parts are learned very slowly." },
  { name: "Too large a step", wish: { mu: 2 },
    look: "Corrections overshoot. The clients’ models can diverge, and PSO-Fed with them, while Online-Fed, which starts from the average in each round, stays stable." },
];
const wishOf = (preset, settings) => (typeof preset.wish === "function" ? preset.wish(settings) : preset.wish);
