"use strict";

// The settings as real form controls, which work by mouse, finger, keyboard and screen reader.
class Panel {
  // change(wish): somebody wishes for other settings.
  constructor(host, change) {
    this.change = change;
    this.controls = {};
    const list = Object.keys(RANGES).map((name) => this.slider(name));
    const choices = Object.keys(CHOICES).map((name) => this.choice(name));
    host.append(el("form", { class: "panel", "aria-label": "Settings", onsubmit: (event) => event.preventDefault() },
      list.slice(0, 5), choices, this.switch(), list.slice(5), this.seed()));
  }

  slider(name) {
    const { label, symbol } = RANGES[name];
    const output = el("output", { for: name });
    const input = el("input", { type: "range", id: name, oninput: () => this.change({ [name]: input.value }) });
    this.controls[name] = (settings) => {
      const { low, high, step } = limits(name, settings);
      Object.assign(input, { min: low, max: high, step, value: settings[name] });
      output.textContent = String(settings[name]);
    };
    return el("div", { class: "slider" },
      el("label", { for: name }, label, symbol ? el("i", {}, ` ${symbol}`) : null), output, input);
  }

  choice(name) {
    const { label, options } = CHOICES[name];
    const inputs = options.map(([value, text]) => {
      const input = el("input", { type: "radio", name, value, id: `${name}-${value}`, onchange: () => this.change({ [name]: value }) });
      return { value, input, node: el("label", { title: value }, input, text) };
    });
    this.controls[name] = (settings) => inputs.forEach(({ value, input }) => { input.checked = settings[name] === value; });
    return el("fieldset", {}, el("legend", {}, label), inputs.map(({ node }) => node));
  }

  switch() {
    const input = el("input", { type: "checkbox", id: "idle", onchange: () => this.change({ idle: input.checked }) });
    this.controls.idle = (settings) => { input.checked = settings.idle; };
    return el("label", { class: "switch" }, input, "Idle clients learn");
  }

  seed() {
    const input = el("input", { type: "number", id: "seed", min: 0, max: SEEDS, onchange: () => this.change({ seed: input.value }) });
    this.controls.seed = (settings) => { input.value = settings.seed; };
    const another = () => this.change({ seed: (Number(input.value) || 0) + 1 });
    return el("div", { class: "seed" }, el("label", { for: "seed" }, "Seed"), input,
      el("button", { type: "button", onclick: another }, "Draw anew"));
  }

  show(settings) {
    for (const write of Object.values(this.controls)) write(settings);
  }
}
