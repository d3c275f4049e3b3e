"use strict";

// The playground: settings go to a worker, which sends back curves and rounds; this draws them.
const RATES = [0.1, 0.2, 0.4, 1, 4, 15, 60]; // rounds a second; below 1 a round is shown in phases
const STILL = matchMedia("(prefers-reduced-motion: reduce)");

class Playground {
  constructor(root) {
    this.settings = fromHash(location.hash);
    this.curves = new Curves();
    Object.assign(this, { id: 0, n: 0, phase: 0, since: 0, speed: 1, playing: !STILL.matches, asked: false, rested: 0, turn: 0 });
    this.worker = new Worker(URL.createObjectURL(new Blob([DATA.worker], { type: "text/javascript" })));
    this.worker.onmessage = ({ data }) => { if (data.id === this.id) this[data.type](data); };
    this.build(root);
    this.restart();
    addEventListener("hashchange", () => this.apply(fromHash(location.hash)));
    DARK.addEventListener("change", () => { this.dirty = true; });
    new ResizeObserver(() => { this.dirty = true; }).observe(this.picture.canvas);
    requestAnimationFrame((now) => this.tick(now));
  }

  // --- settings ---

  change(wish) {
    const { settings } = this;
    // A block that moves by its own length goes on to do so.
    const follows = "M" in wish && !("shift" in wish) && settings.mask === "block" && settings.shift === settings.M;
    this.apply(valid({ ...settings, ...wish, ...(follows ? { shift: wish.M } : {}) }, settings));
  }

  apply(settings) {
    if (toHash(settings) === toHash(this.settings)) return this.panel.show(settings);
    const now = performance.now();
    // While somebody drags, the curve to compare with is the one from before.
    if (this.curves.done && now - this.rested > 1000) this.curves.remember(this.cost);
    this.settings = settings;
    history.replaceState(null, "", toHash(settings));
    this.restart();
  }

  restart() {
    const { settings } = this;
    this.id += 1;
    this.rested = performance.now();
    this.n = Math.min(this.n, settings.N - 1);
    this.cost = null;
    this.curves.done = false; // the old ones stay on the screen until the first new points come
    this.worker.postMessage({ type: "start", id: this.id, settings });
    this.asked = false;
    this.ask(this.n, this.phase);
    this.panel.show(settings);
    this.timeline.max = settings.N;
    this.presets.forEach(({ preset, button }) => {
      const wish = wishOf(preset, settings);
      const same = Object.keys(wish).every((name) => wish[name] === undefined || wish[name] === settings[name]);
      button.setAttribute("aria-pressed", String(same));
    });
    const pressed = this.presets.filter(({ button }) => button.getAttribute("aria-pressed") === "true");
    const chosen = pressed.find(({ preset }) => preset === this.chosen) || pressed[0];
    this.look.textContent = chosen ? chosen.preset.look : LOOK;
  }

  // --- what the worker says ---

  started({ traffic, t, truth, never, overlap }) {
    this.cost = traffic;
    this.slice = { t, truth };
    this.warning.textContent = warnings({ never, overlap }, this.settings);
    this.numbersDirty = true;
  }

  frame(data) {
    this.shown = data;
    this.asked = false;
    this.n = data.n;
    this.phase = this.next;
    this.since = performance.now();
    this.picture.set(data, this.settings);
    this.changed();
    if (this.later != null) this.ask(this.later, 3);
  }

  points(data) {
    this.curves.append(data);
    this.took = performance.now() - this.rested; // for those who measure
    this.curveChart.dirty = this.numbersDirty = true;
  }

  // --- the picture in time ---

  // Show round n from a phase on; one wish at a time, and the newest wins.
  ask(n, phase) {
    this.later = null;
    if (this.asked) {
      this.later = n;
      return;
    }
    this.asked = true;
    this.next = phase;
    this.worker.postMessage({ type: "show", id: this.id, round: n });
  }

  get inPhases() {
    return RATES[this.speed] < 1;
  }

  changed() {
    this.dirty = this.curveChart.dirty = this.fitChart.dirty = true;
  }

  step() {
    this.play(false);
    this.forward(performance.now(), true);
  }

