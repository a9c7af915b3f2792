#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/weights/files/model_directory.h"

namespace reprise::lora {

/// The file that makes a folder an adapter of PEFT.
inline constexpr std::string_view kAdapterConfigFile = "adapter_config.json";

/// What adapter_config.json of a PEFT adapter says about its arithmetic: a module with weight W
/// becomes W + scale * B * A.
struct AdapterConfig {
  int64_t rank = 0;                  // rows of A, unless other_ranks has others
  std::vector<int64_t> other_ranks;  // of modules that rank_pattern names
  double alpha = 0;
  /// Values of alpha for modules whose name has this ending; the first entry that fits counts.
  std::vector<std::pair<std::string, double>> other_alphas;
  bool divides_by_root = false;  // use_rslora

  /// alpha / rank, or alpha / sqrt(rank) with use_rslora.
  [[nodiscard]] double scale_of(std::string_view module, int64_t module_rank) const;
};

/// Reads and checks adapter_config.json.
/// \throws FileError E_CONFIG for a rank above `max_rank` and for every feature of PEFT that would
/// change the result and that is not supported (DoRA, trained biases, ...)
[[nodiscard]] AdapterConfig read_adapter_config(const weights::ModelDirectory& directory,
                                                int64_t max_rank);

}  // namespace reprise::lora
