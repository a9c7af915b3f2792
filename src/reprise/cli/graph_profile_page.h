#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/runner/graph_profile.h"

namespace reprise::cli {

/// A profile as one page without scripts or other files: well-formed XHTML with a bar of time for
/// each layer, coloured by op, and tables of ops and nodes.
[[nodiscard]] std::string profile_page(const runner::GraphProfile& profile);

/// A line of a list of graphs.
struct ListedGraph {
  std::string key;
  std::string state;    // "captured"
  std::string note;     // why the graph was taken out, or its times
  std::string address;  // of its page; empty: it has none
};

/// What a graph in the list is linked with.
enum class GraphLink : uint8_t {
  file,  // a link
  form,  // a button that asks a server to replay the graph now
};

/// A list of graphs as a page in the same style. `facts`: names and values above it.
[[nodiscard]] std::string graph_list_page(
    std::string_view title,
    const std::vector<std::pair<std::string, std::string>>& facts,
    const std::vector<ListedGraph>& graphs,
    GraphLink link);

/// The same list for a running server. `graphs`: the result of api::AsyncEngine::graphs(). \throws
/// Json::exception
[[nodiscard]] std::string live_graphs_page(const Json& graphs);

}  // namespace reprise::cli
