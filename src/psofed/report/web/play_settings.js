"use strict";

// What can be set, its limits, and the address that holds it. An address comes from anywhere, so
// whatever is in it ends as one of these values or as nothing.
const FIRST = { K: 12, D: 40, M: 4, S: 3, shift: 4, mu: 0.75, noise: 0.0175, N: 1000, runs: 5, seed: 1,
  scheme: "coordinated", mask: "block", idle: true };

// A range may depend on what is above it: M cannot pass D, nor the cohort K.
const RANGES = {
  K: { label: "Clients", symbol: "K", low: 2, high: 100, step: 1 },
  D: { label: "Numbers in a model", symbol: "D", hint: "cells in a row", low: 8, high: 200, step: 1 },
  M: { label: "Numbers shared", symbol: "M", hint: "of D, down and up, in a round", low: 1, high: (s) => s.D, step: 1 },
  S: { label: "Clients selected", symbol: "|S|", hint: "talk to the server in a round", low: 1, high: (s) => s.K, step: 1 },
  shift: { label: "Shift a round", symbol: "τ", hint: "how far the window moves on", low: 0, high: (s) => s.D - 1, step: 1 },
  mu: { label: "Step", symbol: "μ", hint: "how strongly a sample corrects", low: 0.05, high: 2, step: 0.05 },
  noise: { label: "Noise variance", symbol: "σ²", hint: "of what the clients measure", low: 0, high: 0.25, step: 0.0025 },
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

