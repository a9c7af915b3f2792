/// Splits Markdown into blocks. Pure text in, plain objects out: no DOM.
///
/// A block is {kind, first, end, ...}: the lines from `first` up to `end`, and what its kind has.
/// No block changes when lines are added after a complete first line of the next block, which is
/// what streams rely on.

const kFence = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;
const kHeading = /^ {0,3}(#{1,6})(?:[ ]+(.*))?$/;
const kQuote = /^ {0,3}> ?/;
const kItem = /^([ \t]*)([-*+]|\d{1,9}[.)])([ \t]+|$)/;
const kTabColumns = 4;
const kMaxColumns = 64;  // a wider table stays text

export function linesOf(text) {
  return text.split(/\r?\n/);
}

export function parseBlocks(lines) {
  const blocks = [];
  for (let at = 0; at < lines.length; ) {
    if (isBlank(lines[at])) {
      ++at;
      continue;
    }
    const block = readBlock(lines, at);
    block.first = at;
    blocks.push(block);
    at = block.end;
  }
  return blocks;
}

function readBlock(lines, at) {
  return readFence(lines, at) ?? readFormula(lines, at) ?? readHeading(lines, at) ?? readRule(lines, at) ??
    readQuote(lines, at) ?? readList(lines, at) ?? readTable(lines, at) ?? readParagraph(lines, at);
}

const isBlank = (line) => line.trim() === "";
const columnsOf = (space) => space.length + (kTabColumns - 1) * (space.split("\t").length - 1);
const indentOf = (line) => columnsOf(/^[ \t]*/.exec(line)[0]);

/// The line without up to `columns` columns of space at its start.
function unindent(line, columns) {
  let at = 0;
  for (let left = columns; left > 0 && (line[at] === " " || line[at] === "\t"); ++at) left -= columnsOf(line[at]);
  return line.slice(at);
}

function readFence(lines, at) {
  const open = kFence.exec(lines[at]);
  if (!open) return null;
  const mark = open[1];
  const indent = indentOf(lines[at]);
  const isEnd = (line) => {
    const text = line.trim();
    return text.length >= mark.length && indentOf(line) < 4 && text === mark[0].repeat(text.length);
  };
  let end = at + 1;
  while (end < lines.length && !isEnd(lines[end])) ++end;
  const code = lines.slice(at + 1, end).map((line) => unindent(line, indent));
  return { kind: "code", language: open[2].trim().split(/\s+/)[0], text: code.join("\n"),
           end: Math.min(end + 1, lines.length) };
}

function readFormula(lines, at) {
  const line = lines[at].trim();
  const close = line.startsWith("\\[") ? "\\]" : line.startsWith("$$") ? "$$" : null;
  if (!close) return null;
  for (let end = at, text = line.slice(2); end < lines.length && end - at < 60; text = lines[++end]?.trim()) {
    if (end > at && isBlank(lines[end])) return null;
    const found = text.indexOf(close);
    if (found < 0) continue;
    if (text.slice(found + 2).trim() !== "") return null;
    const all = lines.slice(at, end + 1).join("\n").trim();
    return { kind: "formula", text: all.slice(2, all.lastIndexOf(close)), end: end + 1 };
  }
  return null;
}

