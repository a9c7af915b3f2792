#pragma once

#include <cstdint>

#include "reprise/program/program.h"

namespace reprise::compile {

/// The same program with `factor * T` in place of T, in every type and attribute. T then counts
/// tokens per rank: a program for batches whose number of tokens a group of `factor` ranks divides,
/// which is what parallelize_sequence() works on. Steps must be padded to such numbers.
void scale_tokens(program::Program& program, int64_t factor);

}  // namespace reprise::compile
