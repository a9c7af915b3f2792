#pragma once

#include <string>

namespace reprise::cli {

inline constexpr const char* kVersion = "0.1.0";
inline constexpr const char* kVersionDate = "2026-11-21";

/// Version, build and the features of this CPU, in a few lines.
[[nodiscard]] std::string version_text();

}  // namespace reprise::cli
