#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reprise/runner/graph_diff.h"
#include "reprise/runner/graph_profile.h"

/// Profiles of graphs as text of 80 columns, for `reprise graph`.
namespace reprise::cli {

/// Nodes of the same op or of the same layer.
struct NodeGroup {
  std::string name;
  size_t num_nodes = 0;
  // Measured in the nodes' own places in the replay; 0 if nodes have no times.
  double microseconds = 0;
  uint64_t bytes = 0;  // read and written
};

/// By op, the longest time first; without times the most bytes first.
[[nodiscard]] std::vector<NodeGroup> group_by_op(const runner::GraphProfile& profile);

/// Runs of nodes of one layer, in the order of the replay. Nodes of no layer have the name "-".
struct LayerGroup : NodeGroup {
  size_t first_node = 0;
};
[[nodiscard]] std::vector<LayerGroup> group_by_layer(const runner::GraphProfile& profile);

/// "12.3 us", "4.56 ms".
[[nodiscard]] std::string time_text(double microseconds);
/// "71 %": the time in which memory could move these bytes, as a share of the time that passed.
/// Empty if one of the two is not known.
[[nodiscard]] std::string roof_text(const runner::GraphProfile& profile,
                                    uint64_t bytes,
                                    double microseconds);
/// Pairs of name and value about the whole key.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> profile_head(
    const runner::GraphProfile& profile);

/// The key as a whole, then ops and layers, or all nodes.
[[nodiscard]] std::string profile_text(const runner::GraphProfile& profile, bool lists_nodes);
/// A list of keys: first its head, then one line for each key.
[[nodiscard]] std::string profile_list_head();
[[nodiscard]] std::string profile_list_line(const runner::GraphProfile& profile);
[[nodiscard]] std::string diff_text(const runner::GraphProfile& a,
                                    const runner::GraphProfile& b,
                                    const runner::GraphDiff& diff,
                                    bool lists_nodes);

}  // namespace reprise::cli
