/// Building DOM nodes. Text always becomes a text node, never markup.

export const $ = (id) => document.getElementById(id);

/// Creates an element: `make("button", { type: "button", click: stop }, "Stop")`. A function is a
/// listener of the event that its name says; `undefined`, `null` and `false` leave out an attribute
/// or a child.
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) {
    if (child !== undefined && child !== null && child !== false) element.append(child);
  }
  return element;
}
