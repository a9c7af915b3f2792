#pragma once

#include <filesystem>
#include <optional>

#include "reprise/api/engine_args.h"
#include "reprise/api/engine_device.h"
#include "reprise/compile/model/code_generator.h"
#include "reprise/config/extension_names.h"

/// Loads the plug-ins that EngineArgs names, and finds in them what a configuration names.
namespace reprise::api {

/// The names that a compilation configuration may use.
[[nodiscard]] config::ExtensionNames extension_names(const EngineArgs& args);

/// The compiler of the user that `backend` names, else the device's own. nullopt: there is none.
[[nodiscard]] std::optional<compile::CodeGenerator> choose_code_generator(
    const EngineArgs& args, const EngineDevice& device, const config::CompilationConfig& config);

/// Moves the plug-ins of `extension_files` into `extensions`. \throws InvalidArgument as
/// compile::load_extension()
void load_extension_files(EngineArgs& args);

}  // namespace reprise::api
