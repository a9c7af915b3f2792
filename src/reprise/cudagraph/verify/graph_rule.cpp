#include "reprise/cudagraph/verify/graph_rule.h"

#include <fmt/format.h>

namespace reprise::cudagraph {
namespace {

std::string_view advice(GraphRule rule) noexcept {
  switch (rule) {
    case GraphRule::reads_defined_memory:
      return "write this memory in the capture, or stage it before each step";
    case GraphRule::writes_own_memory:
      return "write to a result of the graph instead";
    case GraphRule::uses_known_memory:
      return "take the memory from the graph pool, or name it in the runner's memory map";
    case GraphRule::keeps_lifetimes_apart:
      return "allocate the two apart";
    case GraphRule::replays_as_eager:
      return "find the first wrong node: something that the graph kept is of another batch";
    case GraphRule::ignores_padding:
      return "mask padding before it enters a sum, because 0 * NaN is NaN";
    case GraphRule::depends_on_no_batch:
      return "read the value from a staged buffer on the device";
    case GraphRule::only_records:
      return "do this work before the capture begins";
    case GraphRule::leaves_no_trace:
      return "let dummy batches write no slots, or undo what they write";
  }
  return "";
}

}  // namespace

std::string_view to_string(GraphRule rule) noexcept {
  switch (rule) {
    case GraphRule::reads_defined_memory:
      return "reads_defined_memory";
    case GraphRule::writes_own_memory:
      return "writes_own_memory";
    case GraphRule::uses_known_memory:
      return "uses_known_memory";
    case GraphRule::keeps_lifetimes_apart:
      return "keeps_lifetimes_apart";
    case GraphRule::replays_as_eager:
      return "replays_as_eager";
    case GraphRule::ignores_padding:
      return "ignores_padding";
    case GraphRule::depends_on_no_batch:
      return "depends_on_no_batch";
    case GraphRule::only_records:
      return "only_records";
    case GraphRule::leaves_no_trace:
      return "leaves_no_trace";
  }
  return "unknown";
}

std::string describe(const Violation& violation) {
  std::string text = fmt::format("rule {}: ", to_string(violation.rule));
  if (violation.node) {
    text += fmt::format("node {} ({}{}{}) ",
                        *violation.node,
                        violation.kernel,
                        violation.place.empty() ? "" : ", ",
                        violation.place);
  }
  text += violation.problem;
  if (!violation.buffer.empty()) text += fmt::format(": {}", violation.buffer);
  return fmt::format("{}; {}", text, advice(violation.rule));
}

}  // namespace reprise::cudagraph
