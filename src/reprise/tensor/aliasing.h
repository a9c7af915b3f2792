#pragma once

#include <cstddef>

#include "reprise/tensor/op.h"

namespace reprise {

/// Whether result `result` of an op may be written into the memory of its operand `operand`: the
/// result says "over" that operand in op_list.inl. The result then has the same bits as in separate
/// memory, provided that no later op reads the operand. Both tensors must be dense, have the same
/// type and start at the same address; a partial overlap is never allowed, and two results never
/// share memory. If one tensor is passed as several operands, as in add(x, x), every one of these
/// operands must allow it.
///
/// The kernels of every device follow this rule.
[[nodiscard]] bool can_alias(OpCode code, size_t operand, size_t result) noexcept;

}  // namespace reprise
