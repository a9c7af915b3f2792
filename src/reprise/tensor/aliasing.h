#pragma once

#include <cstddef>

#include "reprise/tensor/op.h"

namespace reprise {

/// Whether result `result` of an op may be given the memory of operand `operand`, for an operand
/// that nobody reads afterwards: with the bits that it has in memory of its own. The two then lie
/// exactly on each other, both dense and of one type; parts that overlap are never allowed, nor are
/// two results in one place. A tensor that is several operands at once needs a yes for each.
///
/// A promise that the kernels of every device keep; false where there is none.
[[nodiscard]] bool can_alias(OpCode code, size_t operand, size_t result) noexcept;

}  // namespace reprise