  round() {
    this.play(false);
    if (!this.asked && this.n + 1 < this.settings.N) this.ask(this.n + 1, 3);
  }

  // One phase on, or one round where rounds are not shown in phases.
  forward(now, stepping = false) {
    if (this.asked) return;
    if ((this.inPhases || stepping) && this.phase < 3) {
      this.phase += 1;
      this.since = now;
      this.changed();
    } else if (this.n + 1 < this.settings.N) {
      const rounds = this.inPhases || stepping ? 1 : Math.max(1, Math.floor(((now - this.since) / 1000) * RATES[this.speed]));
      this.ask(Math.min(this.n + rounds, this.settings.N - 1), this.inPhases || stepping ? 0 : 3);
    } else this.play(false);
  }

  play(on) {
    this.playing = on;
    this.playButton.textContent = on ? "Pause" : "Play";
    this.since = on ? performance.now() : this.since;
    this.dirty = true;
  }

  tick(now) {
    requestAnimationFrame((later) => this.tick(later));
    if (!this.shown || !this.cost) return;
    const lasts = 1000 / RATES[this.speed] / (this.inPhases ? 4 : 1);
    if (this.playing && now - this.since >= lasts) this.forward(now);
    const moving = !STILL.matches && (this.inPhases || !this.playing);
    const part = moving ? Math.min(1, (now - this.since) / Math.min(lasts * 0.7, 900)) : 1;
    if (this.dirty || part !== this.part) {
      this.dirty = false;
      this.part = part;
      this.picture.draw(PHASES[this.phase], part, moving);
      this.write();
    }
    // One of these at a time, so that no frame takes long.
    this.turn = (this.turn + 1) % 3;
    if (this.turn === 0) this.curveChart.draw(this.curves, this.cost, this.n, now);
    else if (this.turn === 1) this.fitChart.draw(this.slice, this.shown, now);
    else if (this.numbersDirty && now - this.counted > 200) this.count(now);
  }

  // --- what is on the page ---

  build(root) {
    const stage = el("section", { class: "stage", "aria-label": "The picture" });
    const side = el("aside", {});
    this.panel = new Panel(side, (wish) => this.change(wish));
    this.look = el("p", { class: "look" });
    this.warning = el("p", { class: "warning", role: "status" });
    this.presets = PRESETS.map((preset) => ({ preset, button: el("button", { type: "button", onclick: () => this.choose(preset) }, preset.name) }));
    const curves = el("section", {});
    const fit = el("section", {});
    this.numbers = el("div", {});
    root.append(...introduction(),
      el("div", { class: "bar presets", role: "group", "aria-label": "Example settings" }, this.presets.map(({ button }) => button)),
      this.look, el("div", { class: "desk" }, stage, side,
        el("div", { class: "below" }, el("div", { class: "charts" }, curves, fit), this.numbers, explanation())));
    this.buildStage(stage);
    this.buildCharts(curves, fit);
  }

  buildStage(stage) {
    const button = (name, act) => el("button", { type: "button", onclick: act }, name);
    this.playButton = button("", () => this.play(!this.playing));
    this.playButton.className = "play";
    this.timeline = el("input", { type: "range", id: "round", min: 1, value: 1, oninput: () => this.seek(Number(this.timeline.value) - 1) });
    this.roundText = el("output", { for: "round" });
    this.speedText = el("output", { for: "speed" });
    const speed = el("input", { type: "range", id: "speed", min: 0, max: RATES.length - 1, value: this.speed, oninput: () => this.setSpeed(Number(speed.value)) });
    this.phaseButtons = ["Select", "Send down", "Learn", "Send up"].map((name, phase) =>
      el("button", { type: "button", onclick: () => this.goTo(phase) }, `${phase + 1} ${name}`));
    this.caption = el("p", { class: "caption" });
    this.readout = el("span", { class: "readout" });
    stage.append(
      el("div", { class: "bar transport" }, this.playButton, button("Step", () => this.step()), button("Next round", () => this.round()),
        el("span", { class: "field wide" }, el("label", { for: "round" }, "Round"), this.timeline, this.roundText),
        el("span", { class: "field" }, el("label", { for: "speed" }, "Speed"), speed, this.speedText)),
      el("div", { class: "phases", role: "group", "aria-label": "The four parts of a round" }, this.phaseButtons),
      this.caption);
    this.picture = new Picture(stage);
    const { canvas } = this.picture;
    canvas.addEventListener("pointermove", (event) => this.point(event));
    canvas.addEventListener("pointerleave", () => { this.readout.textContent = READ; });
    this.readout.textContent = READ;
    stage.append(el("div", { class: "keys" }, legend(), this.readout), this.warning);
    this.setSpeed(this.speed);
    this.play(this.playing);
  }

