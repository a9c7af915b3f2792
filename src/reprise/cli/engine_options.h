#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "reprise/api/engine_args.h"
#include "reprise/cli/configuration.h"
#include "reprise/cli/option_table.h"
#include "reprise/sampling/sampling_params.h"

namespace reprise::api {
struct RequestOutput;
}

namespace reprise::cli {

/// The options of EngineArgs, the same for every command that loads a model.
void add_engine_options(OptionTable& table, api::EngineArgs& args);

/// -cc / --compilation-config and -O: also for commands that load nothing.
void add_compilation_options(OptionTable& table,
                             Json& compilation_config,
                             config::OptimizationLevel& level);

/// --attention-backend and --flash-attn-version: also for commands that load nothing.
void add_attention_options(OptionTable& table, std::string& backend, int32_t& flash_attn_version);

/// The options of SamplingParams.
void add_sampling_options(OptionTable& table, sampling::SamplingParams& params);

/// For commands whose figures mean nothing if an answer was cut short by a failing device.
/// \throws Error with the first failed answer's reason
void require_complete(std::span<const api::RequestOutput> answers);

/// Parses the arguments of a command that takes one MODEL, as a positional argument or as --model,
/// with its --config and the environment. Nothing when help or the configuration was asked for, and
/// printed. \throws InvalidArgument
[[nodiscard]] std::optional<Configuration> configure_model_command(
    const OptionTable& table,
    std::span<const std::string> arguments,
    std::string_view command,
    std::filesystem::path& model);
/// The same for commands that need no more than a yes.
[[nodiscard]] bool parse_model_command(const OptionTable& table,
                                       std::span<const std::string> arguments,
                                       std::string_view command,
                                       std::filesystem::path& model);

}  // namespace reprise::cli
