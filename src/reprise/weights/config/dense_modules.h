#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "reprise/weights/config/model_config.h"
#include "reprise/weights/weight_source.h"

namespace reprise::weights {

/// The name of a tensor ("weight" or "bias") of the projection `index` after the pooling.
[[nodiscard]] std::string dense_tensor_name(size_t index, std::string_view tensor);

/// The source together with the weights of Sentence Transformers' Dense modules, which are in
/// separate folders inside `model`. The source of a model without such modules is returned
/// unchanged. \throws FileError as Checkpoint::open()
[[nodiscard]] std::unique_ptr<WeightSource> with_dense_modules(std::unique_ptr<WeightSource> source,
                                                               const ModelConfig& config,
                                                               const std::filesystem::path& model);

}  // namespace reprise::weights
