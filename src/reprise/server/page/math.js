/// Formulas in LaTeX as MathML, which browsers draw themselves. A formula with a command that this
/// page does not know is shown as its source: better that than a formula with a part missing.

import { make } from "./dom.js";
import * as symbols from "./math_symbols.js";

const kNamespace = "http://www.w3.org/1998/Math/MathML";
const kMaxDepth = 24;  // groups within each other
const kFences = { pmatrix: "()", bmatrix: "[]", Bmatrix: "{}", vmatrix: "||", Vmatrix: "‖‖", cases: "{" };
const kTables = new Set([...Object.keys(kFences), "matrix", "smallmatrix", "array", "aligned", "align", "align*", "alignat",
                         "gathered", "gather", "gather*", "split", "equation", "equation*"]);
const kTexts = new Set(["text", "textrm", "textbf", "textit", "textsf", "texttt", "mbox", "mathrm", "mathit", "mathsf",
                        "mathtt", "operatorname", "operatorname*"]);
const kSizes = /^(?:[bB]igg?[lrm]?)$/;
const kApart = { lspace: "0.12em", rspace: "0.12em" };  // names of functions stand apart from letters
const kIgnored = new Set(["displaystyle", "textstyle", "limits", "nolimits", "nonumber", "notag", "hline"]);

class Unknown extends Error {}

/// A formula as a node. `isBlock`: on lines of its own.
export function renderMath(source, isBlock) {
  let math;
  try {
    math = new Reader(source, isBlock).formula();
  } catch (error) {
    if (!(error instanceof Unknown)) throw error;
    const text = source.trim();
    return isBlock ? make("pre", { class: "formula", tabindex: 0 }, text) : make("code", { class: "formula" }, text);
  }
  math.setAttribute("alttext", source.trim());
  if (!isBlock) return math;
  math.setAttribute("display", "block");
  return make("div", { class: "formula", tabindex: 0 }, math);
}

