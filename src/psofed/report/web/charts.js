"use strict";

// Line charts on uPlot: curves with bands, levels, a legend of buttons, zoom by mouse, touch
// buttons and keys. Colours are Okabe and Ito's, each with a dash of its own, so that a chart
// reads in grey; in the dark they are lightened.
const STYLES = [
  { light: "#000000", dark: "#ffffff", dash: [] },
  { light: "#0072b2", dark: "#5ab4f0", dash: [9, 3] },
  { light: "#d55e00", dark: "#ff8a3d", dash: [7, 2, 2, 2] },
  { light: "#009e73", dark: "#3fd3a6", dash: [2, 2] },
  { light: "#cc79a7", dark: "#eda3cb", dash: [14, 4] },
  { light: "#3a9bd6", dark: "#9ad4f7", dash: [7, 2, 2, 2, 2, 2] },
  { light: "#b57b00", dark: "#f2b84b", dash: [4, 4] },
];
const DARK = matchMedia("(prefers-color-scheme: dark)");
const PAPER_WIDTH = 680; // fits A4 and letter
let printing = false;

function tone(style) {
  const entry = STYLES[style % STYLES.length];
  return DARK.matches && !printing ? entry.dark : entry.light;
}

function token(name) {
  const light = { "--ink": "#1a1a1a", "--soft": "#5c5c5c", "--line": "#d8d8d8" };
  return printing ? light[name] : getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// The dashes of a style; beyond the seventh, colours come back with other dashes.
function dash(style) {
  return STYLES[(style + 3 * Math.floor(style / STYLES.length)) % STYLES.length].dash;
}

function swatch(style, points = false, solid = false) {
  const line = { x1: 1, x2: 31, y1: 6, y2: 6, "stroke-width": 2.5, "stroke-dasharray": dash(style).join(" ") };
  const node = points ? el("svg:circle", { cx: 16, cy: 6, r: 3, fill: "none", "stroke-width": 1.5 }) : el("svg:line", line);
  const paint = () => {
    node.setAttribute("stroke", tone(style));
    if (solid) node.setAttribute("fill", tone(style));
  };
  paint();
  DARK.addEventListener("change", paint);
  return el("svg:svg", { width: 32, height: 12, "aria-hidden": "true" }, node);
}

class LineChart {
  // spec: {label, xLabel, yLabel, xLog, height, x, ticks, series, levels, marks, yRange, formatX, formatY, tickX,
  // tickY}
  // series: [{label, y, x?, low?, high?, style?, points?, solid?, size?}]; levels: [{label, value, short?}]; marks: the same
  // along x. Values may be null where nothing is known. A series without its own x uses the chart's.
  // low and high are a band, or error bars if the series is points. yRange is what is shown unless
  // somebody zooms; without it, all.
  constructor(host, spec) {
    this.hidden = new Set();
    this.at = el("span", { class: "at" });
    this.legend = el("div", { class: "legend" });
    this.place = el("div", { class: "plot", tabindex: 0, role: "application" });
    this.root = el("div", { class: "chart" }, this.legend, this.place);
    host.append(this.root);
    this.place.addEventListener("keydown", (event) => this.key(event));
    this.resize = new ResizeObserver(() => this.fit());
    this.resize.observe(this.place);
    this.redraw = () => this.plot && this.plot.redraw(false);
    this.before = () => { printing = true; this.fit(PAPER_WIDTH); this.redraw(); };
    this.after = () => { printing = false; this.fit(); this.redraw(); };
    DARK.addEventListener("change", this.redraw);
    addEventListener("beforeprint", this.before);
    addEventListener("afterprint", this.after);
    this.set(spec);
  }

  // Show something else. The same kind of chart keeps its zoom and is only given its new data.
  set(spec) {
    const kind = JSON.stringify([spec.xLabel, spec.yLabel, spec.xLog, spec.height,
      spec.series.map((s) => [s.label, s.style, !!s.low, !!s.points]), spec.levels, spec.marks]);
    this.spec = spec;
    this.data = joined(spec);
    if (kind === this.kind) {
      this.plot.setData(this.data, !this.isZoomed);
      return;
    }
    this.kind = kind;
    this.isZoomed = false;
    this.build();
  }

  build() {
    if (this.plot) this.plot.destroy();
    this.place.setAttribute("aria-label", `${this.spec.label || this.spec.yLabel}. Arrow keys move along the curves, plus and minus zoom, 0 shows all.`);
    this.plot = new uPlot(this.options(), this.data, this.place);
    this.write();
  }

  options() {
    const { spec } = this;
    const series = [{ label: spec.xLabel }];
    const bands = [];
    spec.series.forEach((s, i) => {
      const style = s.style ?? i;
      const shared = { show: !this.hidden.has(s.label), spanGaps: true };
      series.push({ ...shared, label: s.label, width: s.y.length > 1500 ? 1.5 : 2, stroke: () => tone(style),
        dash: dash(style), points: { show: !!s.points, size: s.size || 6, fill: s.solid ? () => tone(style) : undefined },
        paths: s.points ? () => null : undefined });
      if (!s.low) return;
      if (!s.points) bands.push({ series: [series.length + 1, series.length], fill: () => `${tone(style)}2e` });
      for (let end = 0; end < 2; end += 1) series.push({ ...shared, points: { show: false }, stroke: "transparent", width: 0 });
    });
    const axis = { stroke: () => token("--ink"), grid: { stroke: () => token("--line"), width: 1 },
      ticks: { stroke: () => token("--line"), width: 1 }, font: "13px system-ui, sans-serif", labelFont: "13px system-ui, sans-serif" };
    const ticks = (format) => format ? (u, splits) => splits.map((v) => (v == null ? "" : format(v))) : undefined;
    return {
      width: this.place.clientWidth || 600,
      height: spec.height || 380,
      padding: spec.ticks ? [null, 40, null, null] : undefined,
      legend: { show: false },
      focus: { alpha: 0.15 },
      cursor: { drag: { x: true, y: true, uni: 30 }, dataIdx: nearest, points: { size: 7 } },
      scales: {
        x: { time: false, distr: spec.xLog ? 3 : 1, range: spec.xLog ? (u, low, high) => logSpan(low, high) : undefined },
        y: { range: (u, low, high) => this.span(low, high) },
      },
      series,
      bands,
      axes: [
        { ...axis, label: spec.xLabel, labelSize: 22, size: 40, ...(spec.xLog ? LOG_AXIS : {}), values: ticks(spec.tickX || spec.formatX),
          ...(spec.ticks ? { splits: () => spec.ticks.map(([at]) => at), filter: (u, at) => at, values: () => spec.ticks.map(([, name]) => name) } : {}) },
        { ...axis, label: spec.yLabel, labelSize: 22, size: this.place.clientWidth < 400 ? 48 : 58, values: ticks(spec.tickY || spec.formatY) },
      ],
      hooks: {
        draw: [(u) => this.drawErrors(u), (u) => this.drawLevels(u), (u) => this.drawMarks(u)],
        setCursor: [() => this.write()],
        setSelect: [(u) => { if (u.select.width > 0 || u.select.height > 0) this.isZoomed = true; }],
        ready: [(u) => u.over.addEventListener("dblclick", () => { this.isZoomed = false; })],
      },
    };
  }

  // The vertical range: all data and levels, unless somebody zooms.
  span(low, high) {
    if (this.isZoomed && low != null) return [low, high];
    const values = this.spec.yRange ? [...this.spec.yRange] : (this.spec.levels || []).map((level) => level.value);
    if (low != null && !this.spec.yRange) values.push(low, high);
    if (!values.length) return [0, 1];
    const [bottom, top] = [Math.min(...values), Math.max(...values)];
    const size = Math.max(1, Math.abs(bottom), Math.abs(top));
    const flat = top - bottom < 1e-9 * size; // only rounding tells them apart, and ticks between them have no end
    const room = 0.04 * (flat ? size : top - bottom);
    return [bottom - room, top + room];
  }

  drawLevels(u) {
    const { ctx, bbox } = u;
    const taken = []; // names that are near one another stand side by side
    for (const level of this.spec.levels || []) {
      const y = u.valToPos(level.value, "y", true);
      if (y < bbox.top || y > bbox.top + bbox.height) continue;
      dotted(ctx, [bbox.left, y], [bbox.left + bbox.width, y]);
      const fits = y + 18 * devicePixelRatio < bbox.top + bbox.height; // below the line, if there is room
      const text = level.short && wordWidth(ctx, level.label) > 0.6 * bbox.width ? level.short : level.label;
      const [at, width] = [y + (fits ? 14 : -5) * devicePixelRatio, wordWidth(ctx, text)];
      let right = bbox.left + bbox.width - 6 * devicePixelRatio;
      for (const other of taken) if (Math.abs(other.at - at) < 14 * devicePixelRatio) right = Math.min(right, other.left - 12 * devicePixelRatio);
      taken.push({ at, left: right - width });
      word(ctx, text, right, at);
    }
  }

  drawMarks(u) {
    const { ctx, bbox } = u;
    for (const mark of this.spec.marks || []) {
      const x = u.valToPos(mark.value, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      dotted(ctx, [x, bbox.top], [x, bbox.top + bbox.height]);
      ctx.save();
      ctx.translate(x - 5 * devicePixelRatio, bbox.top + 6 * devicePixelRatio);
      ctx.rotate(-Math.PI / 2);
      word(ctx, mark.label, 0, 0);
      ctx.restore();
    }
  }

  // Bars of one error at points, inside the frame.
  drawErrors(u) {
    const { ctx, bbox } = u;
    let column = 0;
    this.spec.series.forEach((s, i) => {
      column += 1;
      const main = column;
      column += s.low ? 2 : 0;
      if (!s.low || !s.points || !u.series[main].show) return;
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
      ctx.clip();
      ctx.strokeStyle = tone(s.style ?? i);
      ctx.globalAlpha = u.series[main].alpha;
      ctx.lineWidth = 1.2 * devicePixelRatio;
      ctx.beginPath();
      u.data[0].forEach((x, j) => {
        if (u.data[main][j] == null) return;
        const at = u.valToPos(x, "x", true);
        ctx.moveTo(at, u.valToPos(u.data[main + 1][j], "y", true));
        ctx.lineTo(at, u.valToPos(u.data[main + 2][j], "y", true));
      });
      ctx.stroke();
      ctx.restore();
    });
  }

  // The legend: one button a curve, with its value under the cursor.
  write() {
    const { spec, plot } = this;
    if (!plot) return;
    const index = plot.cursor.idx;
    const formatX = spec.formatX || short;
    this.at.textContent = index == null ? "" : `${spec.xLabel} ${formatX(this.data[0][index])}`;
    if (this.entries && this.entries.kind === this.kind) {
      this.entries.list.forEach((entry) => this.writeValue(entry, index));
      return;
    }
    let column = 0;
    const list = spec.series.map((s, i) => {
      column += 1;
      const value = el("span", { class: "value" });
      const main = column;
      const stress = () => this.plot.setSeries(main, { focus: true });
      const calm = () => this.plot.setSeries(null, { focus: true });
      const button = el("button", { type: "button", "aria-pressed": String(!this.hidden.has(s.label)),
        onclick: () => this.toggle(s.label), onpointerenter: stress, onpointerleave: calm, onfocus: stress, onblur: calm },
      swatch(s.style ?? i, s.points, s.solid), el("span", {}, s.label), value);
      const entry = { label: s.label, column, value, button, band: !!s.low };
      column += s.low ? 2 : 0;
      return entry;
    });
    this.entries = { kind: this.kind, list };
    this.legend.replaceChildren(...list.map((entry) => entry.button), this.at);
  }

  writeValue(entry, index) {
    const found = index == null ? null : nearest(this.plot, entry.column, index);
    const y = found == null ? null : this.data[entry.column][found];
    entry.value.textContent = y == null ? "" : (this.spec.formatY || short)(y);
  }

  toggle(label) {
    if (!this.hidden.delete(label)) this.hidden.add(label);
    const show = !this.hidden.has(label);
    const entry = this.entries.list.find((e) => e.label === label);
    entry.button.setAttribute("aria-pressed", String(show));
    for (let j = 0; j < (entry.band ? 3 : 1); j += 1) this.plot.setSeries(entry.column + j, { show });
  }

  // Narrow or widen the rounds shown, about their middle or the cursor.
  zoom(factor) {
    const { plot, data } = this;
    const { min, max } = plot.scales.x;
    const [to, from] = this.spec.xLog ? [Math.log10, (v) => 10 ** v] : [(v) => v, (v) => v];
    const middle = plot.cursor.idx == null ? (to(min) + to(max)) / 2 : to(data[0][plot.cursor.idx]);
    const low = from(middle - (middle - to(min)) * factor);
    const high = from(middle + (to(max) - middle) * factor);
    const [first, last] = [data[0][0], data[0][data[0].length - 1]];
    if (low <= first && high >= last) return this.reset();
    this.isZoomed = true;
    plot.setScale("x", { min: Math.max(low, first), max: Math.min(high, last) });
  }

  reset() {
    this.isZoomed = false;
    this.plot.setData(this.data, true);
  }

  key(event) {
    const { plot, data } = this;
    const step = event.shiftKey ? 10 : 1;
    const move = { ArrowLeft: -step, ArrowRight: step }[event.key];
    if (move) {
      const start = plot.cursor.idx ?? (move > 0 ? -1 : data[0].length);
      const index = Math.max(0, Math.min(data[0].length - 1, start + move));
      plot.setCursor({ left: plot.valToPos(data[0][index], "x"), top: plot.cursor.top > 0 ? plot.cursor.top : 10 });
    } else if (event.key === "+" || event.key === "=") this.zoom(0.5);
    else if (event.key === "-") this.zoom(2);
    else if (event.key === "0" || event.key === "Escape") this.reset();
    else return;
    event.preventDefault();
  }

  // Buttons for those without a mouse or a keyboard.
  buttons() {
    const button = (name, label, act) => el("button", { type: "button", "aria-label": label, title: label, onclick: act }, name);
    return el("span", { class: "group" }, button("+", "Zoom in", () => this.zoom(0.5)),
      button("−", "Zoom out", () => this.zoom(2)), button("Show all", "Show all", () => this.reset()));
  }

  fit(width = this.place.clientWidth) {
    if (this.plot && width) this.plot.setSize({ width, height: this.spec.height || 380 });
  }

  destroy() {
    this.resize.disconnect();
    DARK.removeEventListener("change", this.redraw);
    removeEventListener("beforeprint", this.before);
    removeEventListener("afterprint", this.after);
    if (this.plot) this.plot.destroy();
    this.root.remove();
  }
}

// A logarithmic axis as wide as its data: ticks at 1, 2, ... 9 times each power of ten, of which
// as many are named as have room.
const LOG_AXIS = {
  splits: (u, axis, low, high) => {
    const out = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) {
      for (let digit = 1; digit < 10; digit += 1) out.push(Number((digit * 10 ** power).toPrecision(2)));
    }
    return out.filter((value) => value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9));
  },
  filter: (u, splits) => {
    const digits = splits.map((value) => Math.round(value / 10 ** Math.floor(Math.log10(value) + 1e-9)));
    const decades = Math.log10(u.scales.x.max / u.scales.x.min);
    const named = decades > 3 ? [1] : decades > 1.2 ? [1, 2, 5] : [1, 2, 3, 4, 5, 6, 7, 8, 9];
    return splits.map((value, i) => (named.includes(digits[i]) ? value : null));
  },
};

