/// The keys of the page. The help dialog lists them.

import { $ } from "./dom.js";

/// `actions`: newChat, search, copyLast and escape, which closes what is open before it
/// stops an answer.
export function startShortcuts(actions) {
  $("open-help").addEventListener("click", () => $("help").showModal());
  document.addEventListener("keydown", (event) => {
    if (event.isComposing || document.querySelector("dialog[open]")) return;
    const action = actionOf(event, actions);
    if (!action) return;
    event.preventDefault();
    action();
  });
}

function actionOf(event, actions) {
  const isCommand = (event.ctrlKey || event.metaKey) && !event.altKey;
  const key = event.key.toLowerCase();
  if (isCommand && event.shiftKey && key === "o") return actions.newChat;
  if (isCommand && event.shiftKey && key === "y") return actions.copyLast;
  if (isCommand && key === "k") return actions.search;
  if (isCommand && key === "/") return () => $("help").showModal();
  if (key === "escape") return actions.escape;
  return null;
}
