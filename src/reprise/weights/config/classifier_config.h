#pragma once

#include "reprise/weights/config/pooling_type.h"

namespace reprise::weights {

class ConfigReader;

/// \throws FileError E_CONFIG
[[nodiscard]] ClassifierConfig read_classifier_config(const ConfigReader& reader);

}  // namespace reprise::weights
