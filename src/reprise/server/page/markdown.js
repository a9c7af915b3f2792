/// Markdown as DOM nodes, for text of models: whole, or as it streams in.

import { copyButton } from "./clipboard.js";
import { make } from "./dom.js";
import { linesOf, parseBlocks } from "./markdown_blocks.js";
import { renderInline } from "./markdown_inline.js";
import { renderMath } from "./math.js";

const kTitleLevel = 2;  // of the title of a message
const kMaxDepth = 8;  // lists and quotes within each other; deeper ones are shown as text

export function renderMarkdown(parent, text) {
  parent.replaceChildren();
  renderLines(parent, linesOf(text), { depth: 0, heading: kTitleLevel });
}

/// `context` is {depth, heading}: how many lists and quotes are around, and the level of the last
/// heading on the page.
function renderLines(parent, lines, context) {
  if (context.depth > kMaxDepth) return void parent.append(make("p", {}, lines.join("\n")));
  for (const block of parseBlocks(lines)) parent.append(renderBlock(block, context));
}

function renderBlock(block, context) {
  switch (block.kind) {
    case "code": return codeBlock(block.language, block.text);
    case "formula": return renderMath(block.text, true);
    case "heading": return heading(block, context);
    case "rule": return make("hr");
    case "quote": return withLines("blockquote", block.lines, context);
    case "list": return list(block, context);
    case "table": return table(block);
    default: return withInline("p", block.text);
  }
}

function withInline(tag, text, attributes = {}) {
  const element = make(tag, attributes);
  renderInline(element, text);
  return element;
}
function withLines(tag, lines, context) {
  const element = make(tag);
  renderLines(element, lines, { ...context, depth: context.depth + 1 });
  return element;
}

/// Below the title of the message, and never two levels below the heading before: readers of
/// screens go by levels.
function heading(block, context) {
  context.heading = Math.min(block.level + kTitleLevel, context.heading + 1, 6);
  return withInline(`h${context.heading}`, block.text);
}

function list(block, context) {
  const start = block.isOrdered && block.start !== 1 ? block.start : undefined;
  const element = make(block.isOrdered ? "ol" : "ul", { start });
  for (const lines of block.items) {
    const task = /^\[([ xX])\] /.exec(lines[0]);
    if (task) lines[0] = (task[1] === " " ? "☐ " : "☑ ") + lines[0].slice(4);
    element.append(withLines("li", lines, context));
  }
  return element;
}

function table(block) {
  const row = (cells, tag) => {
    const element = make("tr");
    block.head.forEach((_, column) =>
      element.append(withInline(tag, cells[column] ?? "", { class: block.alignments[column] })));
    return element;
  };
  const body = make("tbody");
  for (const cells of block.rows) body.append(row(cells, "td"));
  return make("div", { class: "table", tabindex: 0, role: "region", "aria-label": "Table" },
    make("table", {}, make("thead", {}, row(block.head, "th")), body));
}

/// A block of code with its language and a button that copies it.
export function codeBlock(language, text) {
  const code = make("code", {}, text);
  return make("div", { class: "code" },
    make("div", { class: "code-head" }, make("span", {}, language), copyButton(() => code.textContent, "Copy the code")),
    make("pre", { tabindex: 0 }, code));
}

/// Text that comes in pieces. Each call of render() costs what the last block costs, not the whole
/// text: a block is final once a complete line starts the next one.
export class StreamedText {
  #parent;
  #tail = "";  // from the first block that is not final
  #open = [];  // the nodes of `#tail`
  #code = null;  // the node of a single open code block, which grows in its place
  #heading = kTitleLevel;  // of the last final heading

  constructor(parent) {
    this.#parent = parent;
  }

  append(text) {
    this.#tail += text;
  }

  render() {
    const lines = linesOf(this.#tail);
    const blocks = parseBlocks(lines);
    const isFinal = (index) => index + 1 < blocks.length && blocks[index + 1].first + 1 < lines.length;
    if (this.#code && blocks.length === 1 && blocks[0].kind === "code") {
      this.#code.querySelector("code").textContent = blocks[0].text;
      return;
    }
    for (const node of this.#open) node.remove();
    this.#open = [];
    let numFinal = 0;
    const context = { depth: 0, heading: this.#heading };
    blocks.forEach((block, index) => {
      const node = renderBlock(block, context);
      this.#parent.append(node);
      if (!isFinal(index)) return void this.#open.push(node);
      ++numFinal;
      this.#heading = context.heading;
    });
    if (numFinal > 0) this.#tail = lines.slice(blocks[numFinal].first).join("\n");
    const isCode = blocks.length === numFinal + 1 && blocks[numFinal].kind === "code";
    // Only with a complete first line, which names the language.
    this.#code = isCode && lines.length > blocks[numFinal].first + 1 ? this.#open[0] : null;
  }
}
