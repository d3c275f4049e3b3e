"use strict";

// The picture: the server's model and every client's as rows of coloured cells, with the window
// that comes down, the one that goes up, who was selected, and how much everybody learned.
const PHASES = ["select", "down", "learn", "up"];

// Blue below zero, grey at zero, yellow above; ever lighter, so that it reads in grey as well.
const COLOURS = colourTable([[20, 48, 107], [70, 96, 150], [139, 141, 143], [213, 190, 100], [255, 243, 170]]);

function colourTable(stops) {
  const table = new Uint32Array(256); // pixels, in the byte order of a canvas
  const bytes = new Uint8Array(table.buffer);
  for (let i = 0; i < 256; i += 1) {
    const place = (i / 255) * (stops.length - 1);
    const [a, b] = [stops[Math.floor(place)], stops[Math.ceil(place)]];
    const share = place - Math.floor(place);
    bytes.set([...a.map((v, c) => v + share * (b[c] - v)), 255], 4 * i);
  }
  return table;
}

// The place of a value in the table. The root shows small values early, when all are small.
function shade(value, reach) {
  const part = Math.min(Math.sqrt(Math.abs(value) / reach), 1);
  return part === part ? Math.round(127.5 + 127.5 * (value < 0 ? -part : part)) : 127;
}

function css(value, reach) {
  const colour = COLOURS[shade(value, reach)];
  return `rgb(${colour & 255} ${(colour >> 8) & 255} ${(colour >> 16) & 255})`;
}

// [3, 4, 5, 9] as [[3, 3], [9, 1]]: where runs of neighbours start, and their lengths.
function runs(entries) {
  const list = [];
  for (const i of Array.from(entries).sort((a, b) => a - b)) {
    const last = list[list.length - 1];
    if (last && last[0] + last[1] === i) last[1] += 1;
    else if (!last || last[0] + last[1] < i) list.push([i, 1]);
  }
  return list;
}

class Picture {
  constructor(host) {
    this.canvas = el("canvas", { role: "img", class: "picture", tabindex: 0 });
    this.context = this.canvas.getContext("2d");
    this.cells = document.createElement("canvas"); // one pixel a cell
    host.append(this.canvas);
    this.frame = null;
  }

  // frame: {n, cohort, down, up, server [2, D], clients [3, K, D]}
  set(frame, { K, D }) {
    if (this.K !== K || this.D !== D) {
      Object.assign(this, { K, D, reach: 14 / Math.sqrt(D) });
      [this.cells.width, this.cells.height] = [D, K + 1];
      this.image = new ImageData(D, K + 1);
      this.pixels = new Uint32Array(this.image.data.buffer);
    }
    this.frame = frame;
    if (this.cursor && (this.cursor.k >= K || this.cursor.i >= D)) this.cursor = null;
    this.learned = Float64Array.from({ length: K }, (_, k) => this.distance(k));
    this.sent = { down: everyone(frame.down), up: everyone(frame.up) };
  }

  // How far client k moved while it learned.
  distance(k) {
    const { D, K, frame: { clients } } = this;
    let sum = 0;
    for (let i = k * D; i < (k + 1) * D; i += 1) sum += (clients[2 * K * D + i] - clients[K * D + i]) ** 2;
    return Math.sqrt(sum);
  }

  layout() {
    const width = this.canvas.clientWidth || 600;
    const narrow = width < 480;
    const left = narrow ? 46 : 52;
    const right = narrow ? 46 : 70;
    const row = Math.max(4, Math.min(17, Math.floor(420 / this.K)));
    const server = { top: 20, height: 28 };
    const top = server.top + server.height + 40;
    return { width, left, right, row, server, top, narrow, cell: (width - left - right) / this.D,
      gap: row > 9 ? 3 : row > 5 ? 1 : 0, height: top + row * this.K + 4 };
  }

  // phase: of PHASES; part: how far it has gone, 0..1; moving: whether anything may fly.
  draw(phase, part, moving) {
    if (!this.frame) return;
    const lay = (this.lay = this.layout());
    this.size(lay);
    [this.ink, this.soft, this.paper] = ["--ink", "--soft", "--paper"].map(token);
    this.context.clearRect(0, 0, lay.width, lay.height);
    this.paint(phase, part);
    this.drawCells(lay);
    this.drawLabels(lay);
    this.drawSelected(lay);
    this.drawBars(lay, phase, part);
    if (phase !== "select") this.drawWindows(lay, "down", phase === "down");
    if (phase === "up") this.drawWindows(lay, "up", true);
    if (moving && part < 1) this.drawFlight(lay, phase, part);
    if (this.cursor) this.drawCursor(lay);
  }

