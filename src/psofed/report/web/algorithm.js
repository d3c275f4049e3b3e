"use strict";

// PSO-Fed as a dozen lines of arithmetic: the same equations as `psofed.core`, in its layout, and
// compared with it in the tests. No drawing and no randomness: whoever calls brings the draws and
// owns the arrays. Models of several clients lie one after the other in one array [K, D].

// The feature map z = sqrt(2/D) cos(W x + b), of the inputs x [count, L] into z [count, D].
function features({ W, b, dim, taps }, x, count, z) {
  const scale = Math.sqrt(2 / dim);
  for (let i = 0; i < count; i += 1) {
    for (let j = 0; j < dim; j += 1) {
      let phase = b[j];
      for (let t = 0; t < taps; t += 1) phase += W[j * taps + t] * x[i * taps + t];
      z[i * dim + j] = scale * Math.cos(phase);
    }
  }
}

// w^T z, for the model that begins at w[at] and the features that begin at z[from]. Four sums run
// side by side, because one sum would wait for itself.
function predict(w, at, z, from, dim) {
  let a = 0, b = 0, c = 0, d = 0, j = 0;
  for (; j + 3 < dim; j += 4) {
    a += w[at + j] * z[from + j];
    b += w[at + j + 1] * z[from + j + 1];
    c += w[at + j + 2] * z[from + j + 2];
    d += w[at + j + 3] * z[from + j + 3];
  }
  for (; j < dim; j += 1) a += w[at + j] * z[from + j];
  return a + b + (c + d);
}

// S_{k,n} = (S_{k,0} + tau n) mod D: the right circular shift in closed form. `masks` has the
// positions of one client after the other, or one list that all share.
class Rotating {
  constructor(masks, shift, dim) {
    Object.assign(this, { masks, shift, dim });
  }

  // The positions of the ones of S_{k,n}, into `out` [M].
  entries(k, n, out) {
    const mask = this.masks[this.masks.length === 1 ? 0 : k];
    const moved = ((this.shift % this.dim) * (n % this.dim)) % this.dim;
    for (let i = 0; i < mask.length; i += 1) out[i] = (mask[i] + moved) % this.dim;
    return out;
  }
}

// Eq. (9): w_k <- S_{k,n} w_n + (I - S_{k,n}) w_k.
function receive(local, at, window, w) {
  for (const i of window) local[at + i] = w[i];
}

// Eq. (5) and (10): w_k <- w_k + mu z epsilon, epsilon = y - w_k^T z. Returns epsilon.
function lms(local, at, z, from, y, step, dim) {
  const error = y - predict(local, at, z, from, dim);
  const gain = step * error;
  for (let j = 0; j < dim; j += 1) local[at + j] += gain * z[from + j];
  return error;
}

// Eq. (11): w_{n+1} = w_n + sum_k S_{k,n+1} (w_{k,n+1} - w_n) / |S_n|. `change` is room for D.
function fold(w, change, local, windows, cohort, dim) {
  change.fill(0);
  cohort.forEach((k, i) => {
    for (const j of windows[i]) change[j] += (local[k * dim + j] - w[j]) / cohort.length;
  });
  for (let j = 0; j < dim; j += 1) w[j] += change[j];
}

// Algorithm 1, a round in three parts, so that each can be looked at: down, learn, up.
class PsoFed {
  constructor({ clients, dim, step, masks, shift, idle }) {
    Object.assign(this, { clients, dim, step, idle });
    this.schedule = new Rotating(masks, shift, dim);
    this.w = new Float64Array(dim);
    this.local = new Float64Array(clients * dim);
    this.change = new Float64Array(dim);
    this.room = Array.from({ length: clients }, () => new Int32Array(masks[0].length));
  }

  // The windows of the cohort at round n, in room that is used again by the next call.
  windows(cohort, n) {
    return cohort.map((k, i) => this.schedule.entries(k, n, this.room[i]));
  }

  down(n, cohort) {
    this.windows(cohort, n).forEach((window, i) => receive(this.local, cohort[i] * this.dim, window, this.w));
  }

  // z [K, D] and y [K]: the samples of all clients, of which the idle ones may or may not learn.
  learn(cohort, z, y) {
    const one = (k) => lms(this.local, k * this.dim, z, k * this.dim, y[k], this.step, this.dim);
    if (!this.idle) cohort.forEach(one);
    else for (let k = 0; k < this.clients; k += 1) one(k);
  }

  // The *next* window goes up.
  up(n, cohort) {
    if (cohort.length) fold(this.w, this.change, this.local, this.windows(cohort, n + 1), cohort, this.dim);
  }
}

// Online-Fed, eq. (5)-(7): PSO-Fed that shares every entry, and whose idle clients do nothing.
function onlineFed({ clients, dim, step }) {
  return new PsoFed({ clients, dim, step, masks: [Int32Array.from({ length: dim }, (_, i) => i)], shift: 0, idle: false });
}

// Local only: every client learns alone, and nobody talks.
function localOnly({ clients, dim, step }) {
  return new PsoFed({ clients, dim, step, masks: [new Int32Array(0)], shift: 0, idle: true });
}

// MSE = |y - Z^T w|^2 / N on a test set of features z [N, D] and targets y.
function meanSquare(w, at, { z, y }, dim) {
  let sum = 0;
  for (let i = 0; i < y.length; i += 1) {
    const error = y[i] - predict(w, at, z, i * dim, dim);
    sum += error * error;
  }
  return sum / y.length;
}

// How many entries never travel, and over how many entries two successive windows overlap.
function coverage({ masks, shift, dim }) {
  const travels = new Uint8Array(dim);
  const next = new Set(masks[0].map((i) => (i + shift) % dim));
  for (const mask of masks) {
    for (const first of mask) for (let n = 0; n < dim; n += 1) travels[(first + shift * n) % dim] = 1;
  }
  return { never: travels.filter((x) => !x).length, overlap: masks[0].filter((i) => next.has(i)).length };
}
