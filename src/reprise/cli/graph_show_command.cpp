#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "reprise/base/error.h"
#include "reprise/cli/engine_options.h"
#include "reprise/cli/graph_commands.h"
#include "reprise/cli/graph_microscope_options.h"
#include "reprise/cli/graph_profile_page.h"
#include "reprise/cli/graph_profile_text.h"
#include "reprise/cli/log_environment.h"
#include "reprise/cli/result_file.h"
#include "reprise/cudagraph/graph_key.h"

namespace reprise::cli {
namespace {

constexpr int32_t kReplaysOfAList = 5;

struct ShowArguments : MicroscopeArguments {
  std::filesystem::path page;
};

OptionTable make_show_table(ShowArguments& arguments) {
  OptionTable table(
      "reprise graph show MODEL [KEY] [options]",
      "Captures the graphs of a model and replays one of them over made-up requests that fill it: "
      "its nodes, the memory that they use, how long each takes in its place and alone, and how "
      "close that is to the bandwidth of memory. KEY is MODE:TOKENS, such as FULL:8, or "
      "MODE:tokens=N,reqs=N,uniform,lora=N. Without KEY: the keys, one line each.");
  add_microscope_output(table, arguments);
  table.add({.name = "html",
             .group = "Output",
             .value_name = "FILE",
             .help = "Also write a page with pictures, which needs no other file.",
             .apply = [&arguments](std::string_view value) { arguments.page = value; }});
  add_microscope_replays(table, arguments);
  add_engine_options(table, arguments.engine);
  return table;
}

/// Prints each line as soon as it is known, because large keys take long.
void print_keys(api::GraphMicroscope& microscope) {
  fmt::print("{}", profile_list_head());
  for (const cudagraph::PlannedKey& key : microscope.keys()) {
    fmt::print("{}", profile_list_line(microscope.measure_whole(key)));
    std::fflush(stdout);
  }
}

void print_keys_as_json(api::GraphMicroscope& microscope) {
  Json list = Json::array();
  for (const cudagraph::PlannedKey& key : microscope.keys()) {
    const runner::GraphProfile profile = microscope.measure_whole(key);
    const Json whole = to_json(profile);
    list.push_back({{"key", cudagraph::graph_key_text(profile.mode, profile.descriptor)},
                    {"num_nodes", profile.nodes.size()},
                    {"replay_us", whole.at("replay_us")},
                    {"eager_us", whole.at("eager_us")},
                    {"padding", whole.at("padding")}});
  }
  fmt::print("{}\n", list.dump(2));
}

void write_page(const std::filesystem::path& path, const runner::GraphProfile& profile) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << profile_page(profile);
  if (!file.flush()) {
    throw Error(fmt::format("--html {}: {}", path.string(), std::strerror(errno)));
  }
  print_log(LogLevel::info, "wrote {}\n", path.string());
}

}  // namespace

int run_graph_show(std::span<const std::string> arguments) {
  ShowArguments show;
  const OptionTable table = make_show_table(show);
  std::vector<std::string> keys;
  if (!OptionTable::asks_for_help(arguments)) {
    const std::vector<std::string> positional = table.scan(arguments).positional;
    if (positional.size() > 2) {
      throw InvalidArgument(fmt::format("graph show: unexpected argument '{}'", positional[2]));
    }
    keys.assign(positional.begin() + (positional.empty() ? 0 : 1), positional.end());
  }
  if (!parse_model_command(table, without_keys(arguments, keys), "graph show", show.engine.model)) {
    return 0;
  }
  require_writable("--html", show.page);
  if (keys.empty() && !show.page.empty()) {
    throw InvalidArgument("--html shows one graph; name its key, such as FULL:8");
  }
  if (keys.empty() && show.lists_nodes) {
    throw InvalidArgument("--nodes lists those of one graph; name its key, such as FULL:8");
  }
  api::GraphMicroscope microscope =
      open_microscope(show, keys.empty() ? kReplaysOfAList : kReplaysOfAKey);
  if (keys.empty()) {
    show.as_json ? print_keys_as_json(microscope) : print_keys(microscope);
    return 0;
  }
  const runner::GraphProfile profile =
      microscope.profile(cudagraph::find_graph_key(keys[0], microscope.keys()));
  if (show.as_json) {
    fmt::print("{}\n", to_json(profile).dump(1));
  } else {
    fmt::print("{}", profile_text(profile, show.lists_nodes));
  }
  if (!show.page.empty()) write_page(show.page, profile);
  return 0;
}

}  // namespace reprise::cli
