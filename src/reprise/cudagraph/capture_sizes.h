#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/cudagraph/cudagraph_mode.h"

namespace reprise::cudagraph {

/// The way capture sizes and dispatch ladders are made. reprise: a token grid for mixed batches and
/// a request grid for decode. vllm: vLLM's single token list, its rounding and its dispatcher.
/// atom: entries are batch sizes.
enum class CaptureSizeRule : uint8_t { reprise, vllm, atom };

[[nodiscard]] std::string_view to_string(CaptureSizeRule rule) noexcept;

/// The sizes a user asked for, under the names of the configuration keys; unset means automatic.
struct CaptureSizeRequest {
  CaptureSizeRule capture_size_rule = CaptureSizeRule::reprise;
  std::optional<std::vector<int32_t>> cudagraph_capture_sizes;  // tokens; rule atom: requests
  std::optional<int32_t> max_cudagraph_capture_size;            // tokens
  std::optional<std::vector<int32_t>> cuda_graph_sizes;         // ATOM's older spelling

  friend bool operator==(const CaptureSizeRequest&, const CaptureSizeRequest&) = default;
};

/// vLLM's `performance_mode`; interactivity captures every size up to 32.
enum class PerformanceMode : uint8_t { balanced, interactivity, throughput };

/// The settings, besides the request, that the sizes depend on.
struct CaptureSizeInputs {
  int32_t max_num_seqs = 256;
  int32_t max_num_batched_tokens = 8192;
  int32_t uniform_decode_query_len = 1;  // 1 + speculative tokens
  int32_t tensor_parallel_size = 1;
  bool sequence_parallelism = false;
  PerformanceMode performance_mode = PerformanceMode::balanced;
  /// Ceiling of the automatic token grid: 512, or 1024 on data-centre Blackwell.
  int32_t default_max_capture_size = 512;

  friend bool operator==(const CaptureSizeInputs&, const CaptureSizeInputs&) = default;
};

/// The two ladders, both in tokens and ascending.
struct CaptureSizes {
  std::vector<int32_t> mixed;
  /// Multiples of the decode query length; empty when no uniform decode graphs are captured. Under
  /// rule vllm: the part of `mixed` that becomes decode keys.
  std::vector<int32_t> decode;
  std::vector<std::string> warnings;

  [[nodiscard]] int32_t max_mixed() const noexcept { return mixed.empty() ? 0 : mixed.back(); }
  [[nodiscard]] int32_t max_decode() const noexcept { return decode.empty() ? 0 : decode.back(); }
};

/// The most requests that one decode step can hold: the scheduler counts the query length for each
/// request.
[[nodiscard]] int32_t largest_decode_batch(int32_t max_num_seqs,
                                           int32_t max_num_batched_tokens,
                                           int32_t uniform_decode_query_len);

/// Computes the ladders for `mode` under request.capture_size_rule; both are empty for mode NONE.
/// Rule vllm leaves the rounding to adjust_sizes_for_spec_decode, which the resolution applies
/// last.
/// \throws InvalidArgument when explicit sizes are empty, below 1, or contradict each other.
[[nodiscard]] CaptureSizes compute_capture_sizes(const CaptureSizeRequest& request,
                                                 const CaptureSizeInputs& inputs,
                                                 CudagraphMode mode);

/// vLLM's speculative rounding: rounds every size up to a multiple of the query length (and of the
/// tensor-parallel size under sequence parallelism) and drops sizes above the old maximum.
/// \throws InvalidArgument when nothing is left or no common multiple exists.
[[nodiscard]] std::vector<int32_t> adjust_sizes_for_spec_decode(const std::vector<int32_t>& sizes,
                                                                int32_t uniform_decode_query_len,
                                                                int32_t tensor_parallel_size,
                                                                bool sequence_parallelism);

/// The sizes of one list that become uniform decode keys in vLLM: query length <= size <= query
/// length x max_num_seqs.
[[nodiscard]] std::vector<int32_t> decode_sizes_within(const std::vector<int32_t>& sizes,
                                                       int32_t uniform_decode_query_len,
                                                       int32_t max_num_seqs);

/// Maps a real count to the smallest captured size that holds it, with one array read.
class PaddingTable {
 public:
  PaddingTable() = default;
  /// \pre sizes are positive, ascending and distinct.
  explicit PaddingTable(const std::vector<int32_t>& sizes);

  /// The smallest size >= count; 0 for 0; -1 when count is negative or above max().
  [[nodiscard]] int32_t padded(int32_t count) const noexcept {
    if (count < 0 || static_cast<size_t>(count) >= padded_.size()) return -1;
    return padded_[static_cast<size_t>(count)];
  }
  [[nodiscard]] int32_t max() const noexcept {
    return padded_.empty() ? 0 : static_cast<int32_t>(padded_.size()) - 1;
  }

 private:
  std::vector<int32_t> padded_;
};

}  // namespace reprise::cudagraph
