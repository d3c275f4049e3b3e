"use strict";

// A report: the answer, the curves, the table, the traffic, and how to make it again; of several
// results first all curves together, then each by itself.
const waiting = [];

// Charts are drawn when they are on the page and have a width.
function later(draw) {
  waiting.push(draw);
}

function curvesBlock(section, series) {
  const notes = (section.notes || []).map((note) => el("p", { class: "soft" }, note));
  if (!series.length) return notes;
  const host = el("div", { class: "curves" });
  later(() => { new Curves(host, { ...section, series, label: section.title, levelName: section.kind === "comparison" ? "Target" : "Levels" }); });
  return [host, notes, caption(section, series)];
}

function caption(section, series) {
  const isTheory = section.kind === "theory";
  const parts = [];
  if (!isTheory) parts.push(series.some((s) => s.low) ? "Mean of the runs; the band is one standard error." : "One run: its error is not known.");
  if (section.top != null) parts.push(`Curves are cut off at ${decimals(section.top, 1)} dB, above the error of no model.`);
  const { thinned } = section.curves;
  if (thinned) parts.push(`Drawn at ${thousands(thinned[0])} of ${thousands(thinned[1])} marks, including the largest deviations; ${isTheory ? "theory" : "curves"}.csv has all.`);
  return [
    el("p", { class: "soft" }, parts.join(" ")),
    el("p", { class: "soft hint" }, "Drag over the curves to zoom, double-click to see all. With the keyboard: arrows, + and −, 0. A name in the legend hides its curve."),
  ];
}

function sectionBlocks(section, series) {
  return [
    el("p", { class: "answer" }, section.answer),
    el("p", { class: "soft facts" }, section.facts),
    curvesBlock(section, series),
    section.claims && section.claims.length ? claimsBlock(section.claims) : null,
    (section.parts || []).map(partBlock),
    (section.tables || []).map(tableBlock),
    (section.charts || []).map(chartBlock),
    section.traffic ? trafficBlock(section.traffic) : null,
    originBlock(section),
  ];
}

// The same method has the same colour in all results, and in each another dash.
function styleOf(method, methods, result) {
  const count = STYLES.length;
  const turn = result * Math.ceil(methods / count) + Math.floor(method / count);
  return (method % count) + count * turn;
}

// All curves of all results in one picture, each with the name of its result.
function togetherBlocks(sections, all) {
  const labels = [...new Set(all.flatMap((series) => series.filter((s) => !s.points).map((s) => s.label)))];
  const rows = [];
  const groups = [];
  sections.forEach((section, f) => {
    if (all[f].length) groups.push({ name: section.name, rows: all[f].map((_, i) => rows.length + i) });
    all[f].forEach((s) => rows.push({ ...s, label: `${section.name}: ${s.label}`,
      style: s.points ? rows[rows.length - 1].style : styleOf(labels.indexOf(s.label), labels.length, f) }));
  });
  const levels = [...new Map(sections.flatMap((s) => s.levels).map((level) => [level.label, level])).values()];
  const tops = sections.map((s) => s.top).filter((top) => top != null);
  const host = el("div", { class: "curves" });
  const kinds = [...new Set(sections.map((s) => s.targets).filter(Boolean))];
  const about = { series: rows, groups, levels, together: true, targets: kinds.length > 1 ? "of different kinds" : kinds[0],
    top: tops.length ? Math.max(...tops) : null, log: sections.every((s) => s.log), label: "All results together" };
  if (rows.length) later(() => { new Curves(host, about); });
  const ends = sections.flatMap((s) => s.ends.map((row) => [s.name, ...row]));
  return [
    el("nav", { "aria-label": "Results" }, el("ol", {}, sections.map((s, f) => el("li", {}, el("a", { href: `#result-${f}` }, s.name), `: ${s.answer}`)))),
    rows.length ? [el("h2", {}, "All curves together"), host] : null,
    DATA.notes.map((note) => el("p", {}, el("strong", {}, note))),
    el("h2", {}, "What differs"),
    DATA.differs.length ? table(["", ...sections.map((s) => s.name)], DATA.differs, "Settings that differ") : el("p", {}, "Nothing but the methods: the settings are the same."),
    ends.length ? [el("h2", {}, "Where they end"), table(["result", "method", "steady, dB", "kB in all"], ends, "Where they end")] : null,
  ].flat(9).filter(Boolean);
}

function show() {
  const { sections } = DATA;
  const all = sections.map((section) => unpack(section.curves));
  const main = document.getElementById("main");
  main.append(el("h1", {}, DATA.title));
  if (sections.length === 1) main.append(...sectionBlocks(sections[0], all[0]).flat(9).filter(Boolean));
  else {
    main.append(...togetherBlocks(sections, all));
    sections.forEach((section, f) => main.append(el("section", { id: `result-${f}` },
      el("h2", {}, section.name), el("p", { class: "soft" }, section.title), ...sectionBlocks(section, all[f]))));
  }
  waiting.forEach((draw) => draw());
}

// What is folded on a screen is read on paper.
const folds = (open) => document.querySelectorAll("details").forEach((node) => { node.open = open; });
addEventListener("beforeprint", () => folds(true));
addEventListener("afterprint", () => folds(false));
show();
