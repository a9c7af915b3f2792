#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reprise/weights/config/model_config.h"
#include "reprise/weights/files/model_directory.h"

namespace reprise::weights {

/// What the files of Sentence Transformers say: modules.json, the folders of its modules, the limit
/// of sentence_bert_config.json, and what config_sentence_transformers.json asks of users. Nothing
/// if the folder has no modules.json with a pooling. Adds warnings about what is not done.
/// \throws FileError E_CONFIG for a module or a pooling that is not supported, E_TOO_LARGE
[[nodiscard]] std::optional<PoolingConfig> load_pooling_config(const ModelDirectory& directory,
                                                               std::vector<std::string>& warnings);

/// Checks that the projections fit each other and the hidden states. \throws FileError E_CONFIG
/// naming the first projection that does not fit
void require_dense_sizes(const PoolingConfig& config,
                         int64_t hidden_size,
                         const ModelDirectory& directory);

/// The pooling of models without a pooling file: the vector of a text is that of its last token; in
/// BERT and its successors, that of its first token.
[[nodiscard]] PoolingConfig default_pooling_config(const ModelConfig& config);

}  // namespace reprise::weights
