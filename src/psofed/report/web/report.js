"use strict";

// A page: the answer, the curves, tables and charts, and how to make it again.
const waiting = [];

function heading(text) {
  return text ? el("h2", {}, text) : null;
}

function soft(text) {
  return text ? el("p", { class: "soft" }, text) : null;
}

// Charts are drawn when they are on the page and have a width.
function chartBlock(about) {
  const host = el("div", { class: "curves" });
  waiting.push(() => { new Curves(host, about); });
  return [host, soft(about.note), caption(about)];
}

function caption(about) {
  const parts = [];
  if (!about.note && about.series.some((s) => s.error && !s.points)) parts.push("Mean of the runs; the band is one standard error.");
  if (about.top != null && about.file) parts.push(`Curves are cut off at ${decimals(about.top, 1)} dB, above the error of no model.`);
  if (about.thinned) parts.push(`Drawn at ${thousands(about.thinned[0])} of ${thousands(about.thinned[1])} marks, including the largest deviations; ${about.file} has all.`);
  return [
    soft(parts.join(" ")),
    about.file ? el("p", { class: "soft hint" }, "Drag over the curves to zoom, double-click to see all. With the keyboard: arrows, + and −, 0. A name in the legend hides its curve.") : null,
  ];
}

// A text, a chart or a table.
function partBlock(part) {
  if (typeof part === "string") return soft(part);
  if (part.series) return [heading(part.title), chartBlock(part)];
  return [heading(part.title), part.bars ? barsTable(part) : table(part.head, part.rows, part.title), soft(part.note)];
}

// A table whose numbers have bars, all on one scale.
function barsTable({ title, head, rows }) {
  const amount = (text) => Number(text.replace(/,/g, "").replace("−", "-")) || 0;
  const most = Math.max(...rows.flatMap(([, ...cells]) => cells.map(amount)), 1e-12);
  const cell = (text) => el("td", { class: "amount" }, el("span", {}, text), bar(Math.min(Math.max(amount(text) / most, 0), 1)));
  const made = rows.map(([name, ...cells]) => el("tr", {}, el("th", { scope: "row" }, name), cells.map(cell)));
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title },
    el("table", { class: "traffic" }, el("caption", {}, title),
      el("thead", {}, el("tr", {}, head.map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, made)));
}

function bar(share) {
  return el("svg:svg", { class: "amount-bar", viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" },
    el("svg:rect", { class: "rail", width: 100, height: 6 }), el("svg:rect", { width: share > 0 ? Math.max(100 * share, 0.6) : 0, height: 6 }));
}

// A text to take along. Where the clipboard is closed to us, it is selected for Ctrl+C.
function copyBox(text, name) {
  const pre = el("pre", { tabindex: 0, "aria-label": name }, text);
  const said = el("span", { class: "soft", role: "status" });
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      said.textContent = "Copied.";
    } catch {
      getSelection().selectAllChildren(pre);
      said.textContent = document.execCommand("copy") ? "Copied." : "Selected: press Ctrl+C.";
    }
  };
  return el("div", { class: "copy" }, pre, el("p", { class: "bar" }, el("button", { type: "button", onclick: copy }, `Copy ${name}`), said));
}

function originBlock(page) {
  const inside = / experiment\.toml\b/.test(page.command) ? " in this folder, which holds experiment.toml" : "";
  const files = page.figures;
  const name = page.plan ? "plan" : "experiment";
  return [
    heading("Repeat it"),
    el("p", {}, `This command${inside} gives the same numbers, with these versions on the same kind of processor:`),
    copyBox(page.command, "command"),
    soft(page.versions.map(([name, version]) => `${name} ${version}`).join(" · ")),
    files.length ? el("p", { class: "soft" }, "Figures in this folder: ", files.flatMap((file, i) => [i ? ", " : "", el("a", { href: `./${file}` }, file)]), ".") : null,
    el("details", {}, el("summary", {}, `The ${name}, as TOML`), copyBox(page.toml, name)),
  ];
}

function show() {
  document.getElementById("main").append(...[
    el("h1", {}, DATA.title),
    el("p", { class: "answer" }, DATA.answer),
    el("p", { class: "soft facts" }, DATA.facts),
    DATA.curves ? chartBlock(DATA.curves) : null,
    DATA.parts.map(partBlock),
    originBlock(DATA),
  ].flat(9).filter(Boolean));
  waiting.forEach((draw) => draw());
}

// What is folded on a screen is read on paper.
const folds = (open) => document.querySelectorAll("details").forEach((node) => { node.open = open; });
addEventListener("beforeprint", () => folds(true));
addEventListener("afterprint", () => folds(false));
show();
