/// The form below an answer that calls tools: the page runs no tool, so the reader enters what each
/// call returned.

import { make } from "./dom.js";

/// `send` gets one text per call, in their order.
export function resultsForm(calls, send) {
  const areas = calls.map((call) => make("textarea", { rows: 2, placeholder: "What it returned",
                                                       "aria-label": `Result of ${call.name}` }));
  const form = make("form", { class: "results" });
  calls.forEach((call, index) => form.append(make("label", {}, `Result of ${call.name}`, areas[index])));
  form.append(make("button", { class: "primary" }, calls.length === 1 ? "Send the result" : "Send the results"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(areas.map((area) => area.value));
  });
  return form;
}
