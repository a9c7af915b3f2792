/// One answer as its pieces arrive: the message that it becomes, its figures and why it ended.

import { ThinkTags } from "./think_tags.js";

export class Answer {
  #tags = new ThinkTags();
  #began = performance.now();
  #reasoningBegan = 0;
  message;
  numTokens = 0;
  firstTokenMs = null;

  constructor(fields) {
    this.message = { role: "assistant", content: "", ...fields };
  }

  get isEmpty() {
    return !this.message.content && !this.message.reasoning && !this.message.toolCalls;
  }
  get seconds() {
    return (performance.now() - this.#began) / 1000;
  }
  /// Tokens per second with the wait for the first token: what the network delivers at once has no
  /// rate of its own.
  get rate() {
    return this.numTokens / this.seconds;
  }

  /// Adds an event of the stream; returns the text that is new: {content, reasoning}.
  add(chunk) {
    if (chunk.usage) this.#count(chunk.usage);
    if (chunk.model) this.message.model = chunk.model;
    const choice = chunk.choices?.[0];
    if (!choice) return {};
    if (choice.finish_reason) this.message.finish = choice.finish_reason;
    const delta = choice.delta ?? {};
    for (const call of delta.tool_calls ?? []) this.#addCall(call);
    const { content, reasoning } = this.#tags.split(delta.content ?? "");
    return this.#addText(content, (delta.reasoning ?? delta.reasoning_content ?? "") + reasoning);
  }
  #addText(content, reasoning) {
    if (reasoning) this.#addReasoning(reasoning);
    this.message.content += content;
    return { content, reasoning };
  }
  #count({ completion_tokens: numTokens, prompt_tokens: numPromptTokens, prompt_tokens_details: details }) {
    this.numTokens = numTokens;
    if (numTokens > 0) this.firstTokenMs ??= performance.now() - this.#began;
    this.message.stats = { ...this.message.stats, tokens: numTokens, promptTokens: numPromptTokens };
    if (details?.cached_tokens) this.message.stats.cachedTokens = details.cached_tokens;
  }
  #addReasoning(text) {
    this.#reasoningBegan ||= performance.now();
    this.message.reasoning = (this.message.reasoning ?? "") + text;
    this.message.reasoningSeconds = (performance.now() - this.#reasoningBegan) / 1000;
  }
  #addCall({ index = 0, id, function: called = {} }) {
    const calls = (this.message.toolCalls ??= []);
    while (calls.length <= index) calls.push({ id: "", name: "", arguments: "" });
    if (id) calls[index].id = id;
    calls[index].name += called.name ?? "";
    calls[index].arguments += called.arguments ?? "";
  }

  /// Returns the text that is new, as add() does.
  end() {
    this.message.stats = { ...this.message.stats, tokens: this.numTokens, seconds: this.seconds };
    if (this.firstTokenMs !== null) this.message.stats.firstTokenMs = this.firstTokenMs;
    const { content, reasoning } = this.#tags.end();
    return this.#addText(content, reasoning);
  }
}

export const formatRate = (rate) => (rate >= 100 ? Math.round(rate).toString() : rate.toFixed(1));
export const formatCount = (count) => count.toLocaleString("en");

/// The line below an answer: "312 tokens · first after 41 ms · 80.2 tokens/s".
export function figuresOf({ stats, finish, model }) {
  if (!stats) return "";
  const parts = [stats.tokens === 1 ? "1 token" : `${formatCount(stats.tokens ?? 0)} tokens`];
  if (stats.promptTokens) {
    const cached = stats.cachedTokens ? `, ${formatCount(stats.cachedTokens)} cached` : "";
    parts.push(`prompt ${formatCount(stats.promptTokens)}${cached}`);
  }
  if (stats.firstTokenMs) parts.push(`first after ${Math.round(stats.firstTokenMs)} ms`);
  if (stats.tokens > 0 && stats.seconds > 0) parts.push(`${formatRate(stats.tokens / stats.seconds)} tokens/s`);
  if (!finish) parts.push("not finished");
  if (finish === "stopped") parts.push("stopped");
  if (finish === "length") parts.push("ended at max tokens");
  if (model) parts.push(model);
  return parts.join(" · ");
}
