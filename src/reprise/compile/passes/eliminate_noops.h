#pragma once

#include <cstddef>

#include "reprise/program/program.h"

namespace reprise::compile {

/// Views that show what their operand shows, and memory that nobody wants:
///
///     slice(x, all of it)             -> x
///     slice(slice(x, dim), dim)       -> slice(x, dim)
///     unflatten(flatten(x)), same heads -> x
///     flatten(unflatten(x))           -> x
///     empty, unused                   -> nothing
///
/// Inner views may be left without a use; eliminate_dead_code takes them out.
size_t eliminate_noops(program::Program& program);

}  // namespace reprise::compile
