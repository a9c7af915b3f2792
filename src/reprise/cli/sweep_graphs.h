#pragma once

#include <span>
#include <string>

#include "reprise/base/json.h"

namespace reprise::cli {

/// The graphs of a server on this machine (GET /v1/graphs); null if the server does not show them,
/// as a group of replicas or another engine does not. \throws Error when the server does not answer
[[nodiscard]] Json fetch_graphs(const std::string& port);

/// A table with a column for each server: how many graphs there are, how many were dropped because
/// they do not pay, their memory, and their sizes. `graphs`: results of fetch_graphs(), one for
/// each name. Empty if no server shows its graphs.
[[nodiscard]] std::string graphs_table(std::span<const std::string> names,
                                       std::span<const Json> graphs);

}  // namespace reprise::cli
