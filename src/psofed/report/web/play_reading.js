"use strict";

// Reading the picture cell by cell: under the pointer, under a finger, or by arrow keys.
class Reader {
  // phase(): the part of the round that is shown; tell(found): {k, i, value}, or null for nothing;
  // redraw(): the mark of the keyboard has moved.
  constructor(picture, phase, tell, redraw) {
    Object.assign(this, { picture, phase, tell, redraw });
    const { canvas } = picture;
    for (const name of ["pointermove", "pointerdown"]) {
      canvas.addEventListener(name, (event) => tell(picture.at(event.offsetX, event.offsetY, phase())));
    }
    // What a finger has read stays to be looked at.
    canvas.addEventListener("pointerleave", ({ pointerType }) => { if (pointerType === "mouse") tell(null); });
    canvas.addEventListener("keydown", (event) => { if (this.move(event.key)) event.preventDefault(); });
    canvas.addEventListener("blur", () => this.leave());
  }

  // One cell on by an arrow key; true if it was one.
  move(key) {
    const { picture, phase } = this;
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[key];
    if (!step || !picture.frame) return false;
    const { k, i } = picture.cursor || { k: -1 - step[0], i: -step[1] }; // the first key comes to the first cell
    const within = (value, low, high) => Math.max(low, Math.min(high, value));
    picture.cursor = { k: within(k + step[0], -1, picture.K - 1), i: within(i + step[1], 0, picture.D - 1) };
    this.tell(picture.read(picture.cursor, phase()));
    this.redraw();
    return true;
  }

  leave() {
    if (!this.picture.cursor) return;
    this.picture.cursor = null;
    this.tell(null);
    this.redraw();
  }
}
