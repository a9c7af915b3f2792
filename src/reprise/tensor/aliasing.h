#pragma once

#include <cstddef>

#include "reprise/tensor/op.h"

namespace reprise {

/// Whether result `result` of an op may lie in the memory of operand `operand` ("over" in the op's
/// signature, op_list.inl). The result then has the same bits as in memory of its own, provided
/// that nothing reads the operand after this op. The two lie exactly on each other: both are dense
/// and of one type. Parts that overlap are never allowed, and two results never share memory. A
/// tensor that is several operands at once needs a yes for each of them.
///
/// The kernels of every device keep this promise.
[[nodiscard]] bool can_alias(OpCode code, size_t operand, size_t result) noexcept;

}  // namespace reprise
