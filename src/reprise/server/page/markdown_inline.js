/// The inside of a line of Markdown: emphasis, code, links and formulas, as DOM nodes. Every search
/// is bounded or remembers that it failed, so that no text takes quadratic time.

import { make } from "./dom.js";
import { renderMath } from "./math.js";

const kMaxOpen = 32;  // emphasis within emphasis; deeper marks stay text
const kMaxLabel = 500;  // characters of a link's text
const kMaxUrl = 2000;
const kMaxFormula = 1000;
const kEntities = { "&lt;": "<", "&gt;": ">", "&amp;": "&", "&quot;": '"', "&nbsp;": "\u00a0", "&#39;": "'" };
const kSchemes = new Set(["http:", "https:", "mailto:"]);

/// The address that a link of a model may lead to, or null. Relative addresses are refused too: a
/// model does not know where this page is.
export function safeAddress(text) {
  try {
    const url = new URL(text);
    return kSchemes.has(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

/// Appends `text` to `parent`. `canLink` is false inside the text of a link.
export function renderInline(parent, text, canLink = true) {
  for (const node of new InlineReader(text, canLink).read()) parent.append(node);
}

function link(address, ...children) {
  return make("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, ...children);
}

const isSpace = (character) => character === undefined || /\s/.test(character);
const isDigit = (character) => character !== undefined && /\d/.test(character);
const isWord = (character) => character !== undefined && /[\p{L}\p{N}]/u.test(character);

class InlineReader {
  #text;
  #at = 0;
  #canLink;
  #plain = "";
  #nodes = [];
  #open = [];  // {marker, index}: emphasis without an end; its marker is the text node at `index`
  #absent = new Set();  // strings that do not occur after #at

  constructor(text, canLink) {
    this.#text = text;
    this.#canLink = canLink;
  }

  read() {
    while (this.#at < this.#text.length) {
      if (!this.#readSpecial()) this.#plain += this.#text[this.#at++];
    }
    this.#flush();
    return this.#nodes;
  }

  #readSpecial() {
    switch (this.#text[this.#at]) {
      case "\\": return this.#readBackslash();
      case "`": return this.#readCode();
      case "$": return this.#readDollars();
      case "*": case "_": case "~": return this.#readEmphasis();
      case "!": case "[": return this.#canLink && this.#readLink();
      case "&": return this.#readEntity();
      case "<": return this.#readAngle();
      case "h": return this.#canLink && this.#readBareAddress();
      default: return false;
    }
  }

  #flush() {
    if (this.#plain) this.#nodes.push(document.createTextNode(this.#plain));
    this.#plain = "";
  }
  #push(node, end) {
    this.#flush();
    this.#nodes.push(node);
    this.#at = end;
    return true;
  }
  /// Where `wanted` occurs next, or -1; asks only once for what is not there.
  #find(wanted, from) {
    if (this.#absent.has(wanted)) return -1;
    const found = this.#text.indexOf(wanted, from);
    if (found < 0) this.#absent.add(wanted);
    return found;
  }

  #readBackslash() {
    const next = this.#text[this.#at + 1];
    if (next === "(" || next === "[") {
      const end = this.#find(next === "(" ? "\\)" : "\\]", this.#at + 2);
      if (end < 0 || end - this.#at > kMaxFormula) return false;
      return this.#push(renderMath(this.#text.slice(this.#at + 2, end), false), end + 2);
    }
    if (next === "\n") return this.#skip();  // a line break, which the line's end is anyway
    if (next === undefined || !/[!-/:-@[-`{-~]/.test(next)) return false;
    this.#plain += next;
    this.#at += 2;
    return true;
  }

  #skip() {
    ++this.#at;
    return true;
  }
  #readEntity() {
    const found = this.#match(/&(?:lt|gt|amp|quot|nbsp|#39);/y);
    if (!found) return false;
    this.#plain += kEntities[found[0]];
    this.#at += found[0].length;
    return true;
  }

  #readCode() {
    const ticks = this.#run("`");
    const start = this.#at + ticks.length;
    for (let end = this.#find(ticks, start); end >= 0; ) {
      let after = end + ticks.length;
      if (this.#text[after] !== "`") {
        let code = this.#text.slice(start, end);
        if (/^ .*[^ ].* $/s.test(code)) code = code.slice(1, -1);
        return this.#push(make("code", {}, code), after);
      }
      while (this.#text[after] === "`") ++after;  // a longer run is part of the code
      end = this.#text.indexOf(ticks, after);
    }
    this.#plain += ticks;
    this.#at = start;
    return true;
  }
  #run(character) {
    let end = this.#at;
    while (this.#text[end] === character) ++end;
    return this.#text.slice(this.#at, end);
  }

  /// $x$ is a formula and "$5 and $6" is not: a formula touches both of its dollars, and no digit
  /// follows it.
  #readDollars() {
    const marker = this.#text[this.#at + 1] === "$" ? "$$" : "$";
    const start = this.#at + marker.length;
    const end = this.#find(marker, start);
    if (end <= start || end - start > kMaxFormula) return this.#keep(marker);
    const isLoose = isSpace(this.#text[start]) || isSpace(this.#text[end - 1]);
    const formula = this.#text.slice(start, end);
    if (marker === "$" && (isLoose || /\d/.test(this.#text[end + 1] ?? "") || formula.includes("\n")))
      return this.#keep(marker);
    return this.#push(renderMath(formula, false), end + marker.length);
  }
  #keep(text) {
    this.#plain += text;
    this.#at += text.length;
    return true;
  }

  #readEmphasis() {
    const character = this.#text[this.#at];
    const run = this.#run(character);
    const before = this.#text[this.#at - 1];
    const after = this.#text[this.#at + run.length];
    if (run.length > 3 || (character === "~" && run.length !== 2)) return this.#keep(run);
    // snake_case and 2*3*4 have no emphasis
    const isInWord = (character === "_" && isWord(before) && isWord(after)) || (isDigit(before) && isDigit(after));
    let left = run.length;
    this.#at += run.length;
    if (!isSpace(before) && !isInWord) left = this.#closeEmphasis(character, left);
    while (left > 0) {
      const marker = character.repeat(Math.min(left, 2));
      left -= marker.length;
      const canOpen = !isSpace(after) && !isInWord && this.#open.length < kMaxOpen;
      if (!canOpen) {
        this.#plain += marker;
        continue;
      }
      this.#flush();
      this.#open.push({ marker, index: this.#nodes.length });
      this.#nodes.push(document.createTextNode(marker));
    }
    return true;
  }
  /// Ends the emphases that a run of `left` characters can end; returns how many characters remain.
  #closeEmphasis(character, left) {
    while (left > 0) {
      const index = this.#open.findLastIndex(
        ({ marker }) => marker[0] === character && marker.length <= left);
      if (index < 0) return left;
      const { marker, index: from } = this.#open[index];
      this.#flush();
      const children = this.#nodes.splice(from).slice(1);
      if (children.length === 0) {  // "****" is no emphasis of nothing
        this.#nodes.push(document.createTextNode(marker));
        this.#open.length = index;
        return left;
      }
      const tag = character === "~" ? "del" : marker.length === 2 ? "strong" : "em";
      const element = make(tag);
      for (const child of children) element.append(child);
      this.#nodes.push(element);
      this.#open.length = index;
      left -= marker.length;
    }
    return 0;
  }

  /// [text](address) and ![text](address): a picture is only linked, since the page loads nothing
  /// from other servers.
  #readLink() {
    const isPicture = this.#text[this.#at] === "!";
    const start = this.#at + (isPicture ? 2 : 1);
    if (isPicture && this.#text[this.#at + 1] !== "[") return false;
    const middle = this.#find("](", start);
    if (middle < 0 || middle - start > kMaxLabel) return false;
    const label = this.#text.slice(start, middle);
    if (!isPicture && label.includes("[") && !label.startsWith("![")) return false;
    const end = this.#endOfAddress(middle + 2);
    if (end < 0) return false;
    const [, target] = /^\s*<?([^\s<>]*)>?(?:\s+["'(].*)?\s*$/s.exec(this.#text.slice(middle + 2, end)) ?? [];
    const address = target && safeAddress(target);
    if (!address) return this.#keep(this.#text.slice(this.#at, end + 1));
    const element = link(address);
    renderInline(element, label || target, false);
    return this.#push(element, end + 1);
  }
  /// The position of the parenthesis that ends an address, which may contain pairs of them.
  #endOfAddress(from) {
    let depth = 0;
    for (let at = from; at < this.#text.length && at - from < kMaxUrl; ++at) {
      if (this.#text[at] === "(") ++depth;
      if (this.#text[at] === "\n") return -1;
      if (this.#text[at] === ")" && depth-- === 0) return at;
    }
    return -1;
  }

  #match(pattern) {
    pattern.lastIndex = this.#at;
    return pattern.exec(this.#text);
  }
  #readAngle() {
    const lineBreak = this.#match(/<br ?\/?>/y);
    if (lineBreak) return this.#push(make("br"), this.#at + lineBreak[0].length);
    const found = this.#canLink && this.#match(/<((?:https?:\/\/|mailto:)[^\s<>]{1,2000})>/y);
    const address = found && safeAddress(found[1]);
    return address ? this.#push(link(address, found[1]), this.#at + found[0].length) : false;
  }
  #readBareAddress() {
    if (isWord(this.#text[this.#at - 1])) return false;
    const found = this.#match(/https?:\/\/[^\s<>"`|\\^{}*]{1,2000}/y);
    if (!found) return false;
    let shown = found[0].replace(/[.,;:!?'_\]]+$/, "");
    if (shown.endsWith(")") && !shown.includes("(")) shown = shown.replace(/[).,;:!?]+$/, "");
    const address = safeAddress(shown);
    return address ? this.#push(link(address, shown), this.#at + shown.length) : false;
  }
}
