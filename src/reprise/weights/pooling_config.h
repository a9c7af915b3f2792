#pragma once

#include <optional>

#include "reprise/weights/model_config.h"
#include "reprise/weights/model_directory.h"

namespace reprise::weights {

/// What the files of Sentence Transformers (modules.json and the folder of its pooling module) say.
/// Nothing if the folder has no modules.json.
/// \throws FileError E_CONFIG for a pooling that is not supported, E_TOO_LARGE
[[nodiscard]] std::optional<PoolingConfig> load_pooling_config(const ModelDirectory& directory);

/// What stands for a text if no file says it: its last token, or of an encoder its first.
[[nodiscard]] PoolingConfig default_pooling_config(const ModelConfig& config) noexcept;

}  // namespace reprise::weights
