"use strict";

// Learning curves with their switches: which curves, against rounds or bytes, linear or log.
const TOTALS = {
  unicast: ["up + down", ([up, down]) => add(up, down)],
  up: ["up only", ([up]) => up],
  multicast: ["up + multicast down", ([up, , multicast]) => add(up, multicast)],
};

function add(one, other) {
  return one.map((value, i) => value + other[i]);
}

class Curves {
  // about: {series, groups, levels, top, axis, total, log, label, targets, together}; series as
  // `unpack` gives them. Together, all groups are shown at first.
  constructor(host, about) {
    this.about = about;
    this.groups = about.groups.length ? [...about.groups, { name: "All", rows: about.series.map((_, i) => i) }] : [];
    const hasBytes = about.series.some((s) => s.sent);
    this.state = { group: about.together ? this.groups.length - 1 : 0, axis: about.axis || "rounds", total: about.total || "unicast", floors: true,
      log: { rounds: !!about.log, bytes: true } };
    this.bar = el("div", { class: "bar" });
    this.hidden = el("p", { class: "soft", role: "status" });
    this.switches = [
      this.choice("Curves", this.groups.map((g, i) => [i, g.name]), () => this.state.group, (i) => { this.state.group = i; }),
      hasBytes ? this.choice("Against", [["rounds", "Rounds"], ["bytes", "Bytes"]], () => this.state.axis, (v) => { this.state.axis = v; }) : null,
      hasBytes ? this.choice("Bytes counted", Object.entries(TOTALS).map(([key, [name]]) => [key, name]), () => this.state.total,
        (v) => { this.state.total = v; }, () => this.state.axis === "bytes") : null,
      this.choice("Scale", [[false, "Linear"], [true, "Log"]], () => this.state.log[this.state.axis], (v) => { this.state.log[this.state.axis] = v; }),
      about.levels.length ? this.toggle(about.levelName || "Levels", () => this.state.floors, (v) => { this.state.floors = v; }) : null,
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
    const { series } = this.about;
    return this.groups.length ? this.groups[this.state.group].rows.map((i) => series[i]) : series;
  }

  // The x of a curve, or null if it has none on this axis.
  at(curve) {
    if (this.state.axis === "rounds") return curve.x;
    const sent = curve.sent && TOTALS[this.state.total][1](curve.sent);
    return sent && sent[sent.length - 1] > 0 ? sent : null;
  }

  spec() {
    const { state, about } = this;
    const isBytes = state.axis === "bytes";
    const levels = state.floors ? about.levels : [];
    const series = this.chosen().filter((s) => this.at(s)).map((s) => ({ ...s, x: this.at(s) }));
    return {
      label: about.label,
      xLabel: isBytes ? `bytes, ${TOTALS[state.total][0]}` : "round n",
      yLabel: about.targets ? `test MSE (dB), ${about.targets}` : "test MSE (dB)",
      xLog: state.log[state.axis],
      series,
      levels,
      yRange: this.range(levels),
      height: Math.min(460, Math.max(300, innerHeight * 0.6)),
      formatX: isBytes ? bytes : thousands,
      tickX: isBytes ? roundBytes : thousands,
      tickY: thousands,
      formatY: (value) => decimals(value),
    };
  }

  // The same for all groups, so that they can be compared by switching.
  range(levels) {
    let [low, high] = [Infinity, -Infinity];
    const see = (value) => { if (value != null) { low = Math.min(low, value); high = Math.max(high, value); } };
    this.about.series.forEach((s) => [s.y, ...(s.points && s.low ? [s.low, s.high] : [])].forEach((values) => values.forEach(see)));
    levels.forEach((level) => see(level.value));
    if (low > high) return null;
    return [low, this.about.top == null ? high : Math.min(high, this.about.top)];
  }
}
