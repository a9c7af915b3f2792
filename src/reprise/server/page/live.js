/// The strip beside the chat: what the engine does now, and which graph each step replayed.

import { formatCount, formatRate } from "./answer.js";
import { getLive } from "./api.js";
import { $, make } from "./dom.js";
import { forgetModels, refreshModels, showModelName } from "./model_menu.js";

const kPollMs = 1000;
const kPollWhileAnsweringMs = 250;
let before = null;  // the picture before

function setStatus(state, text) {
  const status = $("status");
  status.dataset.state = state;
  status.textContent = text;
}
function showSteps(now) {
  const bars = now.recent_steps.map((step) => {
    const title = `step ${step.index}: ${step.mode} ${step.descriptor}, ${step.num_tokens} tokens of ` +
      `${step.num_reqs} requests in ${(1000 * step.seconds).toFixed(2)} ms`;
    return make("i", { "data-mode": step.mode, title });
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
  $("graphs-link").hidden = !now.has_graphs_page;
}
function showLive(now) {
  showModelName(now.model);
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

export function showAnswerFigures({ rate, firstTokenMs }) {
  $("answer-rate").textContent = formatRate(rate);
  if (firstTokenMs !== null) $("answer-ttft").textContent = Math.round(firstTokenMs).toString();
}

/// Asks the server again and again while the page is in view. `isAnswering()` makes it ask more often.
export async function pollLive(isAnswering) {
  let isOnline = true;
  try {
    if (!document.hidden) {
      showLive(await getLive());
      await refreshModels();
    }
  } catch {
    isOnline = false;
    before = null;
    forgetModels();
    setStatus("offline", "Server not reachable");
  }
  setTimeout(() => pollLive(isAnswering), isAnswering() && isOnline ? kPollWhileAnsweringMs : kPollMs);
}

export function startLive() {
  $("toggle-live").addEventListener("click", () => {
    const isOpen = $("live").classList.toggle("is-open");
    $("toggle-live").setAttribute("aria-expanded", String(isOpen));
  });
}
