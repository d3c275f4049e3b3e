"use strict";

// The worker of the page: the learning curves, computed ahead as fast as they go, and the run of
// the picture, which goes as far as the page asks. Both are cut into short turns, so that a newer
// wish never waits for an older one.
const TURN = 16; // milliseconds

let job = null; // what is shown now: settings, curves, picture
let wanted = null; // the last wish for a picture that is not yet fulfilled
const next = new MessageChannel(); // a turn after this one, without the wait of a timer
let waiting = false;

function serve() {
  next.port1.onmessage = () => {
    waiting = false;
    turn();
  };
  onmessage = ({ data }) => {
    if (data.type === "start") start(data);
    else if (data.type === "show" && job && data.id === job.id) wanted = data;
    goOn();
  };
}

function goOn() {
  if (waiting) return;
  waiting = true;
  next.port2.postMessage(0);
}

function start({ id, settings }) {
  job = { id, settings, curves: new Curves(settings), picture: new Replay(settings) };
  wanted = null;
  const { slice, world } = job.picture;
  const facts = coverage({ masks: world.masks, shift: settings.shift, dim: settings.D });
  postMessage({ type: "started", id, traffic: traffic(settings), t: slice.t, truth: slice.y, ...facts });
}

// The picture first, because somebody is looking at it; but the curves never stand still.
function turn() {
  if (!job) return;
  const end = performance.now() + TURN;
  if (wanted && job.picture.reach(wanted.round, end)) {
    const frame = { type: "frame", id: job.id, ...job.picture.frame() };
    wanted = null;
    postMessage(frame, [frame.server.buffer, frame.clients.buffer]);
  }
  const points = job.curves.advance(Math.max(end, performance.now() + TURN / 2));
  if (points) postMessage({ type: "points", id: job.id, ...points });
  if (wanted || !job.curves.done) goOn();
}

// The mean test errors of some runs, round by round.
class Curves {
  constructor(settings) {
    this.settings = settings;
    this.n = 0;
    this.worlds = Array.from({ length: settings.runs }, (_, run) => new World(settings, run));
    // Judging every client's own model costs as much as many rounds.
    this.every = Math.ceil(Math.sqrt(settings.K * settings.D) / 7);
  }

  get done() {
    return this.n > this.settings.N;
  }

  // Go on until `end`; at least one round. Returns the new points, from round `from` on.
  advance(end) {
    if (this.done) return null;
    const points = { from: this.n, psofed: [], online: [], local: [], psofedError: [], onlineError: [], gapError: [] };
    do this.point(points);
    while (!this.done && performance.now() < end);
    return { ...points, done: this.done };
  }

  point(points) {
    const { worlds, every, settings } = this;
    const runs = worlds.map((world) => {
      const errors = world.errors(this.n % every === 0 || this.n === settings.N);
      if (this.n < settings.N) world.round();
      return errors;
    });
    const means = [0, 1, 2].map((i) => runs.reduce((sum, errors) => sum + errors[i], 0) / runs.length);
    ["psofed", "online", "local"].forEach((key, i) => points[key].push(decibel(means[i])));
    const [ours, theirs] = [0, 1].map((i) => runs.map((errors) => errors[i] / means[i]));
    points.psofedError.push(stderr(ours.map((part) => part - 1)));
    points.onlineError.push(stderr(theirs.map((part) => part - 1)));
    points.gapError.push(stderr(ours.map((part, run) => part - theirs[run])));
    this.n += 1;
  }
}

// Averaged first, converted last; null where nothing is known or the model has run away.
function decibel(mse) {
  return mse > 0 && mse < 1e4 ? 10 * Math.log10(mse) : null;
}

// The standard error in dB, to first order, from each run's share of the mean; one run has none.
function stderr(shares) {
  const runs = shares.length;
  const error = (10 / Math.LN10) * Math.sqrt(shares.reduce((sum, part) => sum + part ** 2, 0) / (runs * (runs - 1)));
  return Number.isFinite(error) ? error : null;
}

// The first run again, in parts: before, after the window came down, after learning, at the end.
class Replay {
  constructor(settings) {
    this.settings = settings;
    this.begin();
    this.slice = new Slice(this.world);
  }

  begin() {
    const { K, D } = this.settings;
    this.world = new World(this.settings, 0, false);
    this.server = new Float32Array(2 * D);
    this.clients = new Float32Array(3 * K * D);
    this.round = { n: -1 };
  }

  // Play round n, from the beginning if it lies behind; false if `end` came first.
  reach(n, end) {
    if (this.world.n > n && this.round.n !== n) this.begin();
    while (this.world.n <= n) {
      if (this.world.n === n) this.keepRound();
      else this.world.round();
      if (this.world.n <= n && performance.now() > end) return false;
    }
    return true;
  }

  keepRound() {
    const { world, server, clients } = this;
    const { psofed, n, cohort } = world;
    const size = psofed.local.length;
    const copies = (at) => psofed.windows(cohort, at).map((window) => window.slice());
    this.round = { n, cohort, down: copies(n), up: copies(n + 1) };
    server.set(psofed.w, 0);
    clients.set(psofed.local, 0);
    world.round((part) => {
      if (part === "down") clients.set(psofed.local, size);
      if (part === "learn") clients.set(psofed.local, 2 * size);
      if (part === "up") server.set(psofed.w, psofed.w.length);
    });
  }

  // Copies, because they are handed over.
  frame() {
    const { psofed, online } = this.world;
    return { ...this.round, server: this.server.slice(), clients: this.clients.slice(),
      fit: this.slice.of(psofed.w), fitOnline: this.slice.of(online.w) };
  }
}

serve();
