"use strict";

// The charts of a page with their switches: which curves, against rounds or bytes, linear or log.
const TOTALS = {
  unicast: ["up + down", ([up, down]) => add(up, down)],
  up: ["up only", ([up]) => up],
  multicast: ["up + multicast down", ([up, , multicast]) => add(up, multicast)],
};

function add(one, other) {
  return one.map((value, i) => value + other[i]);
}

// A series as `Curve.data` writes it: with its band, and its bytes at every x.
function unpack(packed) {
  const { x, y, error } = packed;
  const sent = packed.sent ? packed.sent.map((part) => (typeof part === "number" ? x.map((n) => n * part) : part)) : null;
  const move = (sign) => y.map((v, i) => (v == null ? null : v + sign * (error[i] || 0)));
  const look = packed.points ? { solid: packed.stress >= 0 && !error, size: packed.stress > 0 ? 12 : error ? 6 : 5 } : {};
  return { ...packed, ...look, sent, ...(error ? { low: move(-1), high: move(1) } : {}) };
}

class Curves {
  // about: a chart as `Chart.data` writes it.
  constructor(host, about) {
    this.about = about;
    this.series = about.series.map(unpack);
    this.groups = about.groups.length ? [...about.groups, ["All", this.series.map((_, i) => i)]] : [];
    const hasBytes = this.series.some((s) => s.sent);
    this.state = { group: 0, axis: about.total ? "bytes" : "rounds", total: about.total || "unicast",
      levels: true, log: { rounds: !!about.log, bytes: true } };
    this.bar = el("div", { class: "bar" });
    this.hidden = el("p", { class: "soft", role: "status" });
    this.switches = [
      this.choice("Curves", this.groups.map(([name], i) => [i, name]), () => this.state.group, (i) => { this.state.group = i; }),
      hasBytes ? this.choice("Against", [["rounds", "Rounds"], ["bytes", "Bytes"]], () => this.state.axis, (v) => { this.state.axis = v; }) : null,
      hasBytes ? this.choice("Bytes counted", Object.entries(TOTALS).map(([key, [name]]) => [key, name]), () => this.state.total,
        (v) => { this.state.total = v; }, () => this.state.axis === "bytes") : null,
      about.log == null ? null : this.choice("Scale", [[false, "Linear"], [true, "Log"]], () => this.state.log[this.state.axis], (v) => { this.state.log[this.state.axis] = v; }),
      about.levels.length && about.log != null ? this.toggle("Levels", () => this.state.levels, (v) => { this.state.levels = v; }) : null,
    ].filter(Boolean);
    this.bar.append(...this.switches.map((s) => s.node));
    host.append(this.bar);
    this.chart = new LineChart(host, this.spec());
    this.bar.append(this.chart.buttons());
    host.append(this.hidden);
    this.update();
  }

  // A row of buttons of which one is pressed.
  choice(name, options, get, set, shown = () => true) {
    const buttons = options.map(([value, label]) =>
      el("button", { type: "button", onclick: () => { set(value); this.update(); } }, label));
    const node = el("span", { class: "group", role: "group", "aria-label": name }, buttons);
    const paint = () => {
      node.hidden = !shown() || options.length < 2;
      buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(options[i][0] === get())));
    };
    return { node, paint };
  }

  // One button that is pressed or not.
  toggle(name, get, set) {
    const node = el("button", { type: "button", onclick: () => { set(!get()); this.update(); } }, name);
    return { node, paint: () => node.setAttribute("aria-pressed", String(get())) };
  }

  update() {
    this.switches.forEach((s) => s.paint());
    this.chart.set(this.spec());
    const silent = this.chosen().filter((s) => !this.at(s)).map((s) => s.label);
    this.hidden.textContent = silent.length ? `Not shown, because they send nothing or their bytes are unknown: ${silent.join(", ")}.` : "";
  }

  chosen() {
    return this.groups.length ? this.groups[this.state.group][1].map((i) => this.series[i]) : this.series;
  }

  // The x of a curve, or null if it has none on this axis.
  at(curve) {
    if (this.state.axis === "rounds") return curve.x;
    const sent = curve.sent && TOTALS[this.state.total][1](curve.sent);
    return sent && sent[sent.length - 1] > 0 ? sent : null;
  }

  spec() {
    const { state, about } = this;
    const isBytes = state.axis === "bytes" || about.bytes === "x";
    const levels = state.levels ? about.levels.map(([label, value, short]) => ({ label, value, short })) : [];
    return {
      label: about.title,
      xLabel: state.axis === "bytes" ? `bytes, ${TOTALS[state.total][0]}` : about.x,
      yLabel: about.y,
      xLog: state.log[state.axis],
      series: this.chosen().filter((s) => this.at(s)).map((s) => ({ ...s, x: this.at(s) })),
      levels,
      marks: about.marks.map(([label, value]) => ({ label, value })),
      ticks: about.ticks.length ? about.ticks : null,
      yRange: this.range(levels),
      height: Math.min(460, Math.max(300, innerHeight * 0.6)),
      formatX: isBytes ? bytes : thousands,
      tickX: isBytes ? roundBytes : thousands,
      tickY: thousands,
      formatY: (value) => decimals(value, about.digits),
    };
  }

  // The same for all groups, so that they can be compared by switching.
  range(levels) {
    let [low, high] = [Infinity, -Infinity];
    const see = (value) => { if (value != null) { low = Math.min(low, value); high = Math.max(high, value); } };
    this.series.forEach((s) => [s.y, ...(s.points && s.low ? [s.low, s.high] : [])].forEach((values) => values.forEach(see)));
    levels.forEach((level) => see(level.value));
    if (low > high) return null;
    return [this.about.bottom ?? low, this.about.top == null ? high : Math.min(high, this.about.top)];
  }
}

function decimals(value, digits = 2) {
  return value == null ? "–" : value.toFixed(digits).replace("-", "−");
}

function thousands(value) {
  return value.toLocaleString("en", { maximumFractionDigits: 3 }).replace("-", "−");
}

// A number of bytes at a tick: "10 kB", not "10.0 kB".
function roundBytes(count) {
  return bytes(count).replace(/\.?0+ /, (zeros) => (zeros.startsWith(".") ? " " : zeros));
}
