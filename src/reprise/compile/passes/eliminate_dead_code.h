#pragma once

#include <cstddef>

#include "reprise/program/program.h"

namespace reprise::compile {

/// Removes nodes whose results are not needed. Needed are the returned values, the values that made
/// the last version of a state, and all their operands. Inputs and slots stay, because they are the
/// program's interface.
size_t eliminate_dead_code(program::Program& program);

}  // namespace reprise::compile
