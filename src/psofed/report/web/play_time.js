"use strict";

// Which round is due, and the buttons that say so.
const RATES = [0.1, 0.2, 0.4, 1, 4, 15, 60, 250, 1000]; // rounds a second; below 1 a round is shown in phases
const HURRY = 20; // seconds that "play to the end" takes, if the computer can
const GLANCE = 0.1; // seconds between two pictures, when rounds cannot be computed as fast as wished

class Clock {
  constructor() {
    Object.assign(this, { speed: 1, left: 0, from: 0, since: 0, seen: null, measured: 0 });
  }

  get hurries() {
    return this.left > 0;
  }

  get rate() {
    return Math.max(RATES[this.speed], this.left / HURRY);
  }

  get inPhases() {
    return this.rate < 1;
  }

  // Milliseconds for a round, or for a phase of it.
  get lasts() {
    return 1000 / this.rate / (this.inPhases ? 4 : 1);
  }

  // Round n is on the screen; `left` rounds are to be hurried through, or none.
  start(n, now, left) {
    Object.assign(this, { from: n, since: now, left, seen: null, measured: 0 });
  }

  set(speed, n, now) {
    this.speed = speed;
    this.start(n, now, this.left);
  }

  // The round that should be on the screen, but no more of them than are computed at a glance.
  due(now) {
    const wished = this.from + Math.floor(((now - this.since) / 1000) * this.rate);
    const n = this.seen ? this.seen.n : this.from;
    const most = Math.max(1, Math.ceil((this.measured || this.rate / 2) * GLANCE));
    if (wished <= n + most) return wished;
    Object.assign(this, { from: n + most, since: now }); // too slow: what was missed is not made up for
    return n + most;
  }

  // Round n was computed: rounds a second, as they really come.
  arrived(n, now) {
    if (this.seen && n > this.seen.n && now > this.seen.at) {
      const rate = (n - this.seen.n) / ((now - this.seen.at) / 1000);
      this.measured = this.measured ? 0.8 * this.measured + 0.2 * rate : rate;
    }
    this.seen = { n, at: now };
  }
}

// Play and pause, one part or one round on, to the end; the round slider and the speed.
class Transport {
  constructor(player, clock) {
    this.clock = clock;
    const button = (name, act) => el("button", { type: "button", onclick: act }, name);
    this.play = button("Play", () => player.play(!player.playing));
    this.play.className = "play";
    this.end = button("Play to the end", () => player.playToEnd());
    this.end.className = "to-end";
    this.round = el("input", { type: "range", id: "round", min: 1, value: 1, oninput: () => player.seek(Number(this.round.value) - 1) });
    this.roundText = el("output", { for: "round" });
    this.speedText = el("output", { for: "speed" });
    this.speed = el("input", { type: "range", id: "speed", min: 0, max: RATES.length - 1, value: clock.speed,
      oninput: () => player.setSpeed(Number(this.speed.value)) });
    this.node = el("div", { class: "transport" },
      el("div", { class: "bar" }, this.play, button("Next part", () => player.step()), button("Next round", () => player.round()), this.end),
      el("div", { class: "bar" },
        el("span", { class: "field wide" }, el("label", { for: "round" }, "Round"), this.round, this.roundText),
        el("span", { class: "field" }, el("label", { for: "speed" }, "Speed"), this.speed, this.speedText)));
    this.written = 0;
  }

  last(N) {
    this.round.max = N;
  }

  show(playing, hurries) {
    this.play.textContent = playing ? "Pause" : "Play";
    this.end.setAttribute("aria-pressed", String(playing && hurries));
  }

  write(n, N, playing, now) {
    const { clock, speed } = this;
    if (document.activeElement !== this.round || playing) this.round.value = n + 1;
    this.roundText.textContent = `${n + 1} of ${N}`;
    if (Number(speed.value) !== clock.speed) speed.value = clock.speed;
    if (playing && now - this.written < 500 && clock.measured) return; // figures that flicker are not read
    this.written = now;
    const slow = playing && clock.measured && clock.measured < 0.8 * clock.rate;
    const text = slow && clock.rate > 4 ? `${Math.round(clock.measured)} rounds a second (limit)` : pace(clock.rate);
    this.speedText.textContent = text;
    speed.setAttribute("aria-valuetext", pace(RATES[clock.speed]));
  }
}
