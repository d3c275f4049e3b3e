"use strict";

// What is going on, in words. Clients and entries are counted from 1, as people do.

function listed(numbers, most = 6) {
  const list = Array.from(numbers).map((i) => i + 1);
  if (list.length > most) return `${list.slice(0, most - 1).join(", ")} and ${list.length - most + 1} more`;
  return list.length < 2 ? list.join("") : `${list.slice(0, -1).join(", ")} and ${list[list.length - 1]}`;
}

// "entries 5–8", "entry 7", "12 scattered entries"; a block that wraps around is two runs.
function entriesOf(window, D) {
  if (window.length === D) return `all ${D} entries`;
  if (window.length === 1) return `entry ${window[0] + 1}`;
  const parts = runs(window);
  if (parts.length > 2) return `${window.length} scattered entries`;
  const spans = parts.map(([first, length]) => (length > 1 ? `${first + 1}–${first + length}` : `${first + 1}`));
  return `entries ${spans.reverse().join(" and ")}`;
}

function windowWords(windows, settings) {
  const alone = settings.scheme === "uncoordinated" && settings.M < settings.D && windows.length > 1;
  if (!alone) return entriesOf(windows[0], settings.D);
  return settings.M === 1 ? "an entry of each one’s own" : `${settings.M} entries of each one’s own`;
}

const capital = (text) => text[0].toUpperCase() + text.slice(1);
const goes = (windows, { scheme }) => (windows[0].length === 1 && (scheme === "coordinated" || windows.length === 1) ? "goes" : "go");

const SAY = {
  select: ({ cohort }, { K }) => cohort.length === K
    ? "The server selects all clients."
    : `The server selects ${cohort.length === 1 ? "client" : "clients"} ${listed(cohort)} at random; the other ${K - cohort.length} are idle in this round.`,
  down: ({ cohort, down }, s) =>
    `${capital(windowWords(down, s))} of the server’s model ${goes(down, s)} down, and ${cohort.length === 1 ? "the client puts" : "the selected put"} them in place of their own.`,
  learn: (_, { idle, S, K }) => (idle && S < K
    ? "Every client, selected or not, corrects its whole model by one new sample of its own stream."
    : "The selected correct their whole models by one new sample each." + (idle ? "" : " Idle clients do not learn.")),
  up: ({ cohort, up }, s) =>
    `${capital(windowWords(up, s))}, the next window, ${goes(up, s)} up, and the server takes ${cohort.length === 1 ? "over what comes" : "the mean"}.`,
};

// Of a phase, or of the whole round when rounds pass too fast for phases.
function caption(frame, phase, settings, whole) {
  if (!whole) return SAY[phase](frame, settings);
  const { cohort, down, up } = frame;
  return `${cohort.length === 1 ? "Client" : "Clients"} ${listed(cohort, 5)}: ${windowWords(down, settings)} down, ${windowWords(up, settings)} up`
    + `${settings.idle && settings.S < settings.K ? "; the others learn, too." : "."}`;
}

// What these settings bring with them, if it is worth a warning.
function warnings({ never, overlap }, { M, D, mask, scheme, shift }) {
  if (M === D) return "";
  if (never) return `With this shift, ${never} of the ${D} entries never travel: the server cannot learn them.`;
  if (mask === "block" && shift && overlap) {
    return `Two windows in a row overlap in ${overlap} ${overlap === 1 ? "entry" : "entries"}: there a client sends back what it has just received, and what it had learned before is lost. A shift of ${M} avoids it.`;
  }
  return "";
}

function number(value) {
  return String(Number(value.toPrecision(3))).replace("-", "−");
}

// 3 s a round, 4 rounds a second.
function pace(rate) {
  return rate < 1 ? `${number(1 / rate)} s a round` : `${Math.round(rate)} ${rate === 1 ? "round" : "rounds"} a second`;
}

// What lies under the pointer.
function reading({ k, i, value }) {
  return `${k < 0 ? "Server" : `Client ${k + 1}`}, entry ${i + 1}: ${number(value)}`;
}

const share = (part) => {
  const words = { 0.5: "half", 0.25: "a quarter", 0.2: "a fifth", 0.1: "a tenth" };
  return words[part] || (part >= 0.01 ? `${number(100 * part)} %` : `1/${Math.round(1 / part)}`);
};

