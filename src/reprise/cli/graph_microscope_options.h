#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reprise/api/graphs/graph_microscope.h"
#include "reprise/api/options/engine_args.h"
#include "reprise/cli/option_table.h"

namespace reprise::cli {

/// The default of --replays.
inline constexpr int32_t kReplaysOfAKey = 20;

/// The arguments that `reprise graph show` and `reprise graph diff` have in common.
struct MicroscopeArguments {
  api::EngineArgs engine;
  std::optional<int32_t> num_replays;
  std::optional<int32_t> context_len;
  std::optional<int32_t> num_reqs;
  bool as_json = false;
  bool lists_nodes = false;
};

/// Adds --nodes and --json, and if `replays` is set the options of how graphs are replayed.
void add_microscope_output(OptionTable& table, MicroscopeArguments& arguments);
void add_microscope_replays(OptionTable& table, MicroscopeArguments& arguments);

/// Loads the model and shows its progress. `default_replays`: the number of replays without
/// --replays.
[[nodiscard]] api::GraphMicroscope open_microscope(const MicroscopeArguments& arguments,
                                                   int32_t default_replays);

/// The arguments without the keys. Keys come after the model, and the parser accepts only the
/// model.
[[nodiscard]] std::vector<std::string> without_keys(std::span<const std::string> arguments,
                                                    std::span<const std::string> keys);

}  // namespace reprise::cli