function logSpan(low, high) {
  return low === high || low == null ? [(low || 1) / 2, (high || 1) * 2] : [low, high];
}

function dotted(ctx, from, to) {
  ctx.save();
  ctx.strokeStyle = token("--soft");
  ctx.setLineDash([2, 4]);
  ctx.lineWidth = devicePixelRatio;
  ctx.beginPath();
  ctx.moveTo(...from);
  ctx.lineTo(...to);
  ctx.stroke();
  ctx.restore();
}

function wordWidth(ctx, text) {
  ctx.save();
  ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
  const { width } = ctx.measureText(text);
  ctx.restore();
  return width;
}

function word(ctx, text, x, y) {
  ctx.save();
  ctx.fillStyle = token("--soft");
  ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
  ctx.textAlign = "right";
  ctx.fillText(text, x, y);
  ctx.restore();
}

// All series over one x, as uPlot wants them; where a series has no value there is null.
function joined(spec) {
  const parts = spec.series.map((s) => [s.x || spec.x, s.y, ...(s.low ? [s.low, s.high] : [])]);
  if (!parts.length) return [[]];
  const same = parts.every((part) => part[0] === parts[0][0]);
  const data = same ? [parts[0][0], ...parts.flatMap((part) => part.slice(1))] : uPlot.join(parts);
  if (!spec.xLog) return data;
  const from = data[0].findIndex((x) => x > 0); // zero has no logarithm
  return data.map((column) => column.slice(from < 0 ? column.length : from));
}

// The entry of a series closest to the one under the cursor, since not all have a value there.
function nearest(u, column, index) {
  const values = u.data[column];
  if (index == null || column === 0) return index;
  for (let away = 0; away < values.length; away += 1) {
    if (values[index - away] != null) return index - away;
    if (values[index + away] != null) return index + away;
  }
  return index;
}

function short(value) {
  if (value == null) return "–";
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
}
