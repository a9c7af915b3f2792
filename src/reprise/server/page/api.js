/// The routes of the server that the page uses. Addresses are relative to the page, so it also works
/// behind a path of a proxy.

const address = (path) => new URL(path, document.baseURI).href;

/// What kept an answer from coming, in a sentence for the reader. `status` is that of HTTP; 0: the
/// server could not be reached.
export class ApiProblem extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

// The key is kept until the tab is closed; it is in this variable where the browser stores nothing.
let keptKey = null;
export function apiKey() {
  try { return sessionStorage.getItem("reprise.key") ?? keptKey; } catch { return keptKey; }
}
export function keepApiKey(key) {
  keptKey = key;
  try { sessionStorage.setItem("reprise.key", key); } catch { /* kept in the variable */ }
}

async function request(path, options = {}) {
  const headers = { ...options.headers };
  const key = apiKey();
  if (key) headers.Authorization = "Bearer " + key;
  let response;
  try {
    response = await fetch(address(path), { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiProblem("The connection to the server was lost. Is it still running?", 0);
  }
  if (!response.ok) throw new ApiProblem(await problemOf(response), response.status);
  return response;
}

async function problemOf(response) {
  let message = "";
  try { message = (await response.json()).error?.message ?? ""; } catch { /* no JSON */ }
  if (response.status === 429) return "The server is full. Try again in a moment.";
  return message || `The server answered with status ${response.status}.`;
}

/// The events of a chat, as they arrive. Throws ApiProblem, or AbortError after `signal`.
export async function* streamChat(body, signal) {
  const response = await request("v1/chat/completions", {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal,
  });
  try {
    for await (const data of serverSentData(response)) {
      if (data === "[DONE]") return;
      const chunk = JSON.parse(data);
      if (chunk.error) throw new ApiProblem(chunk.error.message ?? "The answer was cut short.", response.status);
      yield chunk;
    }
  } catch (error) {
    if (error.name === "AbortError" || error instanceof ApiProblem) throw error;
    throw new ApiProblem("The connection to the server was lost. Is it still running?", 0);
  }
  throw new ApiProblem("The server ended the answer early.", response.status);
}

async function* serverSentData(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    buffer += value;
    const events = buffer.split("\n\n");
    buffer = events.pop();
    for (const event of events) if (event.startsWith("data: ")) yield event.slice(6);
  }
}

/// The names of the model and its adapters: [{id, parent}].
export async function listModels() {
  return (await (await request("v1/models")).json()).data;
}

/// What the engine does now, as GET /live says it.
export async function getLive() {
  const response = await fetch(address("live"), { cache: "no-store", signal: AbortSignal.timeout(5000) });
  if (!response.ok) throw new ApiProblem(`The server answered with status ${response.status}.`, response.status);
  return response.json();
}
