"use strict";

// The live dashboard. It asks the server for its state once a second, and writes it to the screen.
const EVERY = 1000, PATIENCE = 10000, LISTED = 50; // ms between two questions, for a reply; clients listed
const WORDS = { ok: "answering", new: "not heard yet", waited: "waited for", gone: "gone", refused: "refused", quarantined: "in quarantine", silent: "silent", stuck: "stuck", excluded: "excluded" };
const RANK = ["quarantined", "gone", "refused", "silent", "stuck", "waited", "new", "ok", "excluded"];
const MARKS = { good: "●", bad: "▲", soft: "○" };

let shown = null; // what the server has told last
let linked = false, skew = 0, drawn = 0;
const view = { sort: "state", down: false, find: "", state: "", all: false };
const at = {}; // the parts of the page, by name
const charts = {};

// ---- what the server says

async function follow() {
  try {
    const reply = await fetch("state.json", { signal: AbortSignal.timeout(PATIENCE) });
    if (!reply.ok) throw new Error(reply.statusText);
    shown = await reply.json();
    [linked, skew] = [true, shown.time - Date.now() / 1000];
  } catch {
    linked = false;
  }
  render();
  setTimeout(follow, EVERY);
}

function client(k) {
  const row = shown.clients[k];
  const one = Object.fromEntries(shown.about.columns.map((name, j) => [name, row[j]]));
  return { k, name: called(k), ...one, lag: one.last < 0 ? null : shown.n - 1 - one.last };
}

const called = (k) => shown.names[k] ?? String(k);

// ---- in words

const now = () => Date.now() / 1000 + skew;
const count = (value) => value.toLocaleString("en");
const thousands = (value) => (value < 1000 ? String(Math.round(value)) : `${Number((value / 1000).toPrecision(3))}k`);
const decibels = (value) => `${value.toFixed(2)} dB`.replace("-", "−");
const percent = (share, digits) => (share == null ? "–" : `${(100 * share).toFixed(digits)} %`);
const plural = (value, word) => `${count(value)} ${word}${value === 1 ? "" : "s"}`;

function ago(time) {
  if (time == null) return "never";
  const seconds = Math.max(0, Math.round(now() - time));
  return seconds < 2 ? "now" : `${duration(seconds)} ago`;
}

