#pragma once

#include <filesystem>

#include "reprise/api/options/engine_args.h"
#include "reprise/config/extension_names.h"

/// Loads the plug-ins that EngineArgs names, and finds in them what a configuration names.
namespace reprise::api {

/// The names that a compilation configuration may use.
[[nodiscard]] config::ExtensionNames extension_names(const EngineArgs& args);

/// Moves the plug-ins of `extension_files` into `extensions`. \throws InvalidArgument as
/// compile::load_extension()
void load_extension_files(EngineArgs& args);

}  // namespace reprise::api
