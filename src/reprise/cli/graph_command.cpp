#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <string>

#include "reprise/api/loading/graph_trust.h"
#include "reprise/base/error.h"
#include "reprise/cli/commands.h"
#include "reprise/cli/engine_options.h"
#include "reprise/cli/graph_commands.h"

namespace reprise::cli {
namespace {

/// The result as text for people. The report and --json also contain the memory of the node.
std::string text_of(const runner::WrongNode& node) {
  std::string text = fmt::format("first wrong node: {}\n", runner::to_string(node));
  if (!node.problem.empty()) return text;
  text += fmt::format("found in {} replays of the first nodes\n", node.num_prefix_replays);
  const auto add = [&text](const char* what, const runner::WrongNode::Memory& memory) {
    text += fmt::format("  {}: {} bytes, replayed {:016x}, eager {:016x}\n",
                        what,
                        memory.bytes,
                        memory.replayed_digest,
                        memory.eager_digest);
  };
  for (const runner::WrongNode::Memory& memory : node.inputs) add("input", memory);
  for (const runner::WrongNode::Memory& memory : node.outputs) {
    add("output", memory);
    if (memory.replayed.empty()) continue;
    text += fmt::format("    from byte {}: replayed {:02x}, eager {:02x}\n",
                        memory.first_difference,
                        fmt::join(memory.replayed, " "),
                        fmt::join(memory.eager, " "));
  }
  return text;
}

OptionTable make_bisect_table(api::EngineArgs& args, bool& as_json) {
  OptionTable table(
      "reprise graph bisect REPORT [options]",
      "Repeats the step of a report about a quarantined graph in a new engine, and finds the first "
      "node whose replay gives other bytes than the eager run. The options of the report apply "
      "unless others are given. Exit code 1: there is such a node.");
  table.add_switch(
      "json", "Output", "Print the node with all its memory, as one JSON object.", as_json);
  add_engine_options(table, args);
  return table;
}

int run_bisect(std::span<const std::string> arguments) {
  std::filesystem::path report;
  bool as_json = false;
  api::EngineArgs given;
  if (!parse_model_command(make_bisect_table(given, as_json), arguments, "graph bisect", report)) {
    return 0;
  }
  // The options that were given replace those of the report.
  api::EngineArgs args = api::args_of_report(report);
  const std::filesystem::path model = args.model;
  std::filesystem::path same_report;
  (void)parse_model_command(
      make_bisect_table(args, as_json), arguments, "graph bisect", same_report);
  // The argument without a name is the report here; other commands take it as the model.
  if (args.model == report) args.model = model;
  const runner::WrongNode node = api::bisect_report(report, args);
  if (as_json) {
    fmt::print("{}\n", runner::to_json(node).dump(2));
  } else {
    fmt::print("{}", text_of(node));
  }
  return node.problem.empty() ? 1 : 0;
}

}  // namespace

int run_graph(std::span<const std::string> arguments) {
  if (!arguments.empty()) {
    const std::string& name = arguments[0];
    if (name == "bisect") return run_bisect(arguments.subspan(1));
    if (name == "diff") return run_graph_diff(arguments.subspan(1));
    if (name == "show") return run_graph_show(arguments.subspan(1));
  }
  if (arguments.empty() || OptionTable::asks_for_help(arguments)) {
    fmt::print(
        "usage: reprise graph NAME [options]\n\n"
        "  show    Shows the nodes of a graph, their memory and their times.\n"
        "  diff    Compares two graphs, or two profiles of graphs.\n"
        "  bisect  Finds the first wrong node of a quarantined graph.\n");
    return arguments.empty() ? 2 : 0;
  }
  throw InvalidArgument(
      fmt::format("graph: unknown command '{}'; there are: show, diff, bisect", arguments[0]));
}

}  // namespace reprise::cli
