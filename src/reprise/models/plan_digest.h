#pragma once

#include <cstdint>

#include "reprise/models/weight_reader.h"
#include "reprise/weights/weight_source.h"

namespace reprise::models {

/// A number that differs where two plans would make different bytes of the same checkpoint: the
/// names, order, formats and types of the tensors, and what is done with them.
[[nodiscard]] uint64_t plan_digest(const weights::WeightSource& source, const WeightPlan& plan);

}  // namespace reprise::models
