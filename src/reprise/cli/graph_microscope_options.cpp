#include "reprise/cli/graph_microscope_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "reprise/base/error.h"
#include "reprise/cli/progress.h"

namespace reprise::cli {
namespace {

constexpr const char* kReplayGroup = "Replays";

int32_t integer_within(std::string_view option, std::string_view text, int32_t least) {
  const int64_t number = parse_human_integer(option, text);
  if (number < least || number > 1'000'000) {
    throw InvalidArgument(fmt::format("{}: expected {} to 1000000, got {}", option, least, text));
  }
  return static_cast<int32_t>(number);
}

}  // namespace

void add_microscope_output(OptionTable& table, MicroscopeArguments& arguments) {
  table.add_switch("nodes", "Output", "One line for each node.", arguments.lists_nodes);
  table.add_switch("json", "Output", "All that is known, as JSON.", arguments.as_json);
}

void add_microscope_replays(OptionTable& table, MicroscopeArguments& arguments) {
  table.add({.name = "replays",
             .group = kReplayGroup,
             .value_name = "N",
             .help = "Replays for each time; the result is their median.",
             .default_text = "20; 5 for a list of keys",
             .apply = [&arguments](std::string_view value) {
               arguments.num_replays = integer_within("--replays", value, 1);
             }});
  table.add({.name = "context-len",
             .group = kReplayGroup,
             .value_name = "N",
             .help = "Tokens that each request of the replayed step has in the cache.",
             .default_text = "256, or what fits",
             .apply = [&arguments](std::string_view value) {
               arguments.context_len = integer_within("--context-len", value, 0);
             }});
  table.add({.name = "requests",
             .group = kReplayGroup,
             .value_name = "N",
             .help = "Requests of the replayed step, if the key does not give their number.",
             .default_text = "1, or as many as the tokens of the key need",
             .apply = [&arguments](std::string_view value) {
               arguments.num_reqs = integer_within("--requests", value, 1);
             }});
}

api::GraphMicroscope open_microscope(const MicroscopeArguments& arguments,
                                     int32_t default_replays) {
  StartupProgress progress(/*verbose=*/false);
  return {arguments.engine,
          {.num_replays = arguments.num_replays.value_or(default_replays),
           .context_len = arguments.context_len,
           .num_reqs = arguments.num_reqs},
          progress.observer()};
}

std::vector<std::string> without_keys(std::span<const std::string> arguments,
                                      std::span<const std::string> keys) {
  std::vector<std::string> rest(arguments.begin(), arguments.end());
  for (const std::string& key : keys) {
    // The value of an option may look like a key, too. Then the option stands before that value.
    const auto last = std::find(rest.rbegin(), rest.rend(), key);
    if (last != rest.rend()) rest.erase(std::next(last).base());
  }
  return rest;
}

}  // namespace reprise::cli