function duration(seconds) {
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} days`;
}

function names(list) {
  if (list.length === 1) return `Client ${list[0].name}`;
  if (list.length > 4) return `${count(list.length)} of ${count(Object.keys(shown.clients).length)} clients`;
  const ids = list.map((one) => one.name);
  return `Clients ${ids.slice(0, -1).join(", ")} and ${ids[ids.length - 1]}`;
}

// The state in one sentence, the worst first: [tone, sentence].
function sentence(everybody) {
  if (!shown) return ["soft", "Connecting to the server."];
  if (!linked) return ["bad", "No connection to the server: it was stopped, or cannot be reached; trying again."];
  if (!shown.connected) {
    return ["bad", shown.trouble ? `No broker: ${shown.trouble}; the server tries again.` : "The server connects to its broker."];
  }
  const all = everybody.filter((one) => one.state !== "excluded");
  const of = (state) => all.filter((one) => one.state === state);
  const [held, gone, refused, fresh] = ["quarantined", "gone", "refused", "new"].map(of);
  const still = all.filter((one) => one.sensor);
  if (shown.silence) return ["bad", `No client has learned anything for ${duration(shown.silence)}, though they answer.`];
  if (held.length) {
    const why = held.length === 1 ? `: ${held[0].why}` : "; their answers are not folded in";
    return ["bad", `${names(held)} ${held.length > 1 ? "are" : "is"} in quarantine${why}.`];
  }
  if (gone.length) return ["bad", silence(gone)];
  if (refused.length) {
    const why = new Set(refused.map((one) => one.reason));
    return ["bad", `Messages of ${names(refused).replace(/^C/, "c")} are refused: ${[...why].join(", ")}.`];
  }
  if (still.length) return ["bad", `${names(still)} ${still.length > 1 ? "learn nothing new, or the same; look at their sensors" : `is ${still[0].state}: ${still[0].sensor}`}.`];
  if (shown.waiting.length) return ["soft", `Round ${shown.n} waits for ${names(shown.waiting.map((k) => ({ name: called(k) }))).replace(/^C/, "c")}.`];
  if (fresh.length) return ["soft", `Round ${shown.n}: ${count(fresh.length)} of ${plural(all.length, "client")} not heard yet.`];
  const lag = Math.max(0, ...all.map((one) => one.lag ?? 0)) + 1;
  const who = all.length > 1 ? `all ${count(all.length)} clients` : "the client";
  return ["good", `Round ${shown.n}: ${who} heard in the last ${lag > 1 ? `${count(lag)} rounds` : "round"}.`];
}

function silence(gone) {
  const lag = gone.length === 1 ? gone[0].lag : Math.min(...gone.map((one) => one.lag ?? 0));
  const plain = gone.length > 1 ? "do not answer" : "does not answer";
  if (shown.about.deadline == null && gone.some((one) => shown.waiting.includes(one.k))) {
    return `Round ${shown.n} waits for ${names(gone).replace(/^C/, "c")}, which ${plain}.`;
  }
  if (!lag) return `${names(gone)} ${plain}.`;
  const least = gone.length > 1 ? "at least " : "";
  return `${names(gone)} ${gone.length > 1 ? "have" : "has"} not answered for ${least}${plural(lag, "round")}.`;
}

// ---- on the screen

function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function render() {
  const all = shown ? Object.keys(shown.clients).map((k) => client(Number(k))) : [];
  const [state, text] = sentence(all);
  const tone = alarms() ? "bad" : state;
  write(at.sentence, text);
  write(at.mark, MARKS[tone]);
  at.mark.className = `mark ${tone}`;
  announce(tone, text);
  document.body.classList.toggle("stale", !linked);
  if (!shown) return;
  const { about } = shown;
  document.title = `${tone === "bad" ? "▲ " : ""}psofed: ${about.run}, round ${shown.n}`;
  write(at.about, `Run ${about.run}: ${about.method}, ${about.clock} clock, ${plural(Object.keys(shown.clients).length, "client")}, cohorts of ${about.cohort}; server start ${shown.start}.`);
  tiles();
  map(all);
  list(all);
  notes();
  reasons();
  if (Date.now() - drawn > 900) { drawn = Date.now(); curves(); }
}

// What the server warns of; whether there is anything.
function alarms() {
  const entries = Object.values(shown ? shown.alarms : {});
  const key = entries.join("\n");
  if (at.alarms.dataset.shown !== key) {
    at.alarms.dataset.shown = key;
    at.alarms.hidden = !key;
    at.alarms.replaceChildren(...entries.map((text) => el("li", {}, text)));
  }
  return entries.length;
}

// For those who listen: not every round, only when it means something else.
function announce(tone, text) {
  const meaning = tone + text.replace(/Round \d+|[\d,]+ rounds?/g, "");
  if (at.live.dataset.meaning === meaning) return;
  at.live.dataset.meaning = meaning;
  write(at.live, text);
}

function tiles() {
  const { about, counts } = shown;
  const tile = (name, big, small) => { write(at[`${name}-big`], big); write(at[`${name}-small`], small); };
  const row = shown.rows[shown.rows.length - 1];
  tile("round", count(shown.n), `${about.rounds ? `of ${count(about.rounds)}; ` : ""}last closed ${ago(shown.closed)}`);
  tile("mse", shown.mse == null ? "–" : decibels(shown.mse), shown.mse == null ? "not known" : `after round ${row[0]}${about.targets ? `, ${about.targets}` : ""}`);
  at["seen-tile"].hidden = !shown.seen;
  if (shown.seen) tile("seen", decibels(shown.seen[0]), `± ${shown.seen[1].toFixed(2)} dB: median and median distance of ${plural(shown.seen[2], "client")}`);
  at["epsilon-tile"].hidden = !shown.epsilon;
  if (shown.epsilon) tile("epsilon", shown.epsilon[0].toPrecision(3), `of epsilon ${shown.epsilon[1].toPrecision(3)}, at most, by a client${shown.epsilon[2] ? `; ${shown.epsilon[2].toPrecision(3)} for a measurement` : ""}`);
  const rate = (total) => (shown.n ? `${bytes(total / shown.n)} a round` : "");
  tile("up", bytes(shown.up), rate(shown.up));
  tile("down", bytes(shown.down), rate(shown.down));
  tile("answers", count(counts.accepted), `accepted of ${count(counts.asked)}; ${count(counts.refused)} refused, ${count(counts.lost)} lost`);
  tile("broker", shown.connected ? "connected" : "away", plural(shown.reconnects, "reconnect"));
}

function curves() {
  const { rows } = shown;
  const x = rows.map((row) => row[0]);
  const known = rows.some((row) => row[1] != null);
  const series = (label, j, style) => ({ label, y: rows.map((row) => row[j]), style });
  at.mse.hidden = !known;
  if (known) {
    chart("mse", { label: "Test error", xLabel: "round", yLabel: shown.about.targets ? `MSE, dB, ${shown.about.targets}` : "MSE, dB", height: 260, x, series: [series("MSE", 1, 0)] });
  }
  chart("bytes", { label: "Bytes a round", xLabel: "round", yLabel: "bytes a round", height: 260, x, series: [series("up", 2, 0), series("down", 3, 2)], formatY: thousands });
}

function chart(name, spec) {
  if (!spec.x.length) return;
  if (charts[name]) charts[name].set(spec);
  else charts[name] = new LineChart(at[name], spec);
}

// One square a client.
function map(all) {
  const cells = at.map.children;
  if (cells.length !== all.length) {
    at.map.className = all.length > 300 ? "map dense" : Object.keys(shown.names).length ? "map named" : "map";
    at.map.replaceChildren(...all.map((one) => el("i", { onclick: () => find(one.name) }, one.name)));
  }
  const totals = {};
  all.forEach((one, i) => {
    totals[one.state] = (totals[one.state] || 0) + 1;
    if (cells[i].className !== one.state) {
      cells[i].className = one.state;
      cells[i].title = `client ${one.name}: ${WORDS[one.state]}`;
    }
  });
  const parts = RANK.filter((state) => totals[state]);
  at.map.setAttribute("aria-label", parts.map((state) => `${totals[state]} ${WORDS[state]}`).join(", "));
  const key = parts.map((state) => `${state}${totals[state]}`).join();
  if (key === at.key.dataset.shown) return;
  at.key.dataset.shown = key;
  at.key.replaceChildren(...parts.map((state) =>
    el("span", {}, el("span", { class: "map" }, el("i", { class: state })), `${count(totals[state])} ${WORDS[state]}`)));
}

const SCORE = "How far its changes are from those of others, as the defence sees it; nobody honest should be above 1";
const LAG = "Rounds that were closed since an answer of the client was last accepted";
const COLUMNS = [
  ["k", "client", (one) => one.name],
  ["state", "state", (one) => WORDS[one.state] + (one.state === "quarantined" ? `: ${one.why}` : ["silent", "stuck"].includes(one.state) ? `: ${one.sensor}` : one.reason ? `: ${one.reason}${one.messages > 1 ? ` (${count(one.messages)})` : ""}` : "")],
  ["contact", "last contact", (one) => ago(one.contact)],
  ["lag", "lag", (one) => (one.lag == null ? "–" : count(one.lag))],
  ["accepted", "accepted", (one) => count(one.accepted)],
  ["refused", "refused", (one) => count(one.refused)],
  ["lost", "lost", (one) => count(one.lost)],
  ["dropped", "dropped", (one) => count(one.dropped)],
  ["score", "score", (one) => (one.score == null ? "–" : one.score.toFixed(1))],
  ["clipped", "clipped", (one) => percent(one.clipped, 0)],
  ["error", "own error", (one) => (one.error == null ? "–" : decibels(one.error))],
  ["learned", "samples learned", (one) => (one.learned == null ? "–" : count(one.learned))],
  ["unlearned", "samples refused", (one) => (one.unlearned == null ? "–" : count(one.unlearned))],
  ["coverage", "in interval", (one) => percent(one.coverage, 1)],
  ["trusted", "trusts", (one) => one.trusted ?? "–"],
];
const lines = new Map(); // by client: its row, made once

function order(all) {
  const key = { state: (one) => RANK.indexOf(one.state), lag: (one) => one.lag ?? Infinity, contact: (one) => -(one.contact ?? 0) }[view.sort] || ((one) => one[view.sort]);
  const wanted = view.find.split(/[\s,]+/).filter(Boolean);
  const kept = all.filter((one) => (!view.state || one.state === view.state) && (!wanted.length || wanted.includes(one.name) || wanted.includes(String(one.k))));
  const sign = view.down ? -1 : 1;
  return kept.sort((a, b) => sign * (key(a) - key(b)) || a.k - b.k);
}

function list(all) {
  const kept = order(all);
  const listed = view.all ? kept : kept.slice(0, LISTED);
  const rows = listed.map((one) => line(one));
  const same = rows.length === at.body.children.length && rows.every((row, i) => row === at.body.children[i]);
  if (!same) at.body.replaceChildren(...rows);
  write(at.more, view.all ? `Show ${LISTED}` : `Show all ${count(kept.length)}`);
  at.more.hidden = kept.length <= LISTED;
  write(at.found, kept.length === all.length ? "" : `${plural(kept.length, "client")} of ${count(all.length)}`);
}

function line(one) {
  if (!lines.has(one.k)) {
    const cells = COLUMNS.map(([, , text], j) => el(j ? "td" : "th", { class: j > 2 ? "number" : null, scope: j ? null : "row" }));
    lines.set(one.k, { row: el("tr", {}, cells), cells });
  }
  const { row, cells } = lines.get(one.k);
  COLUMNS.forEach(([, , text], j) => write(cells[j], text(one)));
  if (cells[1].className !== one.state) cells[1].className = one.state;
  return row;
}

function find(text) {
  view.find = at.find.value = text;
  render();
}

function sortBy(name) {
  view.down = view.sort === name ? !view.down : name !== "k" && name !== "state" && name !== "contact";
  view.sort = name;
  heads();
  render();
}

function heads() {
  COLUMNS.forEach(([name, title], j) => {
    const mine = view.sort === name;
    at.heads[j].setAttribute("aria-sort", mine ? (view.down ? "descending" : "ascending") : "none");
    write(at.heads[j].firstChild, title + (mine ? (view.down ? " ↓" : " ↑") : ""));
  });
}

function clock(time) {
  const date = new Date(time * 1000);
  const today = date.toDateString() === new Date().toDateString();
  return today ? date.toLocaleTimeString("en-GB") : date.toLocaleDateString("en-CA");
}

function notes() {
  const key = JSON.stringify(shown.notes);
  if (at.notes.dataset.shown === key) return;
  at.notes.dataset.shown = key;
  at.notes.replaceChildren(...shown.notes.slice().reverse().map(([time, n, text]) =>
    el("li", {}, el("span", { class: "soft", title: new Date(time * 1000).toLocaleString() }, clock(time)), el("span", { class: "soft" }, `round ${n}`), el("span", {}, text))));
}

function reasons() {
  const entries = Object.entries(shown.reasons).sort((a, b) => b[1] - a[1]);
  const key = JSON.stringify(entries);
  if (at.reasons.dataset.shown === key) return;
  at.reasons.dataset.shown = key;
  at.reasons.hidden = !entries.length;
  at.reasons.replaceChildren(el("h2", {}, "Refused messages"), table(["reason", "messages"], entries.map(([name, value]) => [name, count(value)])));
}

// ---- the page

function build() {
  const part = (name, tag, attributes = {}, ...children) => (at[name] = el(tag, attributes, ...children));
  const tile = (name, title) => part(`${name}-tile`, "div", { class: "tile", hidden: name === "seen" || name === "epsilon" }, el("span", {}, title), part(`${name}-big`, "b", {}, "–"), part(`${name}-small`, "small"));
  const names = [["round", "Round"], ["mse", "MSE"], ["seen", "Error, as clients see it"], ["up", "Up"], ["down", "Down"], ["answers", "Answers"], ["epsilon", "Privacy spent"], ["broker", "Broker"]];
  document.getElementById("main").append(
    el("header", {},
      part("live", "div", { class: "unseen", role: "status" }),
      el("div", { class: "status" }, part("mark", "span", { class: "mark soft", "aria-hidden": "true" }, "○"), part("sentence", "h1", {}, "Connecting to the server.")),
      part("about", "p", { class: "soft" }, " "),
      part("alarms", "ul", { class: "alarms", role: "alert", "aria-label": "Alarms", hidden: true })),
    el("div", { class: "tiles" }, names.map(([name, title]) => tile(name, title))),
    el("div", { class: "two" },
      part("mse", "section", { hidden: true }, el("h2", {}, "Test error")),
      part("bytes", "section", {}, el("h2", {}, "Bytes a round"))),
    el("section", { id: "clients" }, el("h2", {}, "Clients"),
      part("map", "div", { class: "map", role: "img" }), part("key", "div", { class: "key" }), controls(part), clientTable(part)),
    el("div", { class: "two" },
      el("section", {}, el("h2", {}, "What happened"), part("notes", "ol", { class: "notes", tabindex: 0, "aria-label": "What happened, newest first" })),
      part("reasons", "section", { hidden: true })),
  );
  heads();
}

function controls(part) {
  const states = [["", "all states"], ...RANK.map((state) => [state, WORDS[state]])];
  const type = (event) => { view.find = event.target.value; render(); };
  const choose = (event) => { view.state = event.target.value; render(); };
  return el("div", { class: "bar" },
    el("label", {}, "Client ", part("find", "input", { type: "text", size: 8, placeholder: "3, 17", oninput: type })),
    el("label", {}, "State ", el("select", { onchange: choose }, states.map(([value, word]) => el("option", { value }, word)))),
    part("found", "span", { class: "soft", role: "status" }));
}

function clientTable(part) {
  at.heads = COLUMNS.map(([name, title], j) =>
    el("th", { scope: "col", class: j > 2 ? "number" : null, title: { lag: LAG, score: SCORE }[name] ?? null }, el("button", { type: "button", onclick: () => sortBy(name) }, title)));
  return el("div", {},
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Clients" },
      el("table", {}, el("thead", {}, el("tr", {}, at.heads)), part("body", "tbody"))),
    part("more", "button", { type: "button", hidden: true, onclick: () => { view.all = !view.all; render(); } }));
}

build();
follow();
