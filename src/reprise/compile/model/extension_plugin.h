#pragma once

#include <cstdint>
#include <filesystem>

#include "reprise/compile/model/extensions.h"

namespace reprise::compile {

/// Loads a shared library of a user, which adds its parts to `extensions`. The library is never
/// unloaded. \throws InvalidArgument if the file cannot be loaded, was built from another version
/// of these headers, or adds parts that Extensions refuses
void load_extension(const std::filesystem::path& path, Extensions& extensions);

/// The version of the interface between an extension and the engine. Both must be built by the same
/// compiler from the same tree; increase it when a type that an extension uses changes.
inline constexpr uint32_t kExtensionVersion = 1;
inline constexpr const char* kExtensionEntry = "reprise_extend";
/// Adds everything that the library provides. Returns false if `version` is not the
/// kExtensionVersion with which the library was built. May throw InvalidArgument.
using ExtensionEntry = bool (*)(uint32_t version, Extensions& extensions);

}  // namespace reprise::compile
