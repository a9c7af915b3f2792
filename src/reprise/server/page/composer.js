/// Where a question is written: its text and the files that go with it, as text.

import { $, make } from "./dom.js";

const kMaxFileBytes = 1 << 20;  // more text than the models of today read well

export class Composer {
  #files = [];
  #hooks;

  /// `hooks`: send(text, files), stop(), problem(text), editLast().
  constructor(hooks) {
    this.#hooks = hooks;
    $("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
    $("prompt").addEventListener("input", () => this.#fit());
    $("prompt").addEventListener("keydown", (event) => this.#key(event));
    $("prompt").addEventListener("paste", (event) => this.#take(event, event.clipboardData.files));
    $("attach").addEventListener("click", () => $("attach-file").click());
    $("attach-file").addEventListener("change", async () => {
      await this.add([...$("attach-file").files]);
      $("attach-file").value = "";
    });
    $("stop").addEventListener("click", () => hooks.stop());
    document.addEventListener("dragover", (event) => {
      if (event.dataTransfer.types.includes("Files")) event.preventDefault();
    });
    document.addEventListener("drop", (event) => this.#take(event, event.dataTransfer.files));
  }

  #key(event) {
    if (event.isComposing) return;
    if (event.key === "ArrowUp" && $("prompt").value === "") this.#hooks.editLast();
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    this.send();
  }
  #take(event, files) {
    if (files.length === 0) return;
    event.preventDefault();
    this.add([...files]);
  }

  /// Adds files whose bytes are text; says why for each of the others.
  async add(files) {
    for (const file of files) {
      try {
        this.#files.push({ name: file.name, text: await textOf(file) });
      } catch (error) {
        this.#hooks.problem(error.message);
      }
    }
    this.#showFiles();
    $("prompt").focus();
  }
  #showFiles() {
    $("files").replaceChildren(...this.#files.map((file) => make("li", {}, file.name, make("button", {
      type: "button", class: "quiet", "aria-label": `Remove ${file.name}`, click: () => {
        this.#files = this.#files.filter((other) => other !== file);
        this.#showFiles();
        $("prompt").focus();
      } }, "✕"))));
  }

  send() {
    const text = $("prompt").value.trim();
    if ((!text && this.#files.length === 0) || !$("stop").hidden) return;
    const files = this.#files;
    this.#files = [];
    this.#showFiles();
    $("prompt").value = "";
    this.#fit();
    this.#hooks.send(text, files);
  }

  showBusy(isBusy) {
    const hadFocus = [$("send"), $("stop")].includes(document.activeElement);
    $("send").hidden = isBusy;
    $("stop").hidden = !isBusy;
    if (hadFocus || document.activeElement === document.body) $("prompt").focus();
  }

  #fit() {
    const prompt = $("prompt");
    prompt.style.height = "auto";
    prompt.style.height = Math.min(prompt.scrollHeight + 2, 200) + "px";
  }
}

async function textOf(file) {
  if (file.size > kMaxFileBytes) {
    throw new Error(`${file.name} is larger than 1 MiB, the most that a file may have here.`);
  }
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    if (!text.includes("\0")) return text;
  } catch { /* said below */ }
  throw new Error(`${file.name} is not text. The page sends files as UTF-8 text; pictures, sound and ` +
    "PDF cannot be sent.");
}
