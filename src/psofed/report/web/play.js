"use strict";

// The playground: settings go to a worker, which sends back curves and rounds; this draws them.
const STILL = matchMedia("(prefers-reduced-motion: reduce)");

class Playground {
  constructor(root) {
    this.settings = fromHash(location.hash);
    this.curves = new Curves();
    this.clock = new Clock();
    Object.assign(this, { id: 0, n: 0, phase: 0, since: 0, playing: false, asked: false, rested: 0, turn: 0, counted: 0 });
    this.worker = new Worker(URL.createObjectURL(new Blob([DATA.worker], { type: "text/javascript" })));
    this.worker.onmessage = ({ data }) => { if (data.id === this.id) this[data.type](data); };
    this.build(root);
    this.restart();
    this.play(!STILL.matches);
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
    this.transport.last(settings.N);
    this.lead.replaceChildren(...lead(settings));
    this.tour.show(settings);
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
    this.clock.arrived(data.n, this.since);
    this.picture.set(data, this.settings);
    this.changed();
    if (this.later != null) this.ask(this.later, 3);
  }

  points(data) {
    this.curves.append(data);
    this.took = performance.now() - this.rested; // for those who measure
    this.curveChart.dirty = this.numbersDirty = true;
    this.dirty ||= data.done; // the caption of the last round tells how it ended
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

  changed() {
    this.dirty = this.curveChart.dirty = this.fitChart.dirty = true;
  }

  get atEnd() {
    return this.n + 1 >= this.settings.N && this.phase === 3;
  }

  // One part of a round on, or one round.
  step() {
    this.play(false);
    if (this.asked) return;
    if (this.phase < 3) this.goTo(this.phase + 1);
    else if (!this.atEnd) this.ask(this.n + 1, 0);
  }

  round() {
    this.play(false);
    if (!this.asked && this.n + 1 < this.settings.N) this.ask(this.n + 1, 3);
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

  // From the beginning, if it had come to the end.
  play(on, hurry = false) {
    const now = performance.now();
    if (on && this.atEnd) this.ask(0, this.clock.inPhases && !hurry ? 0 : 3);
    this.playing = on;
    const first = this.atEnd ? 0 : this.n;
    this.clock.start(first, now, hurry && on ? this.settings.N - first : 0);
    this.transport.show(on, this.clock.hurries);
    this.since = on ? now : this.since;
    this.dirty = true;
  }

  // All that is left, in a time that one can wait for; those who want no motion see the end at once.
  playToEnd() {
    if (this.playing && this.clock.hurries) this.play(false);
    else if (STILL.matches) this.seek(this.settings.N - 1);
    else this.play(true, true);
  }

  setSpeed(speed) {
    this.clock.set(speed, this.n, performance.now());
    this.dirty = true;
  }

  // What is due while it plays.
  advance(now) {
    if (this.asked) return;
    const { clock, settings } = this;
    if (this.atEnd) this.play(false);
    else if (!clock.inPhases) {
      const due = clock.due(now);
      if (due > this.n) this.ask(Math.min(due, settings.N - 1), 3);
      else if (this.n + 1 >= settings.N) this.phase = 3;
    } else if (now - this.since < clock.lasts) return;
    else if (this.phase === 3) this.ask(this.n + 1, 0);
    else {
      this.phase += 1;
      this.since = now;
      this.changed();
    }
  }

  // One thing in a frame, so that none takes long: a chart, the numbers, or the picture.
  tick(now) {
    requestAnimationFrame((later) => this.tick(later));
    if (!this.shown || !this.cost) return;
    if (this.playing) this.advance(now);
    this.turn = (this.turn + 1) % 4;
    if (this.pictured && this.drawOther(now)) return;
    const moving = !STILL.matches && (this.clock.inPhases || !this.playing);
    const part = moving ? Math.min(1, (now - this.since) / Math.min(this.clock.lasts * 0.7, 900)) : 1;
    if (!this.dirty && part === this.part) return;
    this.dirty = false;
    this.part = part;
    this.picture.draw(PHASES[this.phase], part, moving);
    this.write(now);
    this.pictured = true;
  }

  // Whether it was the turn of something else than the picture, and that had something to draw.
  drawOther(now) {
    if (this.turn === 0) return this.curveChart.draw(this.curves, this.cost, this.n, now);
    if (this.turn === 1) return this.fitChart.draw(this.slice, this.shown, now);
    if (this.turn === 2 && this.numbersDirty && now - this.counted > 200) return this.count(now);
    return false;
  }

  // --- what is on the page ---

  build(root) {
    const stage = el("section", { class: "stage", "aria-label": "The picture" });
    const side = el("aside", {});
    const [curves, fit] = [el("section", {}), el("section", {})];
    this.panel = new Panel(side, (wish) => this.change(wish));
    this.tour = new Tour((wish) => this.change(wish));
    this.lead = el("p", { class: "lead" });
    this.numbers = el("div", {});
    root.append(el("h1", {}, TITLE), this.lead, this.tour.node,
      el("div", { class: "layout" }, stage, side,
        el("div", { class: "below" }, el("div", { class: "charts" }, curves, fit), this.numbers, explanation())));
    this.buildStage(stage);
    // On a phone the picture comes first, and what to look for right under it.
    const phone = matchMedia("(max-width: 30rem)");
    const place = () => (phone.matches ? stage : this.lead).after(this.tour.node);
    phone.addEventListener("change", place);
    place();
    this.curveChart = new CurveChart(curves);
    this.fitChart = new FitChart(fit);
  }

  buildStage(stage) {
    this.transport = new Transport(this, this.clock);
    this.phaseButtons = [["Select"], ["Send down", "Down"], ["Learn"], ["Send up", "Up"]].map(([name, brief = name], phase) =>
      el("button", { type: "button", onclick: () => this.goTo(phase) }, `${phase + 1} `,
        el("span", { class: "long" }, name), el("span", { class: "short" }, brief)));
    this.caption = el("p", { class: "caption" });
    this.readout = el("span", { class: "readout", role: "status" }, READ);
    this.warning = el("p", { class: "warning", role: "status" });
    stage.append(this.transport.node,
      el("div", { class: "phases", role: "group", "aria-label": "The four parts of a round" }, this.phaseButtons), this.caption);
    this.picture = new Picture(stage);
    this.reader = new Reader(this.picture, () => PHASES[this.phase],
      (found) => { this.readout.textContent = found ? reading(found) : READ; }, () => { this.dirty = true; });
    stage.append(el("div", { class: "keys" }, legend(), this.readout), this.warning);
  }

  write(now) {
    const { shown, settings } = this;
    const whole = this.playing && !this.clock.inPhases;
    const text = caption(shown, PHASES[this.phase], settings, whole);
    const end = this.atEnd && !this.playing ? ` That was the last round. ${verdict(this.curves, this.cost)}` : "";
    this.caption.setAttribute("aria-live", this.playing ? "off" : "polite");
    this.caption.replaceChildren(el("b", {}, `Round ${shown.n + 1}. `), text, end);
    this.picture.canvas.setAttribute("aria-label", `Models of the server and ${settings.K} clients, ${settings.D} entries each. Arrow keys read them. Round ${shown.n + 1}. ${text}`);
    this.phaseButtons.forEach((button, phase) => button.setAttribute("aria-pressed", String(!whole && phase === this.phase)));
    this.transport.write(shown.n, settings.N, this.playing, now);
  }

  // The figures behind the curves.
  count(now) {
    this.numbersDirty = false;
    this.counted = now;
    this.numbers.replaceChildren(figures(this.curves, this.cost, this.settings));
    return true;
  }
}

const playground = new Playground(document.getElementById("main"));
