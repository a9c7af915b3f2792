/// One message on the page. A view is made for a message as it is, or follows an answer that streams in.

import { figuresOf } from "./answer.js";
import { copyButton } from "./clipboard.js";
import { make } from "./dom.js";
import { codeBlock, renderMarkdown, StreamedText } from "./markdown.js";

export class MessageView {
  message;
  element;
  #actions;
  #reasoning = null;  // {details, summary, body, streamed}
  #text = null;  // the element of the answer's text
  #streamed = null;
  #isStreaming;
  #versions;
  #foot = make("div", { class: "foot" });

  /// `versions` are the branches at this message, with itself. `actions` has edit, regenerate,
  /// answerAgain and select; each takes a message first.
  constructor(message, versions, actions, isStreaming = false) {
    this.message = message;
    this.#versions = versions;
    this.#actions = actions;
    this.#isStreaming = isStreaming;
    this.element = make("article", { class: "message " + message.role, "aria-label": this.#who(),
                                     "aria-busy": isStreaming && "true" });
    this.element.append(make("h2", { class: "who" }, this.#who()));
    if (message.role === "assistant") this.#showAnswer();
    else this.#showQuestion();
    this.element.append(this.#foot);
    if (!isStreaming) this.#showFoot();
  }

  #who() {
    if (this.message.role === "tool") return "Result";
    return this.message.role === "user" ? "You" : "Answer";
  }

  #showQuestion() {
    for (const { name, text } of this.message.files ?? []) {
      this.element.append(make("details", { class: "file" }, make("summary", {}, name),
        make("pre", { tabindex: 0 }, text)));
    }
    if (this.message.content) this.element.append(make("div", { class: "text plain" }, this.message.content));
  }

  #showAnswer() {
    this.#text = make("div", { class: "text" });
    this.element.append(this.#text);
    if (this.#isStreaming) return;
    if (this.message.reasoning) this.#addReasoning(this.message.reasoning);
    this.#showText();
    this.#settleReasoning();
    this.#showCalls();
  }
  #showText() {
    if (this.message.isJson) this.#text.replaceChildren(jsonBlock(this.message.content));
    else renderMarkdown(this.#text, this.message.content);
  }
  #showCalls() {
    const calls = this.message.toolCalls ?? [];
    for (const call of calls) this.element.append(callView(call));
  }

  // --- Reasoning: open while it comes, folded when the answer follows.

  #addReasoning(text) {
    if (!this.#reasoning) {
      const summary = make("summary", {}, "Thinking …");
      const body = make("div", { class: "thoughts" });
      const details = make("details", { class: "reasoning", open: true }, summary, body);
      this.#reasoning = { details, summary, streamed: new StreamedText(body) };
      this.element.insertBefore(details, this.#text);
    }
    this.#reasoning.streamed.append(text);
    this.#reasoning.isDirty = true;
  }
  #settleReasoning() {
    this.#renderReasoning();
    if (!this.#reasoning || this.#reasoning.isSettled) return;
    const seconds = this.message.reasoningSeconds;
    this.#reasoning.isSettled = true;
    this.#reasoning.summary.textContent = seconds >= 1 ? `Thought for ${Math.round(seconds)} s` : "Thought";
    // With no answer after it, the reasoning is all there is to read.
    this.#reasoning.details.open = !this.message.content && !this.message.toolCalls;
  }
  #renderReasoning() {
    if (this.#reasoning?.isDirty) this.#reasoning.streamed.render();
    if (this.#reasoning) this.#reasoning.isDirty = false;
  }

  // --- An answer that streams in

  add({ content = "", reasoning = "" }) {
    if (reasoning) this.#addReasoning(reasoning);
    if (content) (this.#streamed ??= new StreamedText(this.#text)).append(content);
  }
  render() {
    if (this.message.content.trim() || this.message.toolCalls) this.#settleReasoning();
    else this.#renderReasoning();
    if (this.message.isJson) this.#text.replaceChildren(jsonBlock(this.message.content));
    else this.#streamed?.render();
  }
  finish() {
    this.#isStreaming = false;
    this.render();
    this.#settleReasoning();
    this.#showCalls();
    this.element.append(this.#foot);  // after the calls
    this.element.removeAttribute("aria-busy");
    this.#showFoot();
  }

  // --- Below the message: figures, notes, what can be done with it

  #showFoot() {
    const { message } = this;
    const versions = this.#versions;
    const figures = message.role === "assistant" ? figuresOf(message) : "";
    const note = noteOf(message);
    if (note) this.#foot.append(make("p", { class: "note" }, note));
    if (figures) this.#foot.append(make("p", { class: "figures-line" }, figures));
    const row = make("div", { class: "actions" });
    if (versions.length > 1) row.append(this.#versionMenu(versions));
    row.append(copyButton(() => message.content, "Copy this message"));
    if (message.role === "user") {
      const edit = this.#button("Edit", () => this.#startEdit());
      edit.classList.add("edit-button");
      row.append(edit);
      const again = this.#button("Answer this", () => this.#actions.answerAgain(message));
      again.classList.add("again");  // shown while no answer follows
      row.append(again);
    }
    if (message.role === "assistant") row.append(this.#button("Regenerate", () => this.#actions.regenerate(message)));
    this.#foot.append(row);
  }
  #button(text, click, label) {
    return make("button", { type: "button", class: "quiet", click, "aria-label": label }, text);
  }
  #versionMenu(versions) {
    const at = versions.findIndex(({ id }) => id === this.message.id);
    const step = (by, text, label) => {
      const button = this.#button(text, () => this.#actions.select(versions[at + by]), label);
      button.disabled = !versions[at + by];
      return button;
    };
    return make("span", { class: "versions", role: "group", "aria-label": "Versions" },
      step(-1, "‹", "The version before"), `${at + 1} / ${versions.length}`, step(1, "›", "The next version"));
  }

  // --- Editing a question makes a branch

  #startEdit() {
    const area = make("textarea", { rows: 3, "aria-label": "Edit your message" });
    area.value = this.message.content;
    const form = make("form", { class: "edit" }, area, make("menu", {},
      this.#button("Cancel", () => end()), make("button", { class: "primary" }, "Send as a new branch")));
    const hidden = [...this.element.children].filter((child) => !child.hidden);
    const end = () => {
      form.remove();
      for (const child of hidden) child.hidden = false;
      this.element.querySelector(".actions button")?.focus();
    };
    for (const child of hidden) child.hidden = true;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (area.value.trim() || this.message.files) this.#actions.edit(this.message, area.value.trim());
    });
    area.addEventListener("keydown", (event) => {
      if (event.key === "Escape") end();
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        form.requestSubmit();
      }
      event.stopPropagation();
    });
    this.element.append(form);
    area.focus();
  }
}

function noteOf({ role, content, reasoning, finish, toolCalls }) {
  if (role !== "assistant" || content || toolCalls || !reasoning) return "";
  if (finish === "length") {
    return "The answer ended at max tokens while the model was still thinking. " +
      "Allow more tokens in the settings.";
  }
  return "The model gave no answer after its reasoning.";
}

function jsonBlock(text) {
  if (text === "") return "";
  let shown = text;
  try { shown = JSON.stringify(JSON.parse(text), null, 2); } catch { /* it still streams in, or was cut */ }
  return codeBlock("json", shown);
}

/// A call of a tool: its name and its arguments.
function callView(call) {
  return make("details", { class: "call", open: true }, make("summary", {}, "Calls ", make("code", {}, call.name)),
    jsonBlock(call.arguments) || make("p", { class: "note" }, "No arguments"));
}