function node(tag, attributes, ...children) {
  const element = document.createElementNS(kNamespace, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
const row = (children) => (children.length === 1 ? children[0] : node("mrow", {}, ...children));
const fence = (text) => node("mo", { stretchy: "true", fence: "true" }, text);

class Reader {
  #tokens;
  #at = 0;
  #depth = 0;
  #isBlock;

  constructor(source, isBlock) {
    this.#tokens = source.match(/\\[a-zA-Z]+\*?|\\[^]|\d+(?:\.\d+)?|\s+|[^]/gu) ?? [];
    this.#isBlock = isBlock;
  }

  formula() {
    const rows = this.#rows(() => this.#at >= this.#tokens.length);
    return node("math", {}, rows.length === 1 && rows[0].length === 1 ? row(rows[0][0]) : table(rows));
  }

  #peek() {
    while (/^\s/.test(this.#tokens[this.#at] ?? "")) ++this.#at;
    return this.#tokens[this.#at];
  }
  #next() {
    const token = this.#peek();
    if (token === undefined) throw new Unknown();
    ++this.#at;
    return token;
  }
  #take(token) {
    if (this.#peek() !== token) return false;
    ++this.#at;
    return true;
  }
  /// Reads one level deeper.
  #inside(read) {
    if (++this.#depth > kMaxDepth) throw new Unknown();
    const result = read();
    --this.#depth;
    return result;
  }

  /// Rows of cells up to where `isEnd()`; \\ ends a row and & ends a cell.
  #rows(isEnd) {
    const rows = [[[]]];
    while (!isEnd()) {
      const token = this.#peek();
      if (token === undefined) throw new Unknown();
      if (this.#take("\\\\")) rows.push([[]]);
      else if (this.#take("&")) rows.at(-1).push([]);
      else rows.at(-1).at(-1).push(...this.#scripted());
    }
    if (rows.length > 1 && rows.at(-1).length === 1 && rows.at(-1)[0].length === 0) rows.pop();
    return rows;
  }
  #until(end) {
    const children = [];
    while (!this.#take(end)) children.push(...this.#scripted());
    return row(children);
  }
  /// What a command applies to: a group, or one symbol.
  #argument() {
    return this.#inside(() => {
      if (this.#take("{")) return this.#until("}");
      const atoms = this.#atom();
      if (!atoms) throw new Unknown();
      return atoms.element;
    });
  }
  /// The text of a group as it is, for \text{...}.
  #raw() {
    if (!this.#take("{")) throw new Unknown();
    let text = "";
    for (let depth = 1; ; ++this.#at) {
      const token = this.#tokens[this.#at];
      if (token === undefined) throw new Unknown();
      if (token === "{") ++depth;
      if (token === "}" && --depth === 0) break;
      if (token !== "{" && token !== "}") text += token.replace(/^\\(?=[^a-zA-Z])/, "");
    }
    ++this.#at;
    return text;
  }

  /// One symbol with what stands above and below it; nothing for a command without a picture.
  #scripted() {
    const atom = this.#atom();
    let below = null;
    let above = null;
    for (let next = this.#peek(); next === "_" || next === "^" || next === "'"; next = this.#peek()) {
      ++this.#at;
      if (next === "_") below = this.#argument();
      else if (next === "^") above = above ? row([above, this.#argument()]) : this.#argument();
      else above = row([...(above ? [above] : []), node("mo", {}, "′")]);
    }
    if (!below && !above) return atom ? [atom.element] : [];
    const base = atom?.element ?? node("mrow", {});
    const [sub, sup, both] = atom?.hasLimits && this.#isBlock ? ["munder", "mover", "munderover"] : ["msub", "msup", "msubsup"];
    if (below && above) return [node(both, {}, base, below, above)];
    return [below ? node(sub, {}, base, below) : node(sup, {}, base, above)];
  }

  /// {element, hasLimits}, or null for a command without a picture.
  #atom() {
    const token = this.#next();
    if (token === "{") return { element: this.#inside(() => this.#until("}")) };
    if ("}&^_%#".includes(token)) throw new Unknown();
    if (token[0] === "\\") return this.#command(token.slice(1));
    if (/^\d/.test(token)) return { element: node("mn", {}, token) };
    if (/^\p{L}/u.test(token)) return { element: node("mi", {}, token) };
    if (token === "~") return { element: node("mspace", { width: "0.33em" }) };
    return { element: node("mo", "()[]|".includes(token) ? { stretchy: "false" } : {}, { "-": "−", "*": "∗" }[token] ?? token) };
  }

  #command(name) {
    const limits = symbols.kLarge.get(name) ?? symbols.kLimits.get(name);
    if (limits) return { element: node("mo", symbols.kLarge.has(name) ? {} : kApart, limits), hasLimits: true };
    if (symbols.kLetters.has(name)) return { element: node("mi", {}, symbols.kLetters.get(name)) };
    if (symbols.kOperators.has(name)) return { element: node("mo", {}, symbols.kOperators.get(name)) };
    if (symbols.kFunctions.has(name)) return { element: node("mo", kApart, name) };
    if (symbols.kSpaces.has(name)) return { element: node("mspace", { width: symbols.kSpaces.get(name) + "em" }) };
    if (/^[{}%$#&_|]$/.test(name)) return { element: node("mo", { stretchy: "false" }, name === "|" ? "‖" : name) };
    if (kIgnored.has(name)) return null;
    if (kTexts.has(name)) return this.#text(name);
    if (symbols.kAccents.has(name)) return this.#accent(name);
    if (symbols.kAlphabets.has(name)) return { element: node("mi", {}, this.#letters(symbols.kAlphabets.get(name))) };
    if (kSizes.test(name)) return { element: fence(this.#delimiter()) };
    return { element: this.#structure(name) };
  }
  #text(name) {
    const text = this.#raw();
    if (name.startsWith("operatorname")) return { element: node("mo", kApart, text), hasLimits: name.endsWith("*") };
    return { element: node("mtext", {}, text.replace(/^ | $/g, "\u00a0")) };
  }
  #accent(name) {
    const base = this.#argument();
    const isBelow = name.startsWith("under");
    const stretchy = /^(?:wide|over|under)/.test(name) ? "true" : "false";
    const mark = node("mo", { stretchy }, symbols.kAccents.get(name));
    return { element: node(isBelow ? "munder" : "mover", isBelow ? {} : { accent: "true" }, base, mark),
             hasLimits: name.endsWith("brace") };
  }
  #letters(letterOf) {
    const text = this.#peek() === "{" ? this.#raw() : this.#next();
    if (text.includes("\\")) throw new Unknown();
    return [...text].map(letterOf).join("");
  }

  #structure(name) {
    switch (name) {
      case "frac": case "dfrac": case "tfrac": case "cfrac": return node("mfrac", {}, this.#argument(), this.#argument());
      case "binom": return node("mrow", {}, fence("("),
        node("mfrac", { linethickness: "0" }, this.#argument(), this.#argument()), fence(")"));
      case "sqrt": return this.#root();
      case "boxed": return node("mrow", { class: "boxed" }, this.#argument());
      case "left": return this.#inside(() => this.#fenced());
      case "begin": return this.#inside(() => this.#environment());
      case "overset": case "stackrel": return this.#stacked("mover");
      case "underset": return this.#stacked("munder");
      case "pmod": return node("mrow", {}, node("mo", {}, "("), node("mtext", {}, "mod\u00a0"),
        this.#argument(), node("mo", {}, ")"));
      case "bmod": case "mod": return node("mo", {}, "mod");
      case "not": return node("mo", {}, this.#delimiter() + "\u0338");
      default: throw new Unknown();
    }
  }
  #root() {
    const index = this.#take("[") ? this.#inside(() => this.#until("]")) : null;
    const base = this.#argument();
    return index ? node("mroot", {}, base, index) : node("msqrt", {}, base);
  }
  #stacked(tag) {
    const mark = this.#argument();
    return node(tag, {}, this.#argument(), mark);
  }
  #delimiter() {
    const token = this.#next();
    if (token[0] !== "\\") return token === "." ? "" : token;
    const name = token.slice(1);
    const symbol = symbols.kOperators.get(name) ?? { "{": "{", "}": "}", "|": "‖" }[name];
    if (!symbol) throw new Unknown();
    return symbol;
  }
  #fenced() {
    const children = [fence(this.#delimiter())];
    while (!this.#take("\\right")) {
      if (this.#take("\\middle")) children.push(fence(this.#delimiter()));
      else children.push(...this.#scripted());
    }
    return node("mrow", {}, ...children, fence(this.#delimiter()));
  }
  #environment() {
    const name = this.#raw();
    if (!kTables.has(name)) throw new Unknown();
    if (name === "array" || name === "alignat") this.#raw();  // how its columns are aligned
    const rows = this.#rows(() => this.#take("\\end"));
    if (this.#raw() !== name) throw new Unknown();
    const [open, close] = kFences[name] ?? "";
    const isAligned = /^(?:align|split)/.test(name);
    const content = table(rows, name === "cases" ? "cases" : isAligned ? "aligned" : "");
    return node("mrow", {}, ...(open ? [fence(open)] : []), content, ...(close ? [fence(close)] : []));
  }
}

function table(rows, kind = "aligned") {
  return node("mtable", kind ? { class: kind, displaystyle: "true" } : {},
    ...rows.map((cells) => node("mtr", {}, ...cells.map((cell) => node("mtd", {}, row(cell))))));
}
