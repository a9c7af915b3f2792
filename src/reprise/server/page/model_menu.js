/// The menu of the model's names and its adapters. With one name it is only that name.

import { apiKey, listModels } from "./api.js";
import { $, make } from "./dom.js";

const kStored = "reprise.model";
let loadedWith;  // the key of the last list; undefined: there is none yet

/// The name to send, or undefined: the server's first.
export function chosenModel() {
  return $("model-menu").hidden ? undefined : $("model-menu").value;
}

/// Reads the list again, unless it was read with the key of now.
export async function refreshModels() {
  if (loadedWith === apiKey()) return;
  try {
    const models = await listModels();
    loadedWith = apiKey();
    showModels(models);
  } catch (error) {  // the name of /live stays
    if (error.status === 401) loadedWith = apiKey();
  }
}

export function forgetModels() {
  loadedWith = undefined;
}

export function showModelName(name) {
  $("model").textContent = name;
}

function showModels(models) {
  const menu = $("model-menu");
  let chosen = menu.value;
  try { chosen ||= localStorage.getItem(kStored) ?? ""; } catch { /* the first */ }
  const option = ({ id }) => make("option", { value: id }, id);
  const adapters = models.filter(({ parent }) => parent);
  menu.replaceChildren(...models.filter(({ parent }) => !parent).map(option));
  if (adapters.length > 0) {
    const group = make("optgroup", { label: "Adapters" });
    group.append(...adapters.map(option));
    menu.append(group);
  }
  if (models.some(({ id }) => id === chosen)) menu.value = chosen;
  menu.hidden = models.length < 2;
  $("model").hidden = !menu.hidden;
}

export function startModelMenu() {
  $("model-menu").addEventListener("change", () => {
    try { localStorage.setItem(kStored, $("model-menu").value); } catch { /* until the page is closed */ }
  });
}
