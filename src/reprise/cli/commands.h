#pragma once

#include <span>
#include <string>

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
int run_explain(std::span<const std::string> arguments);

}  // namespace reprise::cli
