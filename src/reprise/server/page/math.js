/// A formula, as its LaTeX source.

import { make } from "./dom.js";

export function renderMath(source, isBlock) {
  return make(isBlock ? "pre" : "code", { class: "formula" }, source.trim());
}
