#pragma once

#include <string>

namespace reprise::cli {

inline constexpr const char* kVersion = "0.1.0";
inline constexpr const char* kVersionDate = "2026-11-21";

/// The version, the build and the CPU's features, in a few lines.
[[nodiscard]] std::string version_text();

}  // namespace reprise::cli
