#pragma once

#include <cstdint>

#include "reprise/program/program.h"

namespace reprise::compile {

/// Replaces T by `factor * T` in every type and attribute of the program, so that T counts tokens
/// per rank. The program is then for batches whose number of tokens is a multiple of `factor`
/// ranks, which parallelize_sequence() needs. Steps must be padded to such multiples.
void scale_tokens(program::Program& program, int64_t factor);

}  // namespace reprise::compile
