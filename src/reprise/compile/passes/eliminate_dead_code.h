#pragma once

#include <cstddef>

#include "reprise/program/program.h"

namespace reprise::compile {

/// A node of which no result is needed -> nothing. Needed is what is returned, what the last
/// version of a state was made from, and their operands. Inputs and slots stay: they are the
/// program's interface.
size_t eliminate_dead_code(program::Program& program);

}  // namespace reprise::compile
