#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/api/options/engine_args.h"
#include "reprise/cli/configuration.h"
#include "reprise/cli/option_table.h"

namespace reprise::api {
struct RequestOutput;
}

namespace reprise::cli {

/// Adds the options of EngineArgs, which are the same for every command that loads a model.
void add_engine_options(OptionTable& table, api::EngineArgs& args);

/// Adds -cc / --compilation-config, -O and --extension; commands that load no model use these too.
void add_compilation_options(OptionTable& table,
                             Json& compilation_config,
                             config::OptimizationLevel& level,
                             std::vector<std::filesystem::path>& extensions);

/// Checks that no answer was cut short by a failing device; benchmarks call it before they report.
/// \throws Error with the reason of the first failed answer
void require_complete(std::span<const api::RequestOutput> answers);

/// Parses the arguments of a command that takes one MODEL, as a positional argument or as --model,
/// with its --config and the environment. Returns nullopt after printing help or the configuration.
/// \throws InvalidArgument
[[nodiscard]] std::optional<Configuration> configure_model_command(
    const OptionTable& table,
    std::span<const std::string> arguments,
    std::string_view command,
    std::filesystem::path& model);
/// The same for commands that only need to know whether to continue.
[[nodiscard]] bool parse_model_command(const OptionTable& table,
                                       std::span<const std::string> arguments,
                                       std::string_view command,
                                       std::filesystem::path& model);

}  // namespace reprise::cli
