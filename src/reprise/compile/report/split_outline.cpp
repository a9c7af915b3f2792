#include "reprise/compile/report/split_outline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "reprise/compile/report/launch_count.h"
#include "reprise/program/text.h"
#include "reprise/tensor/custom_op.h"

namespace reprise::compile {
namespace {

using program::Node;
using program::Piece;
using program::Program;

// The longest period that is searched. It is longer than any repeating pattern of layers (window,
// window, ..., full) in pieces, and longer than one layer in ops.
constexpr size_t kLongestPeriod = 64;

size_t repetitions(const std::vector<size_t>& sequence, size_t begin, size_t period) {
  size_t count = 1;
  const auto first = sequence.begin() + static_cast<std::ptrdiff_t>(begin);
  while (begin + (count + 1) * period <= sequence.size() &&
         std::equal(first,
                    first + static_cast<std::ptrdiff_t>(period),
                    first + static_cast<std::ptrdiff_t>(count * period))) {
    ++count;
  }
  return count;
}

}  // namespace

std::vector<PieceRun> fold_runs(const std::vector<size_t>& sequence) {
  std::vector<PieceRun> runs;
  for (size_t begin = 0; begin < sequence.size();) {
    PieceRun best{.begin = begin};
    for (size_t period = 1; period <= kLongestPeriod; ++period) {
      if (begin + 2 * period > sequence.size()) break;
      const size_t count = repetitions(sequence, begin, period);
      // Chooses the period that covers the most pieces; of several such periods, the shortest one.
      if (count > 1 && count * period > best.count * best.period) {
        best = {.begin = begin, .period = period, .count = count};
      }
    }
    runs.push_back(best);
    begin += best.period * best.count;
  }
  return runs;
}

std::string describe_order(const program::SplitProgram& split) {
  std::vector<size_t> sequence;
  for (const Piece& piece : split.pieces) sequence.push_back(piece.program);
  std::vector<std::string> words;
  for (const PieceRun& run : fold_runs(sequence)) {
    const std::vector<size_t> once(
        sequence.begin() + static_cast<std::ptrdiff_t>(run.begin),
        sequence.begin() + static_cast<std::ptrdiff_t>(run.begin + run.period));
    words.push_back(run.count == 1 ? fmt::format("{}", fmt::join(once, " "))
                                   : fmt::format("{} x ({})", run.count, fmt::join(once, " ")));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string print_ops(const Program& program) {
  const std::string all = program::print(program);
  std::string kept;
  size_t depth = 0;
  for (std::string_view rest = all; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const std::string_view word = line.substr(std::min(line.find_first_not_of(' '), line.size()));
    if (word.starts_with("program {") || (word == "}" && depth == 0)) continue;
    if (word.starts_with("group ")) ++depth;
    if (word == "}") --depth;
    // Prints the inputs of groups, but not the declarations of the whole program, which are too
    // many.
    const bool declares = word.starts_with("input ") || word.starts_with("buffer ") ||
                          word.starts_with("parameter ") || word.starts_with("state ") ||
                          word.starts_with("keep ");
    if (declares && depth == 0) continue;
    kept += line;
    kept += '\n';
  }
  return kept;
}

std::vector<std::string_view> parts_of(const Program& program, const Node& node) {
  if (node.op == OpCode::custom) return {node.attributes.custom->name};
  std::vector<std::string_view> parts;
  if (node.op == OpCode::row_group) {
    const Program& body = program.groups.at(node.attributes.group);
    for (const Node& inner : body.nodes) {
      if (!is_launch(inner.op)) continue;
      const std::vector<std::string_view> of_inner = parts_of(body, inner);
      parts.insert(parts.end(), of_inner.begin(), of_inner.end());
    }
    return parts;
  }
  const OpDefinition& op = definition_of(node.op);
  for (std::string_view rest = op.properties.parts; !rest.empty();) {
    std::string_view part = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    if (const size_t colon = part.find(':'); colon != std::string_view::npos) {
      const size_t operand = operand_index(op.rule, part.substr(0, colon));
      if (node.inputs.at(operand) == program::kNoValue) continue;
      part.remove_prefix(colon + 1);
    }
    parts.push_back(part);
  }
  if (parts.empty()) parts.push_back(op.name);
  return parts;
}

}  // namespace reprise::compile
