#pragma once

#include <cstddef>

#include "reprise/program/program.h"

namespace reprise::compile {

/// Removes views that give the same elements, shape and strides as an earlier value, and memory
/// that is never used:
///
///     slice(x, all of it)             -> x
///     slice(slice(x, dim), dim)       -> slice(x, dim)
///     unflatten(flatten(x)), same heads -> x
///     flatten(unflatten(x))           -> x
///     empty, unused                   -> nothing
///
/// Views that are skipped may become unused; eliminate_dead_code removes them.
size_t eliminate_noops(program::Program& program);

}  // namespace reprise::compile