  // The cell that is read by keyboard.
  drawCursor({ left, cell, row, server, top, gap }) {
    const { context: c, cursor: { k, i } } = this;
    c.strokeStyle = token("--focus");
    c.lineWidth = 3;
    const [y, height] = k < 0 ? [server.top, server.height] : [top + k * row, row - gap];
    c.strokeRect(left + i * cell - 1, y - 1, cell + 2, height + 2);
  }

  size({ width, height }) {
    const ratio = window.devicePixelRatio || 1;
    const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== w || this.canvas.height !== h) {
      [this.canvas.width, this.canvas.height] = [w, h];
      this.canvas.style.height = `${height}px`;
    }
    this.context.setTransform(w / width, 0, 0, h / height, 0, 0);
    this.context.imageSmoothingEnabled = false;
  }

  // Cells fade from what they were to what they become, once what flies has arrived.
  paint(phase, part) {
    const { D, K, frame, pixels, reach } = this;
    const late = Math.max(0, Math.min(1, phase === "learn" ? part : (part - 0.6) / 0.4));
    const from = { select: 0, down: 0, learn: 1, up: 2 }[phase] * K * D;
    const to = { select: 0, down: 1, learn: 2, up: 2 }[phase] * K * D;
    const fade = (array, a, b) => array[a] + late * (array[b] - array[a]);
    for (let i = 0; i < D; i += 1) pixels[i] = COLOURS[shade(fade(frame.server, i, phase === "up" ? D + i : i), reach)];
    for (let i = 0; i < K * D; i += 1) pixels[D + i] = COLOURS[shade(fade(frame.clients, from + i, to + i), reach)];
    this.cells.getContext("2d").putImageData(this.image, 0, 0);
  }

  drawCells({ left, cell, row, server, top, gap, height }) {
    const { context: c, cells, D, K } = this;
    c.drawImage(cells, 0, 0, D, 1, left, server.top, D * cell, server.height);
    c.drawImage(cells, 0, 1, D, K, left, top, D * cell, K * row);
    c.fillStyle = this.paper;
    for (let k = 0; gap && k < K; k += 1) c.fillRect(left, top + (k + 1) * row - gap, D * cell, gap);
    for (let i = 1; cell > 5 && i < D; i += 1) {
      c.fillRect(left + i * cell - 0.5, server.top, 1, server.height);
      c.fillRect(left + i * cell - 0.5, top, 1, height - top);
    }
  }

  drawLabels({ width, left, right, cell, row, server, top, narrow }) {
    const { context: c, D, K } = this;
    c.font = "12px system-ui, sans-serif";
    c.fillStyle = this.soft;
    c.textBaseline = "alphabetic";
    c.textAlign = "center";
    const every = [1, 2, 5, 10, 20, 50, 100].find((step) => step * cell >= 24);
    for (let i = every; i <= D; i += every) c.fillText(i, left + (i - 0.5) * cell, 14);
    c.textAlign = "left";
    c.fillText("moved", width - right + (narrow ? 0 : 6), top - 8);
    c.textAlign = "right";
    c.textBaseline = "middle";
    c.fillStyle = this.ink;
    c.fillText("server", left - 6, server.top + server.height / 2);
    c.fillStyle = this.soft;
    if (row < 10) for (let k = 10; k <= K; k += 10) c.fillText(k, left - 12, top + (k - 0.5) * row);
    if (row >= 10) for (let k = 0; k < K; k += 1) if (!this.frame.cohort.includes(k)) c.fillText(k + 1, left - 12, top + (k + 0.42) * row);
  }

  // The selected: a bold number and a mark at the beginning of the row.
  drawSelected({ left, row, top, gap }) {
    const { context: c } = this;
    c.fillStyle = this.ink;
    c.font = "bold 12px system-ui, sans-serif";
    for (const k of this.frame.cohort) {
      const middle = top + k * row + (row - gap) / 2;
      triangle(c, left - 2, middle, 6, "right");
      if (row >= 10) c.fillText(k + 1, left - 12, middle);
    }
  }

  // How far each client moved by learning from its own sample: the idle ones too.
  drawBars({ width, right, row, top, gap, narrow }, phase, part) {
    const { context: c, K, learned } = this;
    const grown = phase === "learn" ? part : phase === "up" ? 1 : 0;
    const room = right - (narrow ? 2 : 8);
    for (let k = 0; k < K; k += 1) {
      const length = room * Math.min(1, learned[k] || 0) * grown;
      c.fillStyle = this.frame.cohort.includes(k) ? this.ink : this.soft;
      c.globalAlpha = this.frame.cohort.includes(k) ? 1 : 0.55;
      c.fillRect(width - right + (narrow ? 0 : 6), top + k * row, length, Math.max(row - gap, 1));
    }
    c.globalAlpha = 1;
  }

  drawWindows(lay, way, strong) {
    const { left, cell, row, server, top, gap } = lay;
    const box = (list, y, height) => {
      for (const [first, length] of runs(list)) this.outline(left + first * cell, y, length * cell, height, way, strong);
    };
    box(this.sent[way], server.top, server.height);
    this.frame.cohort.forEach((k, i) => box(this.frame[way][i], top + k * row, row - gap));
    this.drawArrows(lay, way, strong);
  }

  outline(x, y, width, height, way, strong) {
    const { context: c, lay: { cell } } = this;
    c.strokeStyle = c.fillStyle = way === "down" ? this.ink : tone(2);
    if (cell < 3) { // a box would hide what is in it: a bar above or below
      c.fillRect(x, way === "down" ? y - 3 : y + height, width, 3);
      return;
    }
    const out = cell > 5 ? 1 : 0.5;
    const line = cell > 5 ? (strong ? 2.5 : 1.5) : 1.25;
    const path = () => c.strokeRect(x - out / 2, y - out, width + out, height + 2 * out);
    c.save();
    c.lineWidth = line + 2;
    c.strokeStyle = DARK.matches ? "#000000cc" : "#ffffffcc";
    path();
    c.restore();
    c.lineWidth = line;
    if (way === "up" && cell > 5) c.setLineDash([5, 2]);
    path();
    c.setLineDash([]);
  }

  // Between the server and the clients: full arrows for the way that is meant now.
  drawArrows({ left, cell, server }, way, strong) {
    const { context: c } = this;
    const size = Math.max(2.5, Math.min(7, cell * 0.8));
    const y = server.top + server.height + (way === "down" ? 13 : 24);
    c.fillStyle = way === "down" ? this.ink : tone(2);
    c.globalAlpha = strong ? 1 : 0.45;
    const places = this.sent[way];
    const step = Math.ceil(places.length / 200);
    for (let i = 0; i < places.length; i += step) triangle(c, left + (places[i] + 0.5) * cell, y, size, way);
    c.globalAlpha = 1;
  }

  // The numbers on their way, in their colours.
  drawFlight({ left, cell, row, server, top, gap }, phase, part) {
    const { context: c, frame, D, K, reach } = this;
    if (!(phase in this.sent) || frame.cohort.length * frame.down[0].length > 1500) return;
    const gone = Math.min(1, part / 0.6);
    if (gone === 1) return;
    const smooth = gone * gone * (3 - 2 * gone);
    const share = phase === "down" ? smooth : 1 - smooth;
    c.strokeStyle = phase === "down" ? this.ink : tone(2);
    c.lineWidth = cell > 5 ? 1.5 : 0.5;
    frame.cohort.forEach((k, i) => {
      const y = server.top + share * (top + k * row - server.top);
      for (const j of frame[phase][i]) {
        c.fillStyle = css(phase === "down" ? frame.server[j] : frame.clients[2 * K * D + k * D + j], reach);
        c.fillRect(left + j * cell, y, cell, Math.max(row - gap, 5));
        c.strokeRect(left + j * cell, y, cell, Math.max(row - gap, 5));
      }
    });
  }

  // What lies under a point of the canvas: {k, i, value}; k is -1 in the server's row.
  at(x, y, phase) {
    const { lay, frame, K, D } = this;
    if (!lay || !frame) return null;
    const i = Math.floor((x - lay.left) / lay.cell);
    if (i < 0 || i >= D) return null;
    if (y >= lay.server.top && y < lay.server.top + lay.server.height) return this.read({ k: -1, i }, phase);
    const k = Math.floor((y - lay.top) / lay.row);
    return k < 0 || k >= K ? null : this.read({ k, i }, phase);
  }

  read({ k, i }, phase) {
    const { frame, K, D } = this;
    if (k < 0) return { k, i, value: frame.server[(phase === "up" ? D : 0) + i] };
    return { k, i, value: frame.clients[{ select: 0, down: 1, learn: 2, up: 2 }[phase] * K * D + k * D + i] };
  }
}

// The entries that any client sends or receives, once each, in order.
function everyone(windows) {
  return [...new Set(windows.flatMap((window) => Array.from(window)))].sort((a, b) => a - b);
}

function triangle(c, x, y, size, way) {
  const [dx, dy] = { right: [1, 0], down: [0, 1], up: [0, -1] }[way];
  c.beginPath();
  c.moveTo(x, y);
  c.lineTo(x - dx * size - dy * size * 0.6, y - dy * size - dx * size * 0.6);
  c.lineTo(x - dx * size + dy * size * 0.6, y - dy * size + dx * size * 0.6);
  c.fill();
}
