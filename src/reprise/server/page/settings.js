/// What the reader chose for all conversations: sampling, thinking, the form of answers, tools. The
/// browser keeps it.

import { $ } from "./dom.js";

const kNumbers = ["temperature", "top_p", "top_k", "min_p", "max_tokens", "seed"];
const kFields = ["system", "thinking", "effort", "format", "schema", "tools", ...kNumbers];
const kStored = "reprise.choices";

export function systemPrompt() {
  return $("system").value.trim();
}

/// Whether answers are JSON, so that the page shows them as code.
export function answersAreJson() {
  return $("format").value !== "";
}

/// The fields of a request that the settings decide. Throws an Error with a sentence for the reader
/// where a schema or the tools are no JSON.
export function requestFields() {
  const body = {};
  for (const name of kNumbers) {
    const text = $(name).value.trim();
    if (text !== "" && Number.isFinite(Number(text))) body[name] = Number(text);
  }
  if ($("thinking").value) body.chat_template_kwargs = { enable_thinking: $("thinking").value === "on" };
  if ($("effort").value) body.reasoning_effort = $("effort").value;
  if ($("format").value === "json_object") body.response_format = { type: "json_object" };
  if ($("format").value === "json_schema") {
    body.response_format = { type: "json_schema", json_schema: { name: "answer", schema: schema() } };
  }
  if ($("tools").value.trim()) body.tools = tools();
  return body;
}
function schema() {
  const value = parsed("schema", "The JSON schema in the settings");
  if (typeof value !== "object" || value === null) {
    throw new Error("The JSON schema in the settings is not a JSON object.");
  }
  return value;
}
function tools() {
  const value = parsed("tools", "The list of tools in the settings");
  if (!Array.isArray(value)) {
    throw new Error("The tools in the settings are no JSON array, as OpenAI's API takes them.");
  }
  return value;
}
function parsed(id, what) {
  try {
    return JSON.parse($(id).value);
  } catch (error) {
    throw new Error(`${what} is not JSON: ${error.message}`);
  }
}

function show(values) {
  for (const name of kFields) $(name).value = values[name] ?? "";
  showDependent();
}
function showDependent() {
  $("schema-row").hidden = $("format").value !== "json_schema";
  let problem = "";
  try { requestFields(); } catch (error) { problem = error.message; }
  $("settings-problem").hidden = !problem;
  $("settings-problem").textContent = problem;
}
function save() {
  const values = Object.fromEntries(kFields.map((name) => [name, $(name).value]));
  try { localStorage.setItem(kStored, JSON.stringify(values)); } catch { /* not kept, but in the form */ }
}
function load() {
  try { return JSON.parse(localStorage.getItem(kStored)) ?? {}; } catch { return {}; }
}

export function startSettings() {
  show(load());
  $("settings").addEventListener("input", showDependent);
  $("settings").addEventListener("close", save);
  $("open-settings").addEventListener("click", () => $("settings").showModal());
  $("reset-settings").addEventListener("click", () => show({}));
}
