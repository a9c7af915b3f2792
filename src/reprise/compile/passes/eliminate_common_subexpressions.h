#pragma once

#include <cstddef>

#include "reprise/program/program.h"

namespace reprise::compile {

/// A node with the op, attributes and operands of an earlier one -> the earlier one. Only for ops
/// that do nothing but compute: never kv_write, never attention, and each `empty` stays memory of
/// its own.
size_t eliminate_common_subexpressions(program::Program& program);

}  // namespace reprise::compile
