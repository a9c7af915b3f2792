#include "reprise/cli/graph_trust_options.h"

#include <fmt/format.h>

#include "reprise/base/error.h"
#include "reprise/cli/log_environment.h"
#include "reprise/cli/version.h"

namespace reprise::cli {

void add_graph_trust_options(OptionTable& table, const std::string& group, api::EngineArgs& args) {
  args.program_version = kVersion;
  args.log_line = [](std::string_view line) {
    print_log(LogLevel::warning, "warning: {}\n", line);
  };
  table.add({.name = "shadow-check-rate",
             .group = group,
             .value_name = "X",
             .help = "Share of replayed steps, 0 to 1, that run again without their graph and are "
                     "compared bit for bit. A graph that differs is quarantined.",
             .default_text = "0",
             .apply = [&args](std::string_view value) {
               const double rate = parse_number("--shadow-check-rate", value);
               if (!(rate >= 0 && rate <= 1)) {
                 throw InvalidArgument(
                     fmt::format("--shadow-check-rate: expected 0 to 1, got {}", value));
               }
               args.shadow_check_rate = rate;
             }});
  table.add({.name = "graph-report-dir",
             .group = group,
             .value_name = "DIR",
             .help = "Where a report of each quarantined graph is written.",
             .default_text = "graph-reports, beside the compile cache",
             .apply = [&args](std::string_view value) {
               if (value.empty()) throw InvalidArgument("--graph-report-dir: needs a folder");
               args.graph_report_dir = value;
             }});
  table.add({.name = "replay-log",
             .group = group,
             .value_name = "FILE",
             .help = "Appends each answer with what reprise replay needs to repeat it bit by bit: "
                     "its prompt too, so only you can read a new file.",
             .default_text = "",
             .apply = [&args](std::string_view value) {
               if (value.empty()) throw InvalidArgument("--replay-log: needs a file");
               args.replay_log = value;
             }});
  table.add_switch("strict-graphs",
                   group,
                   "A step that would leave the graph that the configuration promises is an error, "
                   "and so is a graph that cannot be captured.",
                   args.strict_graphs);
}

}  // namespace reprise::cli
