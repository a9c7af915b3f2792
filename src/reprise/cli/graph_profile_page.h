#pragma once

#include <string>

#include "reprise/runner/graph_profile.h"

namespace reprise::cli {

/// A profile as one page without scripts or other files: well-formed XHTML with a bar of time for
/// each layer, coloured by op, and tables of ops and nodes.
[[nodiscard]] std::string profile_page(const runner::GraphProfile& profile);

}  // namespace reprise::cli