function readHeading(lines, at) {
  const found = kHeading.exec(lines[at]);
  return found && { kind: "heading", level: found[1].length, end: at + 1,
                    text: (found[2] ?? "").replace(/(?:^| )#+ *$/, "") };
}

function readRule(lines, at) {
  const marks = lines[at].replaceAll(" ", "");
  const isRule = marks.length >= 3 && "-*_".includes(marks[0]) && marks === marks[0].repeat(marks.length);
  return isRule ? { kind: "rule", end: at + 1 } : null;
}

function readQuote(lines, at) {
  let end = at;
  while (end < lines.length && kQuote.test(lines[end])) ++end;
  if (end === at) return null;
  return { kind: "quote", lines: lines.slice(at, end).map((line) => line.replace(kQuote, "")), end };
}

function readItem(line) {
  const found = kItem.exec(line);
  if (!found) return null;
  const indent = columnsOf(found[1]);
  // At least two, since models indent by two under "1." too.
  const columns = indent + Math.max(2, found[2].length + Math.min(columnsOf(found[3]), kTabColumns));
  return { indent, columns, text: line.slice(found[0].length), isOrdered: found[2].length > 1, number: parseInt(found[2], 10) };
}

function readList(lines, at) {
  const first = readItem(lines[at]);
  if (!first) return null;
  const list = { kind: "list", isOrdered: first.isOrdered, start: first.number, items: [], end: at };
  while (list.end < lines.length) {
    let next = list.end;
    while (next < lines.length && isBlank(lines[next])) ++next;  // between two items
    const item = next < lines.length ? readItem(lines[next]) : null;
    if (!item || item.isOrdered !== first.isOrdered || item.indent >= first.indent + 2 || readRule(lines, next)) break;
    const [body, end] = readBody(lines, next, item);
    list.items.push(body);
    list.end = end;
  }
  return list.items.length > 0 ? list : null;
}

/// The lines of one item without their indentation, and where they end. Two spaces more than the
/// item's mark are enough to belong to it, since models are not strict about indentation.
function readBody(lines, at, item) {
  const body = [item.text];
  let end = at + 1;
  while (end < lines.length) {
    let next = end;
    while (next < lines.length && isBlank(lines[next])) ++next;
    if (next === lines.length) break;
    const indent = indentOf(lines[next]);
    const isInside = indent >= item.indent + 2;
    const goesOn = next === end && !readItem(lines[next]) && !startsBlock(lines, next);
    if (!isInside && !goesOn) break;
    while (end < next) body.push(lines[end++]);
    body.push(unindent(lines[end++], item.columns));
  }
  return [body, end];
}

function cellsOf(line) {
  const cells = [""];
  for (let at = 0; at < line.length; ++at) {
    if (line[at] === "\\" && line[at + 1] === "|") cells[cells.length - 1] += line[++at];
    else if (line[at] === "|") cells.push("");
    else cells[cells.length - 1] += line[at];
  }
  if (cells[0].trim() === "") cells.shift();
  if (cells.length > 0 && cells.at(-1).trim() === "") cells.pop();
  return cells.map((cell) => cell.trim());
}

function readTable(lines, at) {
  if (!lines[at].includes("|") || !/^[-:| ]*-[-:| ]*$/.test(lines[at + 1] ?? "")) return null;
  const head = cellsOf(lines[at]);
  const marks = cellsOf(lines[at + 1]);
  if (marks.length !== head.length || marks.length > kMaxColumns) return null;
  if (!marks.every((mark) => /^:?-+:?$/.test(mark))) return null;
  const table = { kind: "table", head, rows: [], end: at + 2, alignments: marks.map((mark) =>
    mark.endsWith(":") ? (mark.startsWith(":") ? "center" : "right") : "left") };
  while (table.end < lines.length && lines[table.end].includes("|") && !startsBlock(lines, table.end)) {
    table.rows.push(cellsOf(lines[table.end++]).slice(0, head.length));
  }
  return table;
}

/// Whether the line ends a paragraph. As in CommonMark, a list within a paragraph starts at 1 and
/// has text.
function startsBlock(lines, at) {
  const line = lines[at];
  if (kFence.test(line) || kHeading.test(line) || kQuote.test(line) || readRule(lines, at)) return true;
  if (/^\s*(?:\\\[|\$\$)/.test(line) && readFormula(lines, at)) return true;
  const item = readItem(line);
  return item !== null && item.text !== "" && (!item.isOrdered || item.number === 1);
}

function readParagraph(lines, at) {
  let end = at + 1;
  while (end < lines.length && !isBlank(lines[end]) && !startsBlock(lines, end) && !readTable(lines, end)) ++end;
  return { kind: "paragraph", text: lines.slice(at, end).map((line) => line.trimEnd()).join("\n"), end };
}
