#pragma once

#include <memory>

#include "reprise/speculative/drafter.h"
#include "reprise/speculative/speculative_config.h"

namespace reprise::speculative {

/// The drafter of config.method; nullptr for a method that needs a model.
[[nodiscard]] std::unique_ptr<Drafter> make_drafter(const SpeculativeConfig& config);

}  // namespace reprise::speculative
