#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "reprise/base/error.h"
#include "reprise/cli/engine_options.h"
#include "reprise/cli/graph_commands.h"
#include "reprise/cli/graph_microscope_options.h"
#include "reprise/cli/graph_profile_text.h"
#include "reprise/cudagraph/graph_key.h"
#include "reprise/runner/graph_diff.h"

namespace reprise::cli {
namespace {

OptionTable make_diff_table(MicroscopeArguments& arguments) {
  OptionTable table(
      "reprise graph diff A.json B.json [options], or MODEL KEY_A KEY_B [options]",
      "Compares two profiles of `reprise graph show --json`, of any builds and machines, or two "
      "graphs of one engine: nodes that only one has, other kernels, other bytes, and times that "
      "differ beyond their spread. Exit code 1: the two do not have the same nodes.");
  add_microscope_output(table, arguments);
  return table;
}

runner::GraphProfile read_profile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw FileError("E_PROFILE", path, "", "cannot be read");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) throw FileError("E_PROFILE", path, "", "is not JSON");
  return runner::profile_from_json(json, path);
}

Json pair_json(const runner::GraphProfile& a,
               const runner::GraphProfile& b,
               const runner::NodePair& pair) {
  const runner::ProfiledNode& node = pair.a ? a.nodes[*pair.a] : b.nodes[*pair.b];
  Json json = {{"a", nullptr},
               {"b", nullptr},
               {"op", node.op},
               {"layer", nullptr},
               {"has_other_kernel", pair.has_other_kernel},
               {"has_other_bytes", pair.has_other_bytes},
               {"time",
                pair.time == runner::TimeChange::same     ? "same"
                : pair.time == runner::TimeChange::slower ? "slower"
                                                          : "faster"}};
  if (pair.a) json["a"] = *pair.a;
  if (pair.b) json["b"] = *pair.b;
  if (node.layer) json["layer"] = *node.layer;
  return json;
}

int print_diff(const runner::GraphProfile& a,
               const runner::GraphProfile& b,
               const MicroscopeArguments& arguments) {
  const runner::GraphDiff diff = runner::diff(a, b);
  if (arguments.as_json) {
    Json nodes = Json::array();
    for (const runner::NodePair& pair : diff.nodes) nodes.push_back(pair_json(a, b, pair));
    const Json json = {{"verdict", verdict_of(a, b, diff)},
                       {"has_same_nodes", diff.has_same_nodes()},
                       {"replay_us", {a.replay.median, b.replay.median}},
                       {"engines", diff.engines},
                       {"nodes", nodes}};
    fmt::print("{}\n", json.dump(1));
  } else {
    fmt::print("{}", diff_text(a, b, diff, arguments.lists_nodes));
  }
  return diff.has_same_nodes() ? 0 : 1;
}

}  // namespace

int run_graph_diff(std::span<const std::string> arguments) {
  MicroscopeArguments diff;
  OptionTable table = make_diff_table(diff);
  OptionTable with_engine = make_diff_table(diff);
  add_microscope_replays(with_engine, diff);
  add_engine_options(with_engine, diff.engine);
  if (OptionTable::asks_for_help(arguments)) {
    (void)parse_model_command(with_engine, arguments, "graph diff", diff.engine.model);
    return 0;
  }
  const std::vector<std::string> positional = with_engine.scan(arguments).positional;
  if (positional.size() == 2) {
    (void)table.parse(arguments);
    return print_diff(read_profile(positional[0]), read_profile(positional[1]), diff);
  }
  if (positional.size() != 3) {
    throw InvalidArgument("graph diff: expected two files A.json B.json, or MODEL KEY_A KEY_B");
  }
  const std::vector<std::string> keys(positional.begin() + 1, positional.end());
  if (!parse_model_command(
          with_engine, without_keys(arguments, keys), "graph diff", diff.engine.model)) {
    return 0;
  }
  api::GraphMicroscope microscope = open_microscope(diff, kReplaysOfAKey);
  const cudagraph::PlannedKey key_a = cudagraph::find_graph_key(keys[0], microscope.keys());
  const cudagraph::PlannedKey key_b = cudagraph::find_graph_key(keys[1], microscope.keys());
  // Two modes are compared over the same step: a PIECEWISE key has the requests of the FULL one.
  if (!diff.num_reqs) {
    microscope.use_num_reqs(key_a.descriptor.num_reqs ? key_a.descriptor.num_reqs
                                                      : key_b.descriptor.num_reqs);
  }
  const runner::GraphProfile a = microscope.profile(key_a);
  return print_diff(a, microscope.profile(key_b), diff);
}

}  // namespace reprise::cli
