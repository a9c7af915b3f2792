#pragma once

#include <string>
#include <vector>

#include "reprise/weights/config/model_config.h"
#include "reprise/weights/weight_source.h"

namespace reprise::weights {

/// Whether logits come from the embedding instead of an lm_head. The config says it with
/// tie_word_embeddings, but the checkpoint decides, as in Transformers 5 and vLLM: an lm_head that
/// differs from the embedding is used, and a model without lm_head uses the embedding. Either adds
/// a warning. `source` has the names of config's class.
/// \throws FileError for a tensor that cannot be read
[[nodiscard]] bool uses_embedding_as_head(const ModelConfig& config,
                                          const WeightSource& source,
                                          std::vector<std::string>& warnings);

}  // namespace reprise::weights
