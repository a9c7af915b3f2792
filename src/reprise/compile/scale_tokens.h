#pragma once

#include <cstdint>

#include "reprise/program/program.h"

namespace reprise::compile {

/// Replaces T by `factor * T` in every type and attribute, so that T counts the tokens per rank.
/// The program then only serves batches whose number of tokens is a multiple of `factor` (the
/// number of ranks), as parallelize_sequence() requires. Steps must be padded to such numbers.
void scale_tokens(program::Program& program, int64_t factor);

}  // namespace reprise::compile
