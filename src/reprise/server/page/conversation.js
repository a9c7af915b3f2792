/// A conversation as a tree of messages. An edited question and a regenerated answer are further
/// children of the same message, so nothing that was said is lost: those are the branches.
///
/// A message: {id, parent, role, content, created} and, where it has them, {files: [{name, text}],
/// reasoning, reasoningSeconds, toolCalls: [{id, name, arguments}], toolCallId, isJson, model, finish,
/// stats}. Roles are user, assistant and tool. `parent` is null for a first message.

const kMaxTitle = 60;

/// Sixteen random bytes. crypto.randomUUID exists only over https and on this machine.
export function newId() {
  const bytes = [...crypto.getRandomValues(new Uint8Array(16))];
  return bytes.map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/// What the model reads for a question: its files, each in a block of code, then its text.
export function promptOf({ content, files = [] }) {
  const parts = files.map(({ name, text }) => {
    const longest = Math.max(2, ...(text.match(/`+/g) ?? []).map((run) => run.length));
    const fence = "`".repeat(longest + 1);
    return `File ${name}:\n${fence}\n${text.replace(/\n$/, "")}\n${fence}`;
  });
  return [...parts, content].filter((part) => part !== "").join("\n\n");
}

export class Conversation {
  #record;
  #byId = new Map();

  /// `record` is what record() returned, as storage or a file gave it back.
  constructor(record = emptyRecord()) {
    this.#record = { ...record, messages: [...record.messages] };
    for (const message of this.#record.messages) this.#byId.set(message.id, message);
  }

  get id() { return this.#record.id; }
  get title() { return this.#record.title; }
  get isEmpty() { return this.#record.messages.length === 0; }
  get leaf() { return this.#byId.get(this.#record.leaf) ?? null; }

  record() { return this.#record; }
  rename(title) { this.#record.title = title; }
  touch() { this.#record.updated = Date.now(); }

  /// The messages of the branch that is shown, the first one first.
  path() {
    const path = [];
    for (let message = this.leaf; message; message = this.#byId.get(message.parent)) path.push(message);
    return path.reverse();
  }

  /// The versions of a message, the oldest first, with itself.
  siblings(message) {
    return this.#record.messages.filter(({ parent }) => parent === message.parent);
  }

  /// Adds a message after the last one shown.
  append(message) {
    const added = { id: newId(), parent: this.#record.leaf, created: Date.now(), ...message };
    this.#record.messages.push(added);
    this.#byId.set(added.id, added);
    this.#record.leaf = added.id;
    if (!this.#record.title && added.role === "user") this.#record.title = titleOf(added);
    this.touch();
    return added;
  }

  /// Makes `message` the last one shown; null: no message is.
  cutAfter(message) {
    this.#record.leaf = message?.id ?? null;
  }
  cutBefore(message) {
    this.#record.leaf = message.parent;
  }

  /// Shows the branch through `message`, up to the newest message that follows.
  select(message) {
    const newestChild = new Map(this.#record.messages.map(({ id, parent }) => [parent, id]));
    let leaf = message.id;
    while (newestChild.has(leaf)) leaf = newestChild.get(leaf);
    this.#record.leaf = leaf;
  }

  /// The branch that is shown, as the API takes it. An answer with calls keeps its reasoning: the
  /// model goes on with it after the results.
  apiMessages() {
    return this.path().map((message) => {
      if (message.role === "user") return { role: "user", content: promptOf(message) };
      if (message.role === "tool") {
        return { role: "tool", tool_call_id: message.toolCallId, content: message.content };
      }
      const answer = { role: "assistant", content: message.content };
      if (message.toolCalls?.length > 0) {
        if (message.reasoning) answer.reasoning = message.reasoning;
        answer.tool_calls = message.toolCalls.map((call) =>
          ({ id: call.id, type: "function", function: { name: call.name, arguments: call.arguments } }));
      }
      return answer;
    });
  }
}

function emptyRecord() {
  const now = Date.now();
  return { id: newId(), title: "", created: now, updated: now, leaf: null, messages: [] };
}

function titleOf({ content, files = [] }) {
  const text = (content || files[0]?.name || "").replace(/\s+/g, " ").trim();
  return text.length > kMaxTitle ? text.slice(0, kMaxTitle - 1) + "…" : text;
}

/// The union of two records of one conversation, which two tabs may have changed; `newer` decides
/// which branch is shown. Messages are never changed after they are complete.
export function mergeRecords(older, newer) {
  const messages = new Map(older.messages.map((message) => [message.id, message]));
  for (const message of newer.messages) messages.set(message.id, message);
  const inOrder = [...messages.values()].sort((a, b) => a.created - b.created);
  return { ...newer, messages: inOrder };
}

const isText = (value) => typeof value === "string";
const isAbsentOr = (check) => (value) => value === undefined || check(value);
const isListOf = (check) => (value) => Array.isArray(value) && value.every(check);
const isObject = (value) => typeof value === "object" && value !== null;
const kMessageFields = {
  id: isText, parent: (value) => value === null || isText(value), content: isText, created: Number.isFinite,
  role: (value) => ["user", "assistant", "tool"].includes(value),
  files: isAbsentOr(isListOf((file) => isObject(file) && isText(file.name) && isText(file.text))),
  toolCalls: isAbsentOr(isListOf((call) =>
    isObject(call) && isText(call.id) && isText(call.name) && isText(call.arguments))),
  reasoning: isAbsentOr(isText), reasoningSeconds: isAbsentOr(Number.isFinite),
  toolCallId: isAbsentOr(isText), model: isAbsentOr(isText), finish: isAbsentOr(isText),
  isJson: isAbsentOr((value) => typeof value === "boolean"),
  stats: isAbsentOr((stats) => isObject(stats) && Object.values(stats).every(Number.isFinite)),
};
const kRecordFields = { id: isText, title: isText, created: Number.isFinite, updated: Number.isFinite,
                        leaf: (value) => value === null || isText(value) };

/// The record that `value` holds, with the known fields only, or null if it is none: storage and
/// files may hold anything. Each message follows its parent, so no branch has a loop.
export function readRecord(value) {
  const record = fieldsOf(value, kRecordFields);
  if (!record || !Array.isArray(value.messages)) return null;
  const seen = new Set();
  record.messages = [];
  for (const item of value.messages) {
    const message = fieldsOf(item, kMessageFields);
    if (!message || seen.has(message.id) || (message.parent !== null && !seen.has(message.parent))) return null;
    seen.add(message.id);
    record.messages.push(message);
  }
  return record.leaf === null || seen.has(record.leaf) ? record : null;
}
function fieldsOf(value, fields) {
  if (!isObject(value)) return null;
  const result = {};
  for (const [name, check] of Object.entries(fields)) {
    if (!check(value[name])) return null;
    if (value[name] !== undefined) result[name] = value[name];
  }
  return result;
}
