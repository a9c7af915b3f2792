#pragma once

#include <cstddef>

#include "reprise/program/program.h"

namespace reprise::compile {

/// Removes views that show the same as their operand, and memory that is never used:
///
///     slice(x, all of it)             -> x
///     slice(slice(x, dim), dim)       -> slice(x, dim)
///     unflatten(flatten(x)), same heads -> x
///     flatten(unflatten(x))           -> x
///     empty, unused                   -> nothing
///
/// Inner views may lose their last use; eliminate_dead_code removes them.
size_t eliminate_noops(program::Program& program);

}  // namespace reprise::compile