// What the whole run comes to, once it is known.
function verdict(curves, cost) {
  const [ours, theirs] = [curves.last("psofed"), curves.last("online")];
  if (!curves.done || !cost) return "The curves are still being computed.";
  if (curves.psofed.at(-1) == null || theirs == null) return "PSO-Fed’s model has run away: the step is too large.";
  const [gap, error] = [ours - theirs, curves.gapError.at(-1)];
  const spread = error == null ? "" : ` ±${error.toFixed(1)}`;
  const level = Math.abs(gap) < (error == null ? 0.5 : Math.max(2 * error, 0.05)) ? `ends level with Online-Fed, as far as ${error == null ? "one run" : "these runs"} can tell`
    : `ends ${Math.abs(gap).toFixed(1)}${spread} dB ${gap > 0 ? "worse" : "better"} than Online-Fed`;
  if (cost.psofed === cost.online) return `PSO-Fed ${level}, with the same traffic.`;
  return `PSO-Fed ${level} (${ours.toFixed(1).replace("-", "−")} against ${theirs.toFixed(1).replace("-", "−")} dB), with ${share(cost.psofed / cost.online)} of its traffic.`;
}

// The figures behind the curves: what each method sends, and its error.
function figures(curves, cost, { runs: count }) {
  const rounds = Math.max(curves.n.length - 1, 0);
  const rows = METHODS.map(({ key, label }) => {
    const each = cost[key] || 0;
    const level = curves.last(key);
    return [label, `${each} B`, bytes(each * rounds), level == null ? null : `${level.toFixed(2).replace("-", "−")} dB`];
  });
  const mean = count > 1 ? `, mean of ${count} runs` : "";
  return el("section", { class: "figures" }, el("h2", {}, "What it costs"), el("p", { class: "verdict" }, verdict(curves, cost)),
    table(["method", "a round", `${rounds} rounds`, "error then"], rows, `Traffic, up and down together, and the test MSE on noise-free targets${mean}`));
}

// --- what stands on the page all the time ---

const TITLE = "PSO-Fed, one window at a time";
const LOOK = "Move one slider at a time: the curve from before stays for comparison.";
const BY_ROUNDS = "The error is on noise-free targets. Lower is better; 10 dB less is a tenth of the error. The band is one standard error over the runs. The dashed line is the round in the picture.";
const BY_BYTES = "The same over what has travelled (logarithmic): further left is cheaper. “Local only” sends nothing, so it is not here.";
const READ = "Point at a cell, or tap it, to read its number.";

// The whole idea, with the numbers that are set now.
function lead({ K, D, M, S, shift }) {
  const set = (symbol, value) => el("span", { class: "set" }, el("i", {}, `${symbol} = `), el("b", {}, String(value)));
  const start = [set("K", K), " clients learn one function together, each from its own stream. A model is a row of ", set("D", D),
    " numbers, a cell each. In a round ", S < K ? "only " : "", set("|S|", S), S === 1 ? " of them exchanges " : " of them exchange "];
  if (M === D) return [...start, "the whole model with the server."];
  return [...start, "a ", el("b", {}, "window"), " of ", set("M", M), M === 1 ? " number" : " numbers",
    " with the server: one comes down, the next goes up. ",
    ...(shift ? ["The window moves on by ", set("τ", shift), ", so that in time the whole model is exchanged."] : ["Here the window never moves on."])];
}

function legend() {
  const item = (name, ...text) => el("span", { class: "item" }, el("span", { class: `key ${name}` }), ...text);
  return [el("span", { class: "item" }, "below 0", el("span", { class: "ramp" }), "above 0"),
    item("down", "came down"), item("up", "goes up"), el("span", { class: "item" }, "▸ selected"), item("moved", "moved by learning")];
}

function explanation() {
  return el("details", {}, el("summary", {}, "What is computed here"),
    el("p", {}, "The setting is that of the paper’s section 4: clients with correlated inputs, each with a law of its own, f(x) = √(x₁² + sin²(πx₄)) + (0.8 − 0.5 exp(−x₂²)) x₃, D random cosines as features (kernel width 2), and zero models at the start. The error is that of noise-free samples of all clients."),
    el("p", {}, "The arithmetic is the simulator’s: the same equations, compared with the Python code to 1e-9 in every round of many cases. The random numbers are not the simulator’s: they are drawn here, from the seed. The same settings and seed always give the same picture, and the address of this page holds them."),
    el("p", {}, "Bytes are 4 for a number that travels, up and down together. Curves are means of the runs; the picture and the fitted function are of the first. Online-Fed exchanges whole models and its idle clients do not learn; “Local only” is the mean error of clients that exchange nothing."));
}
