#pragma once

#include <string_view>

#include "reprise/base/json.h"
#include "reprise/weights/gguf/architecture_keys.h"

namespace reprise::weights::gguf {

/// Writes the members of config.json about experts, with the names of this class. \throws FileError
/// E_CONFIG naming the key
void read_experts(const ArchitectureKeys& keys, std::string_view model_class, Json& config);

}  // namespace reprise::weights::gguf
