#pragma once

#include <string_view>

#include "reprise/base/json.h"
#include "reprise/weights/gguf/architecture_keys.h"

namespace reprise::weights::gguf {

/// Writes the members of config.json about experts, with the names of this class. \throws FileError
/// E_CONFIG naming the key
void read_experts(const ArchitectureKeys& keys, std::string_view model_class, Json& config);

/// The factor of the weights of a token's experts. As in llama.cpp, 0 means no factor.
[[nodiscard]] double expert_scale(const ArchitectureKeys& keys);
/// \throws FileError E_CONFIG if scores of experts are not sigmoids
void require_sigmoid_router(const ArchitectureKeys& keys);

}  // namespace reprise::weights::gguf
