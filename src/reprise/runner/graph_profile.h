#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/cudagraph/cudagraph_dispatcher.h"

namespace reprise::runner {

/// Several measurements of one time, in microseconds.
struct TimeSpread {
  double median = 0;
  double low = 0;   // the first quartile
  double high = 0;  // the third quartile

  friend bool operator==(const TimeSpread&, const TimeSpread&) = default;
};

/// \pre not empty
[[nodiscard]] TimeSpread spread_of(std::vector<double> microseconds);

/// Memory that a node uses.
struct NodeMemory {
  std::string name;    // a weight, a part of the cache, an input or a pool; empty: unknown
  uint64_t bytes = 0;  // bytes that the node reads or writes
  bool reads = false;
  bool writes = false;
  // An upper limit: the node looks up some of these rows and may touch less.
  bool is_at_most = false;

  friend bool operator==(const NodeMemory&, const NodeMemory&) = default;
};

/// One launch of a replay.
struct ProfiledNode {
  std::string kernel;  // "rms_norm_bf16_avx2"
  std::string op;      // "rms_norm"
  std::optional<int32_t> layer;
  // The weight or part of the cache that the node reads; empty: it reads neither.
  std::string weight;
  uint32_t num_blocks = 0;
  bool is_captured = true;          // false: an eager launch between PIECEWISE graphs
  bool waits_for_previous = false;  // a barrier comes before it
  bool tells_uses = true;           // false: `memory` is not known
  std::vector<NodeMemory> memory;
  // Time within a replay of the whole key; nothing: not measurable.
  std::optional<TimeSpread> in_place;
  std::optional<TimeSpread> alone;  // the node alone, run again and again

  [[nodiscard]] uint64_t bytes_read() const noexcept;
  [[nodiscard]] uint64_t bytes_written() const noexcept;
  [[nodiscard]] bool is_at_most() const noexcept;

  friend bool operator==(const ProfiledNode&, const ProfiledNode&) = default;
};

/// The batches that a key serves, and how much of its work is padding.
struct PaddingWaste {
  int32_t fewest_tokens = 0;  // the smallest batch that runs with this key; 0: no batch does
  int32_t most_tokens = 0;
  // The share of padding rows, averaged over all sizes that the key serves.
  double mean_share = 0;
  double largest_share = 0;  // the share for the batch with the fewest tokens

  friend bool operator==(const PaddingWaste&, const PaddingWaste&) = default;
};

/// The nodes of a key and the time that each takes. A value type, exchanged as JSON.
struct GraphProfile {
  Json engine = Json::object();  // version, device, model and options, for people and for diff
  cudagraph::CudagraphRuntimeMode mode = cudagraph::CudagraphRuntimeMode::NONE;
  cudagraph::BatchDescriptor descriptor;
  // The made-up batch that was replayed.
  int32_t num_reqs = 0;
  int32_t num_tokens = 0;
  int32_t context_len = 0;  // the number of tokens that each request has in the cache

  int32_t num_replays = 0;        // number of replays from which each time is taken
  TimeSpread replay;              // whole, without any measurement inside
  TimeSpread eager;               // the same step without graphs
  std::string why_no_node_times;  // empty: nodes have times
  // Bandwidth of reading from memory, measured between the replays.
  std::optional<double> memory_gb_s;
  PaddingWaste padding;
  std::vector<ProfiledNode> nodes;  // in the order of a replay

  [[nodiscard]] uint64_t bytes_read() const noexcept;
  [[nodiscard]] uint64_t bytes_written() const noexcept;
  /// The time that the memory needs for this many bytes, in microseconds. Nothing: the bandwidth is
  /// not known.
  [[nodiscard]] std::optional<double> roof_us(uint64_t bytes) const noexcept;
};

/// The name of a kernel without element types and instruction set: "rms_norm" of
/// "rms_norm_bf16_avx2".
[[nodiscard]] std::string op_of_kernel(std::string_view kernel);
/// 3 of "model.layers.3.mlp.down_proj.weight" and of "KV cache, keys of layer 3".
[[nodiscard]] std::optional<int32_t> layer_of_memory(std::string_view name);

[[nodiscard]] Json to_json(const GraphProfile& profile);
/// `path`: for messages. \throws FileError E_PROFILE
[[nodiscard]] GraphProfile profile_from_json(const Json& json, std::string_view path);

}  // namespace reprise::runner
