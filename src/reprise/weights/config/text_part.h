#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/weights/weight_source.h"

/// Models that also read images or sounds keep a language model in their checkpoint. Reprise runs
/// that part alone.
namespace reprise::weights {

/// `config`, the object of a config.json, as that of the language model: the members of
/// `text_config`, completed by what only the outer object has. Other configs come back as they are.
/// Adds a warning that names the model. \throws FileError E_CONFIG for a `text_config` that is not
/// an object.
[[nodiscard]] Json text_part_of_config(const Json& config,
                                       std::string_view path,
                                       std::vector<std::string>& warnings);

/// The name of a stored tensor in the language model alone: "model.layers.0..." for
/// "model.language_model.layers.0..."; empty for a tensor of another part. Names without such a
/// part come back as they are.
[[nodiscard]] std::string name_in_text_part(std::string_view stored_name);

/// The parts of a checkpoint beside its language model, for a message: "visual (390 tensors), mtp
/// (15 tensors)". Empty: there are none.
[[nodiscard]] std::string other_parts(const WeightSource& source, bool reads_mtp = false);

}  // namespace reprise::weights
