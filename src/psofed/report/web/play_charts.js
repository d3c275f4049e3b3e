"use strict";

// The learning curves against rounds or bytes, and the fitted function.
const PAUSE = 90; // milliseconds between two drawings of a chart: its lines grow, they do not race
const METHODS = [
  { key: "psofed", label: "PSO-Fed", style: 0 },
  { key: "online", label: "Online-Fed", style: 1 },
  { key: "local", label: "Local only", style: 3 },
];
// What comes for each point: test errors, and one standard error over the runs.
const KEYS = [...METHODS.map(({ key }) => key), "psofedError", "onlineError", "gapError"];

class Curves {
  constructor() {
    this.empty();
    this.before = null;
  }

  empty() {
    this.n = [];
    for (const key of KEYS) this[key] = [];
    this.done = false;
  }

  append({ from, done, ...points }) {
    if (from === 0) this.empty();
    points.psofed.forEach((_, i) => this.n.push(from + i));
    for (const key of KEYS) this[key].push(...points[key]);
    this.done = done;
  }

  // Keep PSO-Fed's curve to compare the next settings with.
  remember(cost) {
    this.before = { n: this.n, y: this.psofed, cost };
  }

  series(cost, byBytes) {
    const along = (n, each) => (byBytes ? n.map((i) => i * each) : n);
    const list = METHODS.filter(({ key }) => !byBytes || key !== "local").map(({ key, label, style }) => {
      const y = this[key];
      if (key !== "local") return { label, style, x: along(this.n, cost[key]), y, ...band(y, this[`${key}Error`]) };
      return { label, style, x: this.n, y };
    });
    const { before } = this;
    if (before) list.push({ label: "PSO-Fed, before", style: 6, x: along(before.n, before.cost.psofed), y: before.y });
    return list;
  }

  last(key) {
    return this[key].filter((value) => value != null).pop();
  }
}

// Low and high, one standard error away; nothing of a single run.
function band(y, error) {
  if (error.at(-1) == null) return {};
  const [low, high] = [-1, 1].map((side) => y.map((value, i) => (value == null ? null : value + side * (error[i] || 0))));
  return { low, high };
}

// Every so many points only, but all early ones: a screen has no room for more.
function thinned(series, most = 1200) {
  const every = Math.ceil(series.x.length / most);
  if (every <= 1) return series;
  const keep = (_, i) => i < 100 || i % every === 0;
  return Object.fromEntries(Object.entries(series).map(([key, each]) => [key, Array.isArray(each) ? each.filter(keep) : each]));
}

// A chart with a line across its curves, for a place that moves while they stay.
class MarkedChart extends LineChart {
  options() {
    const options = super.options();
    const { formatX } = this.spec;
    options.hooks.draw.push((u) => this.drawMark(u));
    if (formatX) options.axes[0].values = (u, splits) => splits.map((x) => (x == null ? "" : formatX(x)));
    return options;
  }

  mark(x) {
    if (x === this.marked) return;
    this.marked = x;
    this.redraw();
  }

  drawMark({ ctx, bbox, valToPos, scales }) {
    if (this.marked == null || !(this.marked >= scales.x.min && this.marked <= scales.x.max)) return;
    const x = valToPos(this.marked, "x", true);
    ctx.save();
    ctx.strokeStyle = token("--soft");
    ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
    ctx.lineWidth = devicePixelRatio;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.restore();
  }
}

class CurveChart {
  constructor(host) {
    this.byBytes = false;
    this.drawn = 0;
    this.host = el("div", {});
    this.note = el("p", { class: "soft" }, BY_ROUNDS);
    const buttons = [["rounds", false], ["bytes", true]].map(([name, byBytes]) =>
      el("button", { type: "button", "aria-pressed": String(!byBytes), onclick: (event) => {
        this.show(byBytes);
        buttons.forEach((b) => b.setAttribute("aria-pressed", String(b === event.currentTarget)));
      } }, name));
    host.append(el("div", { class: "bar" }, el("h2", {}, "How well it learns"),
      el("span", { class: "group", role: "group", "aria-label": "Horizontal axis" }, "against", buttons)), this.host, this.note);
  }

  show(byBytes) {
    this.byBytes = byBytes;
    this.dirty = true;
    this.note.textContent = byBytes ? BY_BYTES : BY_ROUNDS;
  }

  // Whether there was something to draw.
  draw(curves, cost, round, now) {
    if (!this.dirty || now - this.drawn < PAUSE) return false;
    this.dirty = false;
    this.drawn = now;
    const { byBytes } = this;
    const spec = { label: "Learning curves", yLabel: "error: test MSE (dB)", height: 250,
      xLabel: byBytes ? "bytes, up and down" : "round", xLog: byBytes, formatX: byBytes ? (x) => bytes(x).replace(/\.0+ /, " ") : undefined,
      formatY: (y) => number(y), series: curves.series(cost, byBytes).map((s) => thinned(s)) };
    if (this.chart) this.chart.set(spec);
    else this.chart = new MarkedChart(this.host, spec);
    this.chart.mark(byBytes ? (round + 1) * cost.psofed : round + 1);
    return true;
  }
}

class FitChart {
  constructor(host) {
    this.drawn = 0;
    this.host = el("div", {});
    host.append(el("div", { class: "bar" }, el("h2", {}, "What it has learned")), this.host,
      el("p", { class: "soft" }, "The closer to the truth, the better. f has four inputs, the last four values of a signal; this is the cut where the signal stands still at t."));
  }

  draw({ t, truth }, frame, now) {
    if (!this.dirty || now - this.drawn < PAUSE) return false;
    this.dirty = false;
    this.drawn = now;
    const inside = (values) => Array.from(values, (y) => (y > -4 && y < 8 ? y : null));
    const spec = { label: "The fitted function", xLabel: "t, with x = (t, t, t, t)", yLabel: "f(x)", height: 250,
      x: Array.from(t), formatY: (y) => number(y), series: [
        { label: "truth", style: 2, y: Array.from(truth) },
        { label: "PSO-Fed", style: 0, y: inside(frame.fit) },
        { label: "Online-Fed", style: 1, y: inside(frame.fitOnline) },
      ] };
    if (this.chart) this.chart.set(spec);
    else this.chart = new LineChart(this.host, spec);
    return true;
  }
}
