#pragma once

#include <span>
#include <string>

#include "reprise/cli/option_table.h"

/// The commands of the `reprise` program. Each takes its arguments without the command's name,
/// writes results to stdout and progress to stderr, and returns the exit code.
///
/// \throws InvalidArgument (exit code 2), anything else (exit code 1)
namespace reprise::cli {

int run_generate(std::span<const std::string> arguments);
int run_serve(std::span<const std::string> arguments);
int run_bench(std::span<const std::string> arguments);
int run_run_batch(std::span<const std::string> arguments);
int run_chat(std::span<const std::string> arguments);
int run_complete(std::span<const std::string> arguments);
int run_eval(std::span<const std::string> arguments);
int run_dump(std::span<const std::string> arguments);
int run_graph(std::span<const std::string> arguments);
int run_pull(std::span<const std::string> arguments);
int run_replay(std::span<const std::string> arguments);
int run_explain(std::span<const std::string> arguments);
int run_tune(std::span<const std::string> arguments);
int run_collect_env(std::span<const std::string> arguments);
int run_completion(std::span<const std::string> arguments);
int run_reference(std::span<const std::string> arguments);

/// The options of serve and generate, to describe them or to know their names. Their targets no
/// longer exist when these functions return, so the options must not be applied.
[[nodiscard]] OptionTable serve_options();
[[nodiscard]] OptionTable generate_options();

}  // namespace reprise::cli
