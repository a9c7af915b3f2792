/// Copying text. Browsers offer navigator.clipboard only over https and on this machine; elsewhere
/// the older command does it.

import { make } from "./dom.js";

const kShownMs = 1500;

export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch { /* not offered, or not allowed */ }
  const area = make("textarea", { class: "hidden", "aria-hidden": "true" });
  area.value = text;
  const focused = document.activeElement;
  (document.querySelector("dialog[open]") ?? document.body).append(area);
  area.select();
  const isCopied = document.execCommand("copy");
  area.remove();
  focused?.focus();
  return isCopied;
}

/// A button that copies what `text()` returns and says so for a moment.
export function copyButton(text, label) {
  const button = make("button", { type: "button", class: "quiet", "aria-label": label }, "Copy");
  button.addEventListener("click", async () => {
    button.textContent = (await copyText(text())) ? "Copied" : "Not copied";
    setTimeout(() => { button.textContent = "Copy"; }, kShownMs);
  });
  return button;
}
