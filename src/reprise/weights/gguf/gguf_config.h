#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/weights/gguf/metadata.h"

namespace reprise::weights::gguf {

/// Facts about a model that are not in the metadata: the list of tensors tells them.
struct GgufConfigTraits {
  int64_t vocab_size = 0;       // rows of the embedding; 0 when there is none
  int64_t num_token_types = 0;  // likewise
  /// Names of the tensors, without the number of the layer: "output.weight", "attn_q.bias".
  std::set<std::string, std::less<>> tensors;
  std::set<int64_t> layers_with_router;  // of experts
  // Of longrope; empty: the file has no such tensors.
  std::vector<double> short_factors;
  std::vector<double> long_factors;

  [[nodiscard]] bool has(std::string_view tensor) const { return tensors.contains(tensor); }
};

/// The config.json that a model with this metadata would have. \throws FileError E_CONFIG naming
/// the metadata key
[[nodiscard]] Json config_json(const Metadata& metadata, const GgufConfigTraits& traits);

/// Warnings for the user: which layers of the file are not read, and which numbers the file lacks
/// that the published model has. `overrides`: --hf-overrides; a number given there is not missing.
[[nodiscard]] std::vector<std::string> config_warnings(const Metadata& metadata,
                                                       const Json& overrides);

/// The generation_config.json: end tokens, and sampling parameters under general.sampling.
[[nodiscard]] Json generation_config_json(const Metadata& metadata);

}  // namespace reprise::weights::gguf
