#pragma once

#include <string_view>

#include "reprise/weights/pooling_type.h"

namespace reprise::weights {

class ConfigReader;

/// The class whose layers the classifier has: "Qwen3" for "Qwen3ForSequenceClassification"; empty
/// for names of other classes.
[[nodiscard]] std::string_view classifier_stem(std::string_view class_name) noexcept;

/// \throws FileError E_CONFIG
[[nodiscard]] ClassifierConfig read_classifier_config(const ConfigReader& reader);

}  // namespace reprise::weights
