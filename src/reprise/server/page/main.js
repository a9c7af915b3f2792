/// Starts the page: makes its parts and joins them.

import { apiKey, keepApiKey } from "./api.js";
import { Chat } from "./chat.js";
import { copyText } from "./clipboard.js";
import { Composer } from "./composer.js";
import { $ } from "./dom.js";
import { History } from "./history.js";
import { HistoryView } from "./history_view.js";
import { pollLive, showAnswerFigures, startLive } from "./live.js";
import { refreshModels, startModelMenu } from "./model_menu.js";
import { showNotice } from "./notices.js";
import { startSettings } from "./settings.js";
import { startShortcuts } from "./shortcuts.js";

const conversations = new History(showNotice, () => historyView.refresh());
const chat = new Chat(conversations, {
  changed: () => {
    rememberOpen();
    conversations.announce();
    historyView.refresh();
  },
  busy: (isBusy) => composer.showBusy(isBusy),
  figures: showAnswerFigures,
  needsKey: () => askForKey(apiKey() ? "The server does not know this key." : ""),
});
const historyView = new HistoryView(conversations, {
  open: (record) => open(record),
  current: () => chat.conversation.id,
  renamed: (id, title) => { if (id === chat.conversation.id) chat.rename(title); },
  problem: showNotice,
});
const composer = new Composer({
  send: (text, files) => chat.ask(text, files),
  stop: () => chat.stop(),
  problem: showNotice,
  editLast: () => [...document.querySelectorAll(".message.user .edit-button")].at(-1)?.click(),
});

// --- The open conversation is in the address, so a reload and the browser's Back find it.

function rememberOpen() {
  if (!chat.conversation.isEmpty && idInAddress() !== chat.conversation.id) {
    window.history.replaceState(null, "", "#" + chat.conversation.id);
  }
}
const idInAddress = () => location.hash.slice(1);

async function open(record) {
  window.history.pushState(null, "", record ? "#" + record.id : location.pathname + location.search);
  await show(record);
  if (narrow.matches) showHistory(false);
  $(narrow.matches && record ? "messages" : "prompt").focus();  // a phone's keyboard would cover what was opened
}
async function show(record) {
  await chat.open(record);
  await historyView.refresh();
}
window.addEventListener("popstate", async () => show(await conversations.get(idInAddress())));

// --- The list of conversations: beside the chat on wide screens, over it on narrow ones.

const narrow = matchMedia("(max-width: 1100px)");

function showHistory(isShown) {
  $("history").classList.toggle("is-shown", isShown);
  $("toggle-history").setAttribute("aria-expanded", String(isShown));
}
function searchHistory() {
  showHistory(true);
  $("search").focus();
}

narrow.addEventListener("change", () => showHistory(!narrow.matches));
document.addEventListener("pointerdown", ({ target }) => {
  if (narrow.matches && !target.closest("#history, #toggle-history, dialog")) showHistory(false);
});

// --- The key

function askForKey(problem) {
  $("key-error").hidden = !problem;
  $("key-error").textContent = problem;
  $("key").value = "";
  if (!$("key-dialog").open) $("key-dialog").showModal();
}
$("key-dialog").addEventListener("close", () => {
  const key = $("key").value.trim();
  $("key").value = "";
  if ($("key-dialog").returnValue !== "save" || !key) return;
  keepApiKey(key);
  refreshModels();
  chat.answer();
});

// --- What people do

$("new-chat").addEventListener("click", () => open(null));
$("toggle-history").addEventListener("click", () => {
  const isShown = !$("history").classList.contains("is-shown");
  showHistory(isShown);
  if (isShown) $("search").focus();
});
startShortcuts({
  newChat: () => open(null),
  search: searchHistory,
  copyLast: () => copyText(chat.conversation.leaf?.content ?? ""),
  escape: () => {
    if (narrow.matches && $("history").classList.contains("is-shown")) {
      showHistory(false);
      $("toggle-history").focus();
    } else chat.stop();
  },
});

startSettings();
startModelMenu();
startLive();
pollLive(() => chat.isBusy);
showHistory(!narrow.matches);
await conversations.open();
await show(idInAddress() ? await conversations.get(idInAddress()) : null);
document.documentElement.dataset.started = "true";
$("prompt").focus();
