#pragma once

#include <span>
#include <string>

#include "reprise/base/json.h"

/// The benchmarks behind `reprise bench`. Each takes its arguments without "bench NAME"; the rest
/// of the contract is in commands.h.
namespace reprise::cli {

int run_bench_modes(std::span<const std::string> arguments);
int run_bench_serve(std::span<const std::string> arguments);
int run_bench_sweep(std::span<const std::string> arguments);
int run_bench_latency(std::span<const std::string> arguments);
int run_bench_throughput(std::span<const std::string> arguments);
int run_bench_startup(std::span<const std::string> arguments);

/// Writes the file of --output-json; an empty path writes nothing. \throws Error when the file
/// cannot be written
void write_result(const std::string& path, const Json& json);

}  // namespace reprise::cli
