"use strict";

// Seeded random numbers: xoshiro128** of Blackman and Vigna (2018), started by a hash of the seed
// and a purpose. Each purpose has numbers of its own, so that another M leaves the data as they are.
class Random {
  constructor(...purpose) {
    let h = 2166136261;
    for (const sign of purpose.join(":")) h = Math.imul(h ^ sign.codePointAt(0), 16777619);
    this.state = Uint32Array.from({ length: 4 }, () => {
      h = (h + 0x9e3779b9) | 0; // splitmix32
      let x = Math.imul(h ^ (h >>> 16), 0x21f0aaad);
      x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
      return x ^ (x >>> 15);
    });
    this.spare = NaN;
  }

  bits() {
    const s = this.state;
    const rotate = (x, by) => (x << by) | (x >>> (32 - by));
    const result = Math.imul(rotate(Math.imul(s[1], 5), 7), 9) >>> 0;
    const shifted = s[1] << 9;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate(s[3], 11);
    return result;
  }

  // In [low, high).
  uniform(low = 0, high = 1) {
    return low + (high - low) * (this.bits() / 2 ** 32);
  }

  // Standard normal, by the polar method, which makes two at a time.
  normal() {
    const kept = this.spare;
    this.spare = NaN;
    if (kept === kept) return kept;
    let u, v, s;
    do {
      u = this.uniform(-1, 1);
      v = this.uniform(-1, 1);
      s = u * u + v * v;
    } while (s >= 1 || s === 0);
    const scale = Math.sqrt((-2 * Math.log(s)) / s);
    this.spare = v * scale;
    return u * scale;
  }

  // `size` different numbers below `population`, in order: Floyd's method.
  subset(size, population) {
    const chosen = new Set();
    for (let last = population - size; last < population; last += 1) {
      const pick = Math.floor(this.uniform(0, last + 1));
      chosen.add(chosen.has(pick) ? last : pick);
    }
    return [...chosen].sort((a, b) => a - b);
  }
}
