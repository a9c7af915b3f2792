"use strict";
// The chat page. Everything a model or a server says reaches the page as text, never as markup.

const $ = (id) => document.getElementById(id);
const messages = [];  // {role, content}, as the API takes them
let answering = null;  // AbortController of the answer that is being streamed
let isOnline = true;

// --- Settings: kept in this browser; the key only until the tab is closed.

const kNumbers = ["temperature", "top_p", "max_tokens", "seed"];
const kDefaults = { system: "", temperature: "", top_p: "", max_tokens: "512", seed: "" };

function stored(storage, name) {
  try { return storage.getItem("reprise." + name); } catch { return null; }
}
function store(storage, name, value) {
  try { storage.setItem("reprise." + name, value); } catch { /* private window: not kept */ }
}
function showSettings(values) {
  for (const name of Object.keys(kDefaults)) $(name).value = values[name] ?? kDefaults[name];
}
function saveSettings() {
  const values = {};
  for (const name of Object.keys(kDefaults)) values[name] = $(name).value;
  store(localStorage, "settings", JSON.stringify(values));
}
function loadSettings() {
  let values = {};
  try { values = JSON.parse(stored(localStorage, "settings") ?? "{}"); } catch { /* as if unset */ }
  showSettings(values);
}
function requestBody() {
  const system = $("system").value.trim();
  const body = {
    messages: system ? [{ role: "system", content: system }, ...messages] : [...messages],
    stream: true,
    stream_options: { include_usage: true, continuous_usage_stats: true },
  };
  for (const name of kNumbers) {
    const text = $(name).value.trim();
    if (text !== "" && Number.isFinite(Number(text))) body[name] = Number(text);
  }
  return body;
}

// --- Text: code blocks, inline code and bold; all else as it is.

function appendInline(parent, text) {
  const pattern = /`([^`\n]+)`|\*\*([^*\n]+)\*\*/g;
  let from = 0;
  for (const match of text.matchAll(pattern)) {
    parent.append(text.slice(from, match.index));
    const element = document.createElement(match[1] !== undefined ? "code" : "strong");
    element.textContent = match[1] ?? match[2];
    parent.append(element);
    from = match.index + match[0].length;
  }
  parent.append(text.slice(from));
}
function renderText(parent, text) {
  parent.replaceChildren();
  const parts = text.split(/^```[^\n]*\n?/m);  // odd parts are code; the last one may be open
  parts.forEach((part, index) => {
    if (index % 2 === 0) return appendInline(parent, part);
    const code = document.createElement("code");
    code.textContent = part.replace(/\n$/, "");
    const block = document.createElement("pre");
    block.append(code);
    parent.append(block);
  });
}

// --- The conversation

function addMessage(role, text) {
  $("welcome").hidden = true;
  const message = document.createElement("article");
  message.className = "message " + role;
  const who = document.createElement("p");
  who.className = "who";
  who.textContent = role === "user" ? "You" : "Answer";
  const body = document.createElement("div");
  body.className = "text";
  renderText(body, text);
  message.append(who, body);
  $("messages").append(message);
  return message;
}
function addProblem(text) {
  const problem = document.createElement("p");
  problem.className = "problem";
  problem.setAttribute("role", "alert");
  problem.textContent = text;
  $("messages").append(problem);
  scrollDown();
}
function scrollDown() {
  const list = $("messages");
  list.scrollTop = list.scrollHeight;
}
function isAtEnd() {
  const list = $("messages");
  return list.scrollHeight - list.scrollTop - list.clientHeight < 80;
}

async function* serverSentData(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    buffer += value;
    let end;
    while ((end = buffer.indexOf("\n\n")) >= 0) {
      const event = buffer.slice(0, end);
      buffer = buffer.slice(end + 2);
      if (event.startsWith("data: ")) yield event.slice(6);
    }
  }
}

async function problemOf(response) {
  let message = "";
  try { message = (await response.json()).error?.message ?? ""; } catch { /* no JSON */ }
  if (response.status === 429) return "The server is full. Try again in a moment.";
  return message || `The server answered with status ${response.status}.`;
}

