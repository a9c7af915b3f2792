#pragma once

#include <span>
#include <string>

/// The benchmarks behind `reprise bench`. Arguments come without "bench NAME"; as in commands.h.
namespace reprise::cli {

int run_bench_modes(std::span<const std::string> arguments);
int run_bench_serve(std::span<const std::string> arguments);

}  // namespace reprise::cli
