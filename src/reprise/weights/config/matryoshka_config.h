#pragma once

#include <cstdint>
#include <optional>

#include "reprise/weights/config/pooling_type.h"

namespace reprise::weights {

class ConfigReader;

/// `is_matryoshka` and `matryoshka_dimensions`, vLLM's members of config.json. Nothing for a model
/// without them. \throws FileError E_CONFIG
[[nodiscard]] std::optional<MatryoshkaConfig> read_matryoshka_config(const ConfigReader& reader,
                                                                     int64_t hidden_size);

}  // namespace reprise::weights
