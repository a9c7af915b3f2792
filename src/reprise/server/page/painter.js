/// Draws what changes often, at most once a frame. After a picture it rests for four times as long
/// as the picture took, so that a long block of text leaves time for everything else.

const kRestPerPicture = 4;

export class Painter {
  #draw;
  #isAsked = false;
  #restUntil = 0;

  constructor(draw) {
    this.#draw = draw;
  }

  request() {
    if (this.#isAsked) return;
    this.#isAsked = true;
    setTimeout(() => requestAnimationFrame(() => this.#paint()), Math.max(0, this.#restUntil - performance.now()));
  }

  stop() {
    this.#isAsked = false;
  }

  #paint() {
    if (!this.#isAsked) return;
    this.#isAsked = false;
    const began = performance.now();
    this.#draw();
    const now = performance.now();
    this.#restUntil = now + kRestPerPicture * (now - began);
  }
}
