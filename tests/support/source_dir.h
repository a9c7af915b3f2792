#pragma once

#include <string>

namespace reprise {

/// The root of the checkout that this build was made from, without a trailing slash. It is a
/// function and not a macro, so that only one small object differs between two checkouts of the
/// same source.
[[nodiscard]] std::string source_dir();

}  // namespace reprise
