/// The conversation on the page: what is asked, answered, edited and chosen.

import { Answer } from "./answer.js";
import { ApiProblem, streamChat } from "./api.js";
import { Conversation } from "./conversation.js";
import { $, make } from "./dom.js";
import { MessageView } from "./message_view.js";
import { chosenModel } from "./model_menu.js";
import { Painter } from "./painter.js";
import { answersAreJson, requestFields, systemPrompt } from "./settings.js";
import { resultsForm } from "./tool_results.js";

const kSaveEveryMs = 2000;
const kMaxAnnounced = 1000;  // characters; a reader of a screen finds the rest of an answer by its heading

export class Chat {
  #history;
  #hooks;
  #conversation = new Conversation();
  #views = [];
  #controller = null;  // of the answer that streams in
  #ended = Promise.resolve();  // when that answer has ended

  /// `hooks`: changed() after the conversation was stored, needsKey(problem) when the server wants
  /// a key, busy(isBusy), figures({rate, firstTokenMs}) of the answer.
  constructor(history, hooks) {
    this.#history = history;
    this.#hooks = hooks;
  }

  get conversation() { return this.#conversation; }
  get isBusy() { return this.#controller !== null; }

  async stop() {
    this.#controller?.abort();
    await this.#ended;
  }

  /// Shows `record`, or an empty conversation.
  async open(record) {
    await this.stop();
    this.#conversation = record ? new Conversation(record) : new Conversation();
    this.#show();
    scrollDown();
  }

  async ask(content, files) {
    // A question without an answer: two in a row are what some templates refuse, so the new one is
    // another version of it.
    if (this.#conversation.leaf?.role === "user") this.#conversation.cutBefore(this.#conversation.leaf);
    this.#append({ role: "user", content, ...(files.length > 0 && { files }) });
    await this.answer();
  }

  async edit(message, content) {
    await this.stop();
    this.#conversation.cutBefore(message);
    this.#append({ role: "user", content, ...(message.files && { files: message.files }) });
    await this.answer();
  }

  async regenerate(message) {
    await this.stop();
    this.#conversation.cutBefore(message);
    await this.answer();
  }

  async answerAgain(message) {
    await this.stop();
    this.#conversation.cutAfter(message);
    await this.answer();
  }

  async select(message) {
    await this.stop();
    this.#conversation.select(message);
    this.#show();
    await this.#save();
  }

  async sendResults(calls, results) {
    calls.forEach((call, index) =>
      this.#append({ role: "tool", toolCallId: call.id, content: results[index] }));
    await this.answer();
  }

  rename(title) {
    this.#conversation.rename(title);
  }

  #append(message) {
    this.#conversation.append(message);
    this.#show();
    scrollDown();
  }
  async #save() {
    await this.#history.save(this.#conversation.record());
    this.#hooks.changed();
  }

  // --- Showing

  /// Makes the page show the branch; views of messages that stay are kept.
  #show() {
    const passing = document.querySelectorAll("#messages > .problem, #messages > .results");
    for (const element of passing) element.remove();
    const path = this.#conversation.path();
    let same = 0;
    while (same < path.length && this.#views[same]?.message === path[same]) ++same;
    for (const view of this.#views.splice(same)) view.element.remove();
    for (const message of path.slice(same)) this.#addView(message);
    $("welcome").hidden = path.length > 0;
    this.#showResultsForm();
  }
  #addView(message, isStreaming = false) {
    const view = new MessageView(message, this.#conversation.siblings(message), this, isStreaming);
    this.#views.push(view);
    $("messages").append(view.element);
    return view;
  }
  #showResultsForm() {
    const calls = this.#conversation.leaf?.toolCalls;
    if (!calls?.length) return;
    $("messages").append(resultsForm(calls, (results) => this.sendResults(calls, results)));
  }

  showProblem(text) {
    following(() => $("messages").append(make("p", { class: "problem", role: "alert" }, text)));
  }

  // --- Answering

  /// Streams the answer to the branch that is shown; resolves when it has ended for whatever reason.
  async answer() {
    this.#show();
    let body;
    try {
      body = this.#requestBody();
    } catch (error) {
      await this.#save();
      return this.showProblem(error.message);
    }
    this.#controller = new AbortController();
    let ended;
    this.#ended = new Promise((resolve) => { ended = resolve; });
    this.#hooks.busy(true);
    const saved = this.#save();
    try {
      await this.#stream(body, this.#controller.signal);
    } finally {
      this.#controller = null;
      this.#hooks.busy(false);
      await saved;
      ended();
    }
  }

  #requestBody() {
    const system = systemPrompt();
    const first = system ? [{ role: "system", content: system }] : [];
    return {
      ...requestFields(), model: chosenModel(), stream: true,
      stream_options: { include_usage: true, continuous_usage_stats: true },
      messages: [...first, ...this.#conversation.apiMessages()],
    };
  }

  async #stream(body, signal) {
    const answer = new Answer({ isJson: answersAreJson() });
    let shown = null;
    let problem = null;
    try {
      for await (const chunk of streamChat(body, signal)) {
        const delta = answer.add(chunk);
        if (!shown && !answer.isEmpty) shown = this.#beginAnswer(answer);
        shown?.add(delta);
      }
    } catch (error) {
      if (error.name === "AbortError") answer.message.finish = "stopped";
      else problem = error;
    }
    const rest = answer.end();
    if (!shown && !answer.isEmpty) shown = this.#beginAnswer(answer);
    shown?.add(rest);
    await shown?.finish();
    if (!problem && answer.isEmpty && answer.message.finish !== "stopped") {
      problem = new Error("The model gave an empty answer.");
    }
    if (problem instanceof ApiProblem && problem.status === 401) this.#hooks.needsKey();
    else if (problem) this.showProblem(problem.message);
  }

  /// Puts the answer into the conversation and on the page; returns what shows its next pieces.
  #beginAnswer(answer) {
    answer.message = this.#conversation.append(answer.message);
    const view = this.#addView(answer.message, true);
    $("announcer").textContent = "The answer begins.";
    let savedAt = performance.now();
    const draw = () => {
      following(() => view.render());
      this.#hooks.figures(answer);
    };
    const painter = new Painter(draw);
    return {
      add: (delta) => {
        view.add(delta);
        painter.request();
        if (performance.now() - savedAt < kSaveEveryMs) return;
        savedAt = performance.now();
        this.#history.save(this.#conversation.record());
      },
      finish: async () => {
        painter.stop();
        following(() => {
          view.finish();
          this.#showResultsForm();
        });
        this.#hooks.figures(answer);
        $("announcer").textContent = answer.message.content.slice(0, kMaxAnnounced) || "The answer has ended.";
        await this.#save();
      },
    };
  }
}

function scrollDown() {
  const list = $("messages");
  list.scrollTop = list.scrollHeight;
}
/// Changes the messages, and scrolls with them if their end was in view.
function following(change) {
  const list = $("messages");
  const isAtEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 80;
  change();
  if (isAtEnd) scrollDown();
}
