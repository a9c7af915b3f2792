#pragma once

#include <cstddef>

#include "reprise/program/program.h"

namespace reprise::compile {

/// Removes nodes whose results are not needed. Needed are the returned values, the final versions
/// of states, and everything from which they are computed. Inputs and slots stay even if they are
/// unused, because callers pass them.
size_t eliminate_dead_code(program::Program& program);

}  // namespace reprise::compile
