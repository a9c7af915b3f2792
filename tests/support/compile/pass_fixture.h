#pragma once

#include <cstddef>
#include <string>

#include "reprise/compile/passes/pass.h"

/// For tests of passes only.
namespace reprise::compile {

/// Applies a pass to one text and expects: the other text, this number of matches, a well-formed
/// result, and no match when the pass runs again. Texts begin with "program {" and may be indented
/// like raw strings.
void expect_rewrites(const Pass& pass,
                     size_t num_matches,
                     const std::string& before,
                     const std::string& after);
void expect_leaves(const Pass& pass, const std::string& text);

}  // namespace reprise::compile
