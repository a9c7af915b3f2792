#pragma once

#include <string>

#include "reprise/config/resolved_config.h"

namespace reprise::config {

/// ATOM's decision tree for levels and modes, as text. An arrow marks the leaf that `resolved` is
/// at; a configuration that no leaf describes has no arrow and a line that says so.
///
/// Source: ATOM, docs/compilation_cudagraph_guide.md, section 8.
[[nodiscard]] std::string atom_decision_tree(const ResolvedConfig& resolved);

}  // namespace reprise::config