function askForKey(problem) {
  $("key-error").hidden = !problem;
  $("key-error").textContent = problem;
  $("key").value = "";
  if (!$("key-dialog").open) $("key-dialog").showModal();
}

/// Streams the answer to `messages`; resolves when it ended for whatever reason.
async function answer() {
  const controller = new AbortController();
  answering = controller;
  showBusy(true);
  const key = stored(sessionStorage, "key");
  const headers = { "Content-Type": "application/json" };
  if (key) headers.Authorization = "Bearer " + key;
  const began = performance.now();
  let element = null;
  let text = "";
  let numTokens = 0;
  let firstToken = 0;
  let finish = "";
  let isDirty = false;
  let frame = 0;
  const render = () => {
    frame = 0;
    if (!isDirty) return;
    isDirty = false;
    const follow = isAtEnd();
    renderText(element.querySelector(".text"), text);
    if (follow) scrollDown();
  };
  const rate = () => {
    // With the wait for the first token: what the network delivers at once has no rate of its own.
    return numTokens / ((performance.now() - began) / 1000);
  };
  try {
    const response = await fetch("/v1/chat/completions", {
      method: "POST", headers, body: JSON.stringify(requestBody()), signal: controller.signal,
    });
    if (response.status === 401) {
      messages.pop();
      $("prompt").value = document.querySelector(".message.user:last-of-type .text")?.textContent ?? "";
      document.querySelector(".message.user:last-of-type")?.remove();
      askForKey(key ? "The server does not know this key." : "");
      return;
    }
    if (!response.ok) return addProblem(await problemOf(response));
    element = addMessage("assistant", "");
    element.classList.add("streaming");
    for await (const data of serverSentData(response)) {
      if (data === "[DONE]") break;
      const chunk = JSON.parse(data);
      if (chunk.error) {
        addProblem(chunk.error.message ?? "The answer was cut short.");
        break;
      }
      if (chunk.usage) numTokens = chunk.usage.completion_tokens;
      const choice = chunk.choices?.[0];
      if (!choice) continue;
      finish = choice.finish_reason ?? finish;
      if (numTokens > 0 && firstToken === 0) {
        firstToken = performance.now();
        $("answer-ttft").textContent = Math.round(firstToken - began).toString();
      }
      if (choice.delta?.content) {
        text += choice.delta.content;
        isDirty = true;
        frame ||= requestAnimationFrame(render);
      }
      if (numTokens > 0) $("answer-rate").textContent = formatRate(rate());
    }
  } catch (error) {
    if (error.name === "AbortError") finish = "stopped";
    else {
      addProblem("The connection to the server was lost. Is it still running?");
      setStatus("offline", "Server not reachable");
    }
  } finally {
    const seconds = (performance.now() - began) / 1000;
    if (frame) cancelAnimationFrame(frame);
    if (element) {
      render();
      element.classList.remove("streaming");
      const line = document.createElement("p");
      line.className = "figures-line";
      const parts = [`${numTokens} tokens`];
      if (firstToken) parts.push(`first after ${Math.round(firstToken - began)} ms`);
      if (numTokens > 0) parts.push(`${formatRate(numTokens / seconds)} tokens/s`);
      if (finish === "stopped") parts.push("stopped");
      if (finish === "length") parts.push("ended at max tokens");
      line.textContent = parts.join(" · ");
      element.append(line);
      messages.push({ role: "assistant", content: text });
      if (isAtEnd()) scrollDown();
    }
    answering = null;
    showBusy(false);
  }
}

function showBusy(isBusy) {
  $("send").hidden = isBusy;
  $("stop").hidden = !isBusy;
  $("prompt").focus();
}
function fitPrompt() {
  const prompt = $("prompt");
  prompt.style.height = "auto";
  prompt.style.height = Math.min(prompt.scrollHeight + 2, 200) + "px";
}
function send() {
  const text = $("prompt").value.trim();
  if (!text || answering) return;
  $("prompt").value = "";
  fitPrompt();
  // An answer that never came leaves a question; two in a row are what some templates refuse.
  if (messages.at(-1)?.role === "user") messages.pop();
  messages.push({ role: "user", content: text });
  addMessage("user", text);
  scrollDown();
  answer();
}
function newChat() {
  answering?.abort();
  messages.length = 0;
  for (const element of [...$("messages").children]) if (element !== $("welcome")) element.remove();
  $("welcome").hidden = false;
  $("prompt").focus();
}

