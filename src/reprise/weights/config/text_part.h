#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/weights/weight_source.h"

/// The language model inside the checkpoints of models that also read images or sounds. Reprise
/// runs only that part.
namespace reprise::weights {

/// `config`, the object of a config.json, as the config of the language model: the members of
/// `text_config`, completed by members that only the outer object has. Other configs are returned
/// unchanged. Adds a warning that names the model. \throws FileError E_CONFIG for a `text_config`
/// that is not an object.
[[nodiscard]] Json text_part_of_config(const Json& config,
                                       std::string_view path,
                                       std::vector<std::string>& warnings);

/// The name that a stored tensor has in the language model alone: "model.layers.0..." for
/// "model.language_model.layers.0..."; empty for a tensor of another part. Names without such a
/// part are returned unchanged.
[[nodiscard]] std::string name_in_text_part(std::string_view stored_name);

/// The parts of a checkpoint besides its language model, for a message: "visual (390 tensors), mtp
/// (15 tensors)". Empty: there are none.
[[nodiscard]] std::string other_parts(const WeightSource& source, bool reads_mtp = false);

}  // namespace reprise::weights
