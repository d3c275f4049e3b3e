"use strict";

// Examples worth looking at, in an order in which each adds one thing. Each is the first setting but for
// what it names; the seed stays, so that the data do.
const PRESETS = [
  { name: "Start here", wish: {},
    look: "A tenth of each model travels. The window walks to the right: what goes up in one round comes down in the next. (Windows of neighbours that all clients share are easiest to see; psofed’s default is scattered ones, each client its own.)" },
  { name: "One number a round", wish: { M: 1, shift: 1 },
    look: "The least that can be shared. Slow at first, because a number waits D rounds for its turn; meanwhile idle clients learn." },
  { name: "Everything is shared", wish: { M: FIRST.D, shift: 0 },
    look: "Now the server’s model is Online-Fed’s, number for number: both curves are one. What idle clients learn is overwritten." },
  { name: "Idle clients sleep", wish: { idle: false },
    look: "Only the selected clients learn, so most bars at the right stay empty. Compare the curve with that of “Start here”." },
  { name: "The window stands still", wish: { shift: 0 },
    look: "The same few numbers travel in every round and the rest of the server’s model stays zero: it cannot learn." },
  { name: "No noise", wish: { noise: 0 },
    look: "The rest of the error is not noise: D random cosines can approximate f only so well, and some parts are learned very slowly." },
  { name: "Too large a step", wish: { mu: 2 },
    look: "Corrections overshoot. The clients’ models can diverge, and PSO-Fed with them, while Online-Fed, which starts from the average in each round, stays stable." },
  { name: "The paper’s setting", wish: { K: 100, D: 200, M: 40, S: 4, shift: 1, mask: "scattered", scheme: "uncoordinated" },
    look: "A fifth of the traffic. PSO-Fed starts more slowly and is 0.4 ±0.1 dB behind Online-Fed after 1,000 rounds (mean of 60 runs of psofed), ahead of it after 5,000. Columns of one colour mean that clients agree." },
];

class Tour {
  // change(wish): somebody wishes for the settings of an example.
  constructor(change) {
    this.items = PRESETS.map(({ name, wish, look }) => {
      const whole = { ...FIRST, ...wish };
      delete whole.seed;
      return { name, whole, look, button: el("button", { type: "button", onclick: () => change(whole) }, name) };
    });
    this.look = el("span", {});
    this.next = el("button", { type: "button", class: "next", onclick: () => change(this.after.whole) });
    this.node = el("div", { class: "tour" },
      folded("All examples", "(min-width: 30.01rem)",
        el("div", { class: "bar presets", role: "group", "aria-label": "Examples" }, this.items.map(({ button }) => button))),
      el("p", { class: "look" }, this.look, " ", this.next));
  }

  show(settings) {
    const same = ({ whole }) => Object.keys(whole).every((name) => whole[name] === settings[name]);
    const at = this.items.findIndex(same);
    this.items.forEach(({ button }, i) => button.setAttribute("aria-pressed", String(i === at)));
    this.after = this.items[(at + 1) % this.items.length];
    this.look.textContent = at < 0 ? LOOK : this.items[at].look;
    this.next.textContent = at < 0 ? "Back to the first example" : `Next: ${this.after.name} ▸`;
  }
}
