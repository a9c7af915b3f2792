#pragma once

#include <cstddef>
#include <string>

#include "reprise/compile/passes/pass.h"

/// For tests of passes only.
namespace reprise::compile {

/// Applies a pass to one text: expects the other text, that many matches, a well-formed result, and
/// nothing to do the second time. Texts begin at "program {", as raw strings indent them.
void expect_rewrites(const Pass& pass,
                     size_t num_matches,
                     const std::string& before,
                     const std::string& after);
void expect_leaves(const Pass& pass, const std::string& text);

}  // namespace reprise::compile
