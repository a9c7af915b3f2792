#pragma once

#include "reprise/compile/model/extensions.h"

namespace example {

/// Adds the op `example::clip`, the passes `clip_residuals` and `clip_residuals_hard`, and the
/// compiler `kept_files`. See clip_extension.cpp.
void add_clip_extension(reprise::compile::Extensions& extensions);

}  // namespace example
