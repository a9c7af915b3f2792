#pragma once

#include <span>
#include <string>

/// The commands of `reprise graph`. Each returns its exit code.
namespace reprise::cli {

int run_graph_show(std::span<const std::string> arguments);
int run_graph_diff(std::span<const std::string> arguments);

}  // namespace reprise::cli
