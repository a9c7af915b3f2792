#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/weights/gguf/metadata.h"

namespace reprise::weights::gguf {

/// Facts about a model that are not in the metadata but follow from the list of tensors.
struct GgufConfigTraits {
  int64_t vocab_size = 0;       // rows of the embedding; 0 when there is none
  int64_t num_token_types = 0;  // likewise
  /// Names of the tensors, without the number of the layer: "output.weight", "attn_q.bias".
  std::set<std::string, std::less<>> tensors;
  std::set<int64_t> layers_with_router;  // of experts
  // The short factors of longrope; empty: the file has no such tensors.
  std::vector<double> short_factors;
  std::vector<double> long_factors;

  [[nodiscard]] bool has(std::string_view tensor) const { return tensors.contains(tensor); }
};

/// The config.json that corresponds to this metadata. \throws FileError E_CONFIG naming the
/// metadata key
[[nodiscard]] Json config_json(const Metadata& metadata, const GgufConfigTraits& traits);

/// Warnings for the user: which layers of the file are not read, and which numbers of the published
/// model the file lacks. `overrides`: --hf-overrides; a number given there is not missing.
[[nodiscard]] std::vector<std::string> config_warnings(const Metadata& metadata,
                                                       const Json& overrides);

/// The generation_config.json: end tokens, and sampling parameters from general.sampling.
[[nodiscard]] Json generation_config_json(const Metadata& metadata);

}  // namespace reprise::weights::gguf
