#pragma once

#include <cstdint>

#include "reprise/models/weight_reader.h"
#include "reprise/weights/weight_source.h"

namespace reprise::models {

/// A number that differs if two plans would make different bytes from the same checkpoint: it
/// covers the names, order, formats and types of the tensors, and how they are arranged.
[[nodiscard]] uint64_t plan_digest(const weights::WeightSource& source, const WeightPlan& plan);

}  // namespace reprise::models
