/// The conversations, kept in this browser (IndexedDB). Where the browser refuses, they live as long
/// as the page, and the page says so once.

import { mergeRecords, readRecord } from "./conversation.js";

const kDatabase = "reprise";
const kStore = "conversations";
const kFormat = "reprise-conversations";

const finished = (request) => new Promise((resolve, reject) => {
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
  request.onblocked = () => reject(new Error("another tab holds an older version of it open"));
});

export class History {
  #database = null;
  #inMemory = new Map();  // records that the browser does not keep
  #report;
  #said = new Set();
  #tabs = null;

  /// `report(text)` shows a problem to the reader; `changed()` is called when another tab has
  /// changed something.
  constructor(report, changed) {
    this.#report = report;
    if (typeof BroadcastChannel === "function") {
      this.#tabs = new BroadcastChannel("reprise-history");
      this.#tabs.onmessage = changed;
    }
  }

  async open() {
    try {
      const request = indexedDB.open(kDatabase, 1);
      request.onupgradeneeded = () => request.result.createObjectStore(kStore, { keyPath: "id" });
      this.#database = await finished(request);
      this.#database.onversionchange = () => this.#database.close();
    } catch (error) {
      this.#say(`This browser keeps no conversations (${reasonOf(error)}). ` +
        "They end with this page; an export keeps them.");
    }
  }

  /// All conversations, the last changed first. Records that cannot be read are left out.
  async all() {
    const records = new Map();
    let numBad = 0;
    for (const value of await this.#stored()) {
      const record = readRecord(value);
      if (record) records.set(record.id, record);
      else ++numBad;
    }
    if (numBad > 0) {
      const what = numBad === 1 ? "conversation" : "conversations";
      this.#say(`${numBad} stored ${what} cannot be read and cannot be shown.`);
    }
    for (const [id, record] of this.#inMemory) records.set(id, record);
    return [...records.values()].sort((a, b) => b.updated - a.updated);
  }
  async #stored() {
    if (!this.#database) return [];
    try {
      return await finished(this.#database.transaction(kStore).objectStore(kStore).getAll());
    } catch (error) {
      this.#say(`The stored conversations cannot be read (${reasonOf(error)}).`);
      return [];
    }
  }

  async get(id) {
    if (this.#inMemory.has(id)) return this.#inMemory.get(id);
    if (!this.#database) return null;
    try {
      return readRecord(await finished(this.#database.transaction(kStore).objectStore(kStore).get(id)));
    } catch (error) {
      this.#say(`The stored conversation cannot be read (${reasonOf(error)}).`);
      return null;
    }
  }

  /// Tells the other tabs that something has changed.
  announce() {
    this.#tabs?.postMessage("changed");
  }

  /// Keeps a conversation, with the messages that another tab has added to it meanwhile.
  async save(record) {
    if (!this.#database) return void this.#inMemory.set(record.id, structuredClone(record));
    try {
      await this.#write((store) => {
        store.get(record.id).onsuccess = ({ target }) => {
          const before = readRecord(target.result);
          store.put(before ? mergeRecords(before, record) : record);
        };
      });
      this.#inMemory.delete(record.id);
    } catch (error) {
      this.#inMemory.set(record.id, structuredClone(record));
      this.#say(error?.name === "QuotaExceededError"
        ? "The browser's storage for this page is full: what is new ends with this page. " +
          "Export the conversations, then delete some."
        : `The conversation could not be stored (${reasonOf(error)}). ` +
          "It ends with this page; an export keeps it.");
    }
  }

  async remove(id) {
    this.#inMemory.delete(id);
    if (!this.#database) return;
    try {
      await this.#write((store) => store.delete(id));
      this.announce();
    } catch (error) {
      this.#say(`The conversation could not be deleted (${reasonOf(error)}).`);
    }
  }

  /// Calls `change` with the store and resolves when its changes are on disk.
  async #write(change) {
    const transaction = this.#database.transaction(kStore, "readwrite");
    await new Promise((resolve, reject) => {
      transaction.oncomplete = resolve;
      transaction.onabort = () => reject(transaction.error ?? new Error("the browser gave up"));
      change(transaction.objectStore(kStore));
    });
  }

  /// The text of a file with these conversations.
  static exportText(records) {
    return JSON.stringify({ format: kFormat, version: 1, conversations: records }, null, 1);
  }

  /// Adds the conversations of an exported file; returns how many. A conversation that is here
  /// already gets the messages that it lacks. Throws an Error with a sentence for the reader.
  async importText(text) {
    let value = null;
    try { value = JSON.parse(text); } catch { /* refused below */ }
    if (value?.format !== kFormat || value.version !== 1 || !Array.isArray(value.conversations)) {
      throw new Error("This file holds no conversations of this page. Expected a file that its Export made.");
    }
    const records = value.conversations.map(readRecord);
    const bad = records.indexOf(null);
    if (bad >= 0) throw new Error(`Conversation ${bad + 1} of the file is damaged. Nothing was imported.`);
    for (const record of records) await this.save(record);
    return records.length;
  }

  /// Says a problem once, not at each message.
  #say(text) {
    if (this.#said.has(text)) return;
    this.#said.add(text);
    this.#report(text);
  }
}

function reasonOf(error) {
  return error?.message || error?.name || "no reason given";
}

/// Whether a conversation holds all words of a search.
export function holdsWords(record, search) {
  const words = search.toLowerCase().split(/\s+/).filter((word) => word !== "");
  const text = [record.title, ...record.messages.map(({ content }) => content)].join("\n").toLowerCase();
  return words.every((word) => text.includes(word));
}