  buildCharts(curves, fit) {
    const place = el("div", {});
    const buttons = [["rounds", false], ["bytes", true]].map(([name, byBytes]) =>
      el("button", { type: "button", "aria-pressed": String(!byBytes), onclick: (event) => {
        this.curveChart.byBytes = byBytes;
        this.curveChart.dirty = true;
        buttons.forEach((b) => b.setAttribute("aria-pressed", String(b === event.currentTarget)));
        note.textContent = byBytes ? BY_BYTES : BY_ROUNDS;
      } }, name));
    const note = el("p", { class: "soft" }, BY_ROUNDS);
    curves.append(el("div", { class: "bar" }, el("h2", {}, "How well it learns"),
      el("span", { class: "group", role: "group", "aria-label": "Horizontal axis" }, "against", buttons)), place, note);
    this.curveChart = new CurveChart(place);
    const cut = el("div", {});
    fit.append(el("div", { class: "bar" }, el("h2", {}, "What it has learned")), cut,
      el("p", { class: "soft" }, "f has four inputs, the last four values of a signal. This is the cut where the signal stands still at t, after the round in the picture."));
    this.fitChart = new FitChart(cut);
    this.counted = 0;
  }

  choose(preset) {
    this.chosen = preset;
    this.change(wishOf(preset, this.settings));
  }

  seek(n) {
    this.play(false);
    this.ask(n, 3);
  }

  goTo(phase) {
    this.play(false);
    this.phase = phase;
    this.since = performance.now();
    this.changed();
  }

  setSpeed(speed) {
    this.speed = speed;
    this.speedText.textContent = pace(RATES[speed]);
    this.dirty = true;
  }

  point(event) {
    const found = this.picture.at(event.offsetX, event.offsetY, PHASES[this.phase]);
    const who = found && (found.k < 0 ? "Server" : `Client ${found.k + 1}`);
    this.readout.textContent = found ? `${who}, entry ${found.i + 1}: ${number(found.value)}` : READ;
  }

  write() {
    const { shown, settings } = this;
    const whole = this.playing && !this.inPhases;
    const text = caption(shown, PHASES[this.phase], settings, whole);
    this.caption.setAttribute("aria-live", this.playing ? "off" : "polite");
    this.caption.replaceChildren(el("b", {}, `Round ${shown.n + 1}. `), text);
    this.picture.canvas.setAttribute("aria-label", `Models of the server and ${settings.K} clients, ${settings.D} entries each. Round ${shown.n + 1}. ${text}`);
    this.phaseButtons.forEach((button, phase) => button.setAttribute("aria-pressed", String(!whole && phase === this.phase)));
    if (document.activeElement !== this.timeline || this.playing) this.timeline.value = shown.n + 1;
    this.roundText.textContent = String(shown.n + 1);
  }

  // The figures behind the curves.
  count(now) {
    this.numbersDirty = false;
    this.counted = now;
    const { curves, cost } = this;
    const rounds = Math.max(curves.n.length - 1, 0);
    const rows = METHODS.map(({ key, label }) => {
      const each = cost[key] || 0;
      const level = curves.last(key);
      return [label, `${each} B`, bytes(each * rounds), level == null ? null : `${level.toFixed(2).replace("-", "−")} dB`];
    });
    const mean = this.settings.runs > 1 ? `, mean of ${this.settings.runs} runs` : "";
    this.numbers.replaceChildren(table(["method", "bytes a round", `in ${rounds} rounds`, "test MSE then"], rows,
      `Traffic, up and down together, and the error${mean}`));
  }
}

const playground = new Playground(document.getElementById("main"));
