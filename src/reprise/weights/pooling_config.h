#pragma once

#include <optional>

#include "reprise/weights/model_config.h"
#include "reprise/weights/model_directory.h"

namespace reprise::weights {

/// What the files of Sentence Transformers (modules.json and the folder of its pooling module) say.
/// Nothing if the folder has no modules.json.
/// \throws FileError E_CONFIG for a pooling that is not supported, E_TOO_LARGE
[[nodiscard]] std::optional<PoolingConfig> load_pooling_config(const ModelDirectory& directory);

/// For models without a pooling file: the vector of a text is that of its last token, and in an
/// encoder that of its first token.
[[nodiscard]] PoolingConfig default_pooling_config(const ModelConfig& config) noexcept;

}  // namespace reprise::weights
