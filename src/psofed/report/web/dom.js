"use strict";

// The page's data, and the only way in which anything is put on the screen: as text.
const DATA = JSON.parse(document.getElementById("data").textContent);

// An element: el("a", {href: "#x", class: "y", onclick: f}, "text", another, ...).
function el(tag, attributes = {}, ...children) {
  const spaced = tag.startsWith("svg:");
  const node = spaced
    ? document.createElementNS("http://www.w3.org/2000/svg", tag.slice(4))
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children.flat(9).filter((child) => child != null));
  return node;
}

// A table from a head and rows of cells; numbers stand on the right.
function table(head, rows, caption) {
  const numeric = head.map((_, j) => j > 0 && rows.length > 0 && rows.every((row) => isNumeric(row[j])));
  const cell = (tag, value, j, more = {}) =>
    el(tag, { class: numeric[j] ? "number" : null, ...more }, value == null ? "–" : String(value));
  return el(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": caption || "Table" },
    el(
      "table",
      {},
      caption ? el("caption", {}, caption) : null,
      el("thead", {}, el("tr", {}, head.map((name, j) => cell("th", name, j, { scope: "col" })))),
      el(
        "tbody",
        {},
        rows.map((row) =>
          el("tr", {}, row.map((value, j) => (j ? cell("td", value, j) : cell("th", value, j, { scope: "row" })))),
        ),
      ),
    ),
  );
}

function isNumeric(value) {
  const text = String(value ?? "–"); // a sentence may begin with a number
  return text.length < 30 && /^([+\-−]?\d|(–|not reached|diverged)$)/.test(text);
}

// 1234567 as "1.23 MB".
function bytes(count) {
  if (count == null) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (Math.abs(count) >= 999.5 && unit < units.length - 1) {
    count /= 1000;
    unit += 1;
  }
  return `${unit ? count.toPrecision(3) : Math.round(count)} ${units[unit]}`;
}
