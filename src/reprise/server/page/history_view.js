/// The list of conversations beside the chat: search, open, rename, delete, export and import.

import { $, make } from "./dom.js";
import { History, holdsWords } from "./history.js";

const kMaxShown = 300;  // more are found by searching
const kUrlLifeMs = 60000;  // by then the browser has read a download

export class HistoryView {
  #history;
  #hooks;
  #records = [];

  /// `hooks`: open(record or null), current() is the id of what is open, renamed(id, title),
  /// problem(text).
  constructor(history, hooks) {
    this.#history = history;
    this.#hooks = hooks;
    $("search").addEventListener("input", () => this.#show());
    $("export").addEventListener("click", () => this.#export());
    $("import").addEventListener("click", () => $("import-file").click());
    $("import-file").addEventListener("change", () => this.#import());
    $("delete-dialog").addEventListener("close", () => this.#delete());
  }

  /// Reads the list again.
  async refresh() {
    this.#records = await this.#history.all();
    if (!$("history-list").querySelector("input")) this.#show();  // not while a title is edited
  }

  #show() {
    const found = this.#records.filter((record) => holdsWords(record, $("search").value));
    const focused = document.activeElement?.dataset?.focus;
    $("history-list").replaceChildren(...found.slice(0, kMaxShown).map((record) => this.#item(record)));
    if (focused) $("history-list").querySelector(`[data-focus="${focused}"]`)?.focus();
    const more = found.length - kMaxShown;
    $("history-note").textContent = found.length === 0
      ? ($("search").value.trim() ? "No conversation has these words." : "Conversations appear here. They stay in this browser.")
      : more > 0 ? `${more} older ones: search to find them.` : "";
  }

  #item(record) {
    const isOpen = record.id === this.#hooks.current();
    const title = record.title || "Without a title";
    const button = (action, text, click) => make("button", {
      type: "button", class: "quiet", "aria-label": `${text}: ${title}`, "data-focus": action + record.id, click }, text);
    const open = make("button", { type: "button", class: "open", "data-focus": "open" + record.id,
                                  "aria-current": isOpen && "true", click: () => this.#hooks.open(record) },
      make("span", { class: "title" }, title),
      make("span", { class: "date" }, new Date(record.updated).toLocaleDateString(undefined, { dateStyle: "medium" })));
    const item = make("li", { class: isOpen && "is-current" }, open, make("span", { class: "item-actions" },
      button("rename", "Rename", () => this.#rename(item, record)), button("delete", "Delete", () => this.#askToDelete(record))));
    return item;
  }

  #rename(item, record) {
    const input = make("input", { "aria-label": "Title", maxlength: 200 });
    input.value = record.title;
    let isDone = false;
    const end = async (isKept) => {
      if (isDone) return;
      isDone = true;
      const title = input.value.trim();
      if (isKept && title && title !== record.title) {
        this.#hooks.renamed(record.id, title);
        await this.#history.save({ ...record, title });
      }
      item.replaceChildren();
      await this.refresh();
      $("history-list").querySelector(`[data-focus="rename${record.id}"]`)?.focus();
    };
    input.addEventListener("keydown", (event) => {
      event.stopPropagation();
      if (event.key === "Enter" && !event.isComposing) end(true);
      if (event.key === "Escape") end(false);
    });
    input.addEventListener("blur", () => end(true));
    item.replaceChildren(input);
    input.focus();
    input.select();
  }

  #askToDelete(record) {
    $("delete-dialog").dataset.id = record.id;
    $("delete-title").textContent = record.title;
    $("delete-dialog").returnValue = "";
    $("delete-dialog").showModal();
  }
  async #delete() {
    const { id } = $("delete-dialog").dataset;
    if ($("delete-dialog").returnValue !== "delete") return;
    await this.#history.remove(id);
    if (id === this.#hooks.current()) await this.#hooks.open(null);
    await this.refresh();
    $("search").focus();
  }

  #export() {
    const url = URL.createObjectURL(new Blob([History.exportText(this.#records)], { type: "application/json" }));
    const day = new Date().toISOString().slice(0, 10);
    make("a", { href: url, download: `reprise-conversations-${day}.json` }).click();
    setTimeout(() => URL.revokeObjectURL(url), kUrlLifeMs);
  }
  async #import() {
    const [file] = $("import-file").files;
    if (!file) return;
    try {
      const count = await this.#history.importText(await file.text());
      await this.refresh();
      $("history-note").textContent = count === 1 ? "Imported 1 conversation." : `Imported ${count} conversations.`;
    } catch (error) {
      this.#hooks.problem(`${file.name}: ${error.message}`);
    }
    $("import-file").value = "";
  }
}
