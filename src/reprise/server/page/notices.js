/// Notices about the page itself, such as storage that is full. A notice stays until it is dismissed.

import { $, make } from "./dom.js";

export function showNotice(text) {
  const notice = make("div", { class: "problem", role: "alert" }, make("span", {}, text), make("button", {
    type: "button", class: "quiet", "aria-label": "Dismiss the notice", click: () => {
      notice.remove();
      $("prompt").focus();
    } }, "✕"));
  $("notices").append(notice);
}
