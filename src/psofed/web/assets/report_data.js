"use strict";

// Curves as `report/thinning.py` packs them.

// Numbers from the steps between them; null stays.
function unsteps(steps, scale) {
  let last = 0;
  return steps.map((step) => (step == null ? null : (last += step) / scale));
}

// A sum at every x from its value where its slope changes.
function unbend(x, bends) {
  const [at, values] = [unsteps(bends[0], 1), unsteps(bends[1], 10)];
  const out = new Array(x.length);
  for (let b = 0; b + 1 < at.length; b += 1) {
    const [i, j] = [at[b], at[b + 1]];
    for (let m = i; m <= j; m += 1) out[m] = values[b] + ((values[b + 1] - values[b]) * (x[m] - x[i])) / (x[j] - x[i] || 1);
  }
  if (at.length === 1) out[0] = values[0];
  return out;
}

function unpack(curves) {
  const shared = curves.x ? unsteps(curves.x, 1) : null;
  return curves.series.map((packed) => {
    const x = packed.x ? unsteps(packed.x, 1) : shared;
    const y = unsteps(packed.y, 1000);
    const error = packed.error ? unsteps(packed.error, 1000) : null;
    const sent = packed.bytes ? packed.bytes.map((bends) => unbend(x, Number.isInteger(bends) ? packed.bytes[bends] : bends)) : null;
    return { ...packed, x, y, sent, ...band(y, error) };
  });
}

// One standard error below and above a curve.
function band(y, error) {
  if (!error) return {};
  const move = (sign) => y.map((v, i) => (v == null ? null : v + sign * (error[i] || 0)));
  return { low: move(-1), high: move(1) };
}

function decimals(value, digits = 2) {
  return value == null ? "–" : value.toFixed(digits).replace("-", "−");
}

function thousands(value) {
  return value.toLocaleString("en", { maximumFractionDigits: 3 }).replace("-", "−");
}

// A number of bytes at a tick: "10 kB", not "10.0 kB".
function roundBytes(count) {
  return bytes(count).replace(/\.?0+ /, (zeros) => (zeros.startsWith(".") ? " " : zeros));
}