// --- The live strip

const formatRate = (rate) => (rate >= 100 ? Math.round(rate).toString() : rate.toFixed(1));
const formatCount = (count) => count.toLocaleString("en");
let before = null;  // the picture before

function setStatus(state, text) {
  const status = $("status");
  status.dataset.state = state;
  status.textContent = text;
}
function showSteps(now) {
  const bars = now.recent_steps.map((step) => {
    const bar = document.createElement("i");
    bar.dataset.mode = step.mode;
    bar.title = `step ${step.index}: ${step.mode} ${step.descriptor}, ${step.num_tokens} tokens of ` +
      `${step.num_reqs} requests in ${(1000 * step.seconds).toFixed(2)} ms`;
    return bar;
  });
  $("step-bars").replaceChildren(...bars);
  $("step-count").textContent = `${formatCount(now.steps)} steps`;
  const last = now.recent_steps.at(-1);
  if (last) {
    $("last-mode").textContent = last.mode;
    $("last-mode").dataset.mode = last.mode;
    $("last-descriptor").textContent = last.descriptor;
    $("last-reason").textContent = last.reason_text;
    $("last-reason").title = last.reason;
  }
  for (const mode of ["FULL", "PIECEWISE", "NONE"]) {
    const share = now.steps > 0 ? (100 * now.steps_by_mode[mode]) / now.steps : 0;
    $("share-" + mode).textContent = now.steps > 0 ? share.toFixed(share < 10 ? 1 : 0) + " %" : "–";
  }
  $("padding").textContent = formatCount(now.padding_tokens) + " tokens";
}
function showLive(now) {
  $("model").textContent = now.model;
  $("running").textContent = now.running;
  $("waiting").textContent = now.waiting;
  $("kv").value = now.kv_cache_usage;
  $("kv-text").textContent = (100 * now.kv_cache_usage).toFixed(1) + " %";
  const seconds = before ? now.seconds - before.seconds : 0;
  if (seconds > 0 && now.generation_tokens >= before.generation_tokens) {
    $("server-rate").textContent = formatRate((now.generation_tokens - before.generation_tokens) / seconds);
  }
  showSteps(now);
  if (now.is_dead) setStatus("dead", "Engine is dead");
  else if (now.running + now.waiting > 0) setStatus("busy", "Working");
  else setStatus("ready", "Ready");
  before = now;
}
async function poll() {
  try {
    if (!document.hidden) {
      const response = await fetch("/live", { cache: "no-store", signal: AbortSignal.timeout(5000) });
      if (!response.ok) throw new Error(String(response.status));
      showLive(await response.json());
      isOnline = true;
    }
  } catch {
    isOnline = false;
    before = null;
    setStatus("offline", "Server not reachable");
  }
  setTimeout(poll, answering && isOnline ? 250 : 1000);
}

// --- What people do

$("composer").addEventListener("submit", (event) => { event.preventDefault(); send(); });
$("prompt").addEventListener("input", fitPrompt);
$("prompt").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  send();
});
$("stop").addEventListener("click", () => answering?.abort());
$("new-chat").addEventListener("click", newChat);
$("open-settings").addEventListener("click", () => $("settings").showModal());
$("settings").addEventListener("close", saveSettings);
$("reset-settings").addEventListener("click", () => showSettings(kDefaults));
$("toggle-live").addEventListener("click", () => {
  const isOpen = $("live").classList.toggle("is-open");
  $("toggle-live").setAttribute("aria-expanded", String(isOpen));
});
$("key-dialog").addEventListener("close", () => {
  const key = $("key").value.trim();
  $("key").value = "";
  if ($("key-dialog").returnValue !== "save" || !key) return;
  store(sessionStorage, "key", key);
  send();
});

loadSettings();
$("prompt").focus();
poll();
