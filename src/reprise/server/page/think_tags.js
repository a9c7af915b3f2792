/// Reasoning in the text of an answer. A server without --reasoning-parser leaves <think>...</think>
/// at the start of the text; the page then shows it as reasoning all the same.

const kOpen = "<think>";
const kClose = "</think>";

export class ThinkTags {
  #state = "start";  // then "thinking" and "between", or at once "answer"
  #held = "";  // may be the start of a tag

  /// What a piece of text adds: {content, reasoning}.
  split(text) {
    this.#held += text;
    let reasoning = "";
    if (this.#state === "start") {
      const start = this.#held.trimStart();
      if (start.startsWith(kOpen)) {
        this.#state = "thinking";
        this.#held = start.slice(kOpen.length);
      } else if (kOpen.startsWith(start)) return { content: "", reasoning };
      else this.#state = "answer";
    }
    if (this.#state === "thinking") {
      const end = this.#held.indexOf(kClose);
      const taken = end >= 0 ? end : this.#held.length - lengthOfStart(this.#held);
      reasoning = this.#held.slice(0, taken);
      this.#held = this.#held.slice(end >= 0 ? end + kClose.length : taken);
      if (end < 0) return { content: "", reasoning };
      this.#state = "between";
    }
    if (this.#state === "between") {  // the empty lines before the answer
      this.#held = this.#held.trimStart();
      if (this.#held) this.#state = "answer";
    }
    const content = this.#held;
    this.#held = "";
    return { content, reasoning };
  }

  /// What was held back, when the answer has ended.
  end() {
    const held = this.#held;
    this.#held = "";
    return this.#state === "thinking" ? { content: "", reasoning: held } : { content: held, reasoning: "" };
  }
}

/// How many characters at the end of `text` may be the start of the closing tag.
function lengthOfStart(text) {
  for (let length = Math.min(text.length, kClose.length - 1); length > 0; --length) {
    if (kClose.startsWith(text.slice(-length))) return length;
  }
  return 0;
}
