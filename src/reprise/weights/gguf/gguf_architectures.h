#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "reprise/base/json.h"
#include "reprise/weights/gguf/architecture_keys.h"
#include "reprise/weights/gguf/gguf_config.h"

namespace reprise::weights::gguf {

/// A key of the file whose value is copied to a member of config.json. If the key is absent, or is
/// an integer of value 0, the member is left out.
struct CopiedMember {
  enum class Type : uint8_t { integer, number, boolean };

  std::string_view key;
  std::string_view member;
  Type type = Type::integer;
};

/// How files of an architecture differ from the sizes that all files have.
struct GgufArchitecture {
  std::string_view name;         // general.architecture
  std::string_view model_class;  // of config.json
  bool has_experts = false;      // the row is for files with experts
  bool has_layer_norm = false;   // instead of RMSNorm
  bool has_attention = true;
  bool is_encoder = false;            // each token sees its whole text; positions are learned
  bool has_recurrent_layers = false;  // head_count_kv may be a list with 0 for some layers
  bool has_latent_attention = false;
  bool has_heads_by_window = false;  // `read` reads heads, rotations and layers with a window
  bool rotates_part = false;         // rope.dimension_count may be smaller than a head
  bool reads_longrope = false;
  bool reads_logit_scale = false;
  std::span<const CopiedMember> members = {};
  /// Writes the members that are more than a copy; nullptr: there are none.
  void (*read)(const ArchitectureKeys& keys,
               const GgufConfigTraits& traits,
               Json& config) = nullptr;
};

/// \throws FileError E_CONFIG for an architecture that is not in the list
[[nodiscard]] const GgufArchitecture& find_architecture(const ArchitectureKeys& keys,
                                                        const Metadata& metadata);

}  // namespace reprise::weights::gguf
