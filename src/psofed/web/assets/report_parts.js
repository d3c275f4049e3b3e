"use strict";

// The parts of a report that are not curves.

const TRAFFIC = [["up", "up"], ["down", "down, to each"], ["multicast", "down, multicast"]];

function tableBlock(about) {
  return [heading(about.title), table(about.head, about.rows, about.title), about.note ? el("p", { class: "soft" }, about.note) : null];
}

// One part after the other, as the data has them: charts, numbers with bars, tables.
function partBlock(about) {
  return about.series ? chartBlock(about) : about.amounts ? amountsBlock(about) : tableBlock(about);
}

// Numbers with bars, all on one scale: about.amounts are rows of a name and numbers.
function amountsBlock(about) {
  const most = about.most || Math.max(...about.amounts.flatMap(([, ...values]) => values.map((v) => Math.abs(v || 0))), 1e-12);
  const cell = (value) => el("td", { class: "amount" }, el("span", {}, decimals(value, about.digits)), bar(Math.min(Math.max((value || 0) / most, 0), 1)));
  const head = el("tr", {}, about.head.map((name) => el("th", { scope: "col" }, name)));
  const body = about.amounts.map(([name, ...values]) => el("tr", {}, el("th", { scope: "row" }, name), values.map(cell)));
  return [
    heading(about.title),
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": about.title },
      el("table", { class: "traffic" }, el("caption", {}, about.title), el("thead", {}, head), el("tbody", {}, body))),
    about.note ? el("p", { class: "soft" }, about.note) : null,
  ];
}

function heading(text) {
  return el(`h${DATA.sections.length > 1 ? 3 : 2}`, {}, text);
}

// Bytes per round as numbers with bars, all on one scale.
function trafficBlock(rows) {
  const most = Math.max(...rows.flatMap((row) => TRAFFIC.map(([key]) => row[key])), 1);
  const cell = (value) => el("td", { class: "amount" }, el("span", {}, thousands(Math.round(value * 10) / 10)), bar(value / most));
  const head = el("tr", {}, el("th", { scope: "col" }, "method"), TRAFFIC.map(([, name]) => el("th", { scope: "col" }, name)));
  const body = rows.map((row) => el("tr", {}, el("th", { scope: "row" }, row.method), TRAFFIC.map(([key]) => cell(row[key]))));
  return [
    heading("Traffic"),
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Traffic" },
      el("table", { class: "traffic" }, el("thead", {}, head), el("tbody", {}, body))),
    el("p", { class: "soft" }, "Bytes in a round, on average, counted from encoded messages. Multicast: where equal messages go down once, to all."),
  ];
}

function bar(share) {
  return el("svg:svg", { class: "amount-bar", viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" },
    el("svg:rect", { class: "rail", width: 100, height: 6 }), el("svg:rect", { width: share > 0 ? Math.max(100 * share, 0.6) : 0, height: 6 }));
}

function claimsBlock(claims) {
  const word = (holds) => (holds == null ? ["?", "open"] : holds ? ["✓", "yes"] : ["✗", "no"]);
  const finding = ([says, measured, holds]) => {
    const [sign, name] = word(holds);
    return el("li", {}, el("span", { class: `sign ${holds == null ? "soft" : holds ? "good" : "bad"}` }, sign, el("span", { class: "unseen" }, ` ${name}: `)),
      el("span", {}, says, el("span", { class: "soft" }, `: ${measured}`)));
  };
  const claim = (each) => el("article", { class: "claim" },
    el(`h${DATA.sections.length > 1 ? 4 : 3}`, {}, each.title, " ", el("span", { class: "verdict" }, each.verdict)), el("ul", {}, each.findings.map(finding)));
  return [heading("The paper's claims, as measured here"), el("div", { class: "claims" }, claims.map(claim))];
}

// A small chart beside the curves: theory's sweeps, bytes to a target.
function chartBlock(about) {
  const host = el("div");
  const series = about.series.map((s) => ({ ...s, ...band(s.y, s.error) }));
  const seen = [...series.flatMap((s) => [...s.y, ...(s.low || []), ...(s.high || [])]), ...(about.levels || []).map((l) => l.value)].filter((v) => v != null);
  const top = about.top == null ? Math.max(...seen) : about.top;
  const spec = (some) => ({ ...about, label: about.title, series: some, height: 360,
    yRange: about.yLog ? null : [about.bottom ?? Math.min(...seen), top], formatX: about.bytesX ? bytes : thousands, tickX: about.bytesX ? roundBytes : thousands,
    formatY: about.bytesY ? bytes : (value) => decimals(value, about.digits), tickY: about.bytesY ? roundBytes : thousands });
  later(() => {
    const few = about.best ? series.filter((s) => about.best.includes(s.label)) : series;
    const chart = new LineChart(host, spec(few));
    const all = el("button", { type: "button", "aria-pressed": "false", onclick: () => {
      const wanted = all.getAttribute("aria-pressed") === "false";
      all.setAttribute("aria-pressed", String(wanted));
      chart.set(spec(wanted ? series : few));
    } }, "All methods");
    host.prepend(el("div", { class: "bar" }, few.length < series.length ? all : null, chart.buttons()));
  });
  return [heading(about.title), host, about.note ? el("p", { class: "soft" }, about.note) : null];
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

function originBlock(section) {
  const inside = / experiment\.toml\b/.test(section.command) ? " in this folder, which holds experiment.toml" : "";
  return [
    heading("Repeat it"),
    el("p", {}, `This command${inside} gives the same numbers, with these versions on the same kind of processor:`),
    copyBox(section.command, "command"),
    el("p", { class: "soft" }, section.versions.map(([name, version]) => `${name} ${version}`).join(" · ")),
    folded(section.plan ? "The plan, as TOML" : "The experiment, as TOML", copyBox(section.toml, section.plan ? "plan" : "experiment")),
    (section.texts || []).map(({ title, text }) => folded(title, el("pre", { tabindex: 0 }, text))),
  ];
}

function folded(title, ...children) {
  return el("details", {}, el("summary", {}, title), ...children);
}
