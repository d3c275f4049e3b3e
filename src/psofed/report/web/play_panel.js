"use strict";

// Parts that are open where there is room, and where there is none as soon as somebody asks for them.
function folded(title, room, ...parts) {
  const wide = matchMedia(room);
  const node = el("details", { class: "folded", open: wide.matches }, el("summary", {}, title), parts);
  const follow = () => {
    node.open = wide.matches;
    node.classList.toggle("unfolded", wide.matches);
  };
  wide.addEventListener("change", follow);
  follow();
  return node;
}

// The settings as real form controls, which work by mouse, finger, keyboard and screen reader.
class Panel {
  // change(wish): somebody wishes for other settings.
  constructor(host, change) {
    this.change = change;
    this.controls = {};
    const sliders = (...names) => names.map((name) => this.slider(name));
    const group = (title, ...parts) => el("div", { class: "part", role: "group", "aria-label": title }, el("h2", {}, title), parts);
    // On a phone the rest waits until it is asked for.
    host.append(el("form", { class: "panel", "aria-label": "Settings", onsubmit: (event) => event.preventDefault() },
      group("What travels", sliders("M", "shift"), this.choice("scheme"), this.choice("mask")),
      folded("More settings", "(min-width: 56rem)",
        group("Who takes part", sliders("K", "S"), this.switch()),
        group("Model and samples", sliders("D", "mu", "noise")),
        group("How long", sliders("N", "runs"), this.seed()))));
  }

  slider(name) {
    const { label, symbol, hint } = RANGES[name];
    const output = el("output", { for: name });
    const input = el("input", { type: "range", id: name, "aria-describedby": hint ? `${name}-hint` : null, oninput: () => this.change({ [name]: input.value }) });
    this.controls[name] = (settings) => {
      const { low, high, step } = limits(name, settings);
      Object.assign(input, { min: low, max: high, step, value: settings[name] });
      output.textContent = String(settings[name]);
    };
    return el("div", { class: "slider" },
      el("label", { for: name }, label, symbol ? el("i", {}, ` ${symbol}`) : null), output,
      hint ? el("span", { class: "hint", id: `${name}-hint` }, hint) : null, input);
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
      el("button", { type: "button", onclick: another }, "Draw again"));
  }

  show(settings) {
    for (const write of Object.values(this.controls)) write(settings);
  }
}
