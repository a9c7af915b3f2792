#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/cudagraph/cudagraph_mode.h"

namespace reprise::cudagraph {

/// How capture sizes are computed and how batches are mapped to them. reprise: sizes in tokens for
/// mixed batches, sizes in requests for decode batches. vllm: the token list and the dispatch of
/// vLLM 0.32 with its Model Runner V2, which is its default. vllm_v1 ("vllm-v1"): those of vLLM's
/// first runner, with its rounding for speculative decoding. vllm_0_10 ("vllm-0.10"): the same
/// sizes and dispatch, with the default modes of the design page of that version. atom: listed
/// sizes are numbers of requests. atom_runner ("atom-runner"): the same sizes, with the modes of
/// ATOM's runner instead of those of its configuration. measured: the ladders of reprise with every
/// size up to 32 and 16 steps per doubling from there, mixed batches up to the scheduler's budget.
/// These sizes are candidates: the start times each graph and keeps those that pay (see
/// capture/measured_ladder.h).
enum class CaptureSizeRule : uint8_t {
  reprise,
  vllm,
  vllm_v1,
  vllm_0_10,
  atom,
  atom_runner,
  measured
};

/// Whether sizes, rounding and dispatch are those of vLLM's first runner.
[[nodiscard]] constexpr bool is_of_first_runner(CaptureSizeRule rule) noexcept {
  return rule == CaptureSizeRule::vllm_v1 || rule == CaptureSizeRule::vllm_0_10;
}

/// Whether sizes are those of ATOM.
[[nodiscard]] constexpr bool is_of_atom(CaptureSizeRule rule) noexcept {
  return rule == CaptureSizeRule::atom || rule == CaptureSizeRule::atom_runner;
}

[[nodiscard]] std::string_view to_string(CaptureSizeRule rule) noexcept;

/// The capture sizes that a user asked for, named like the configuration keys. Unset: computed
/// automatically.
struct CaptureSizeRequest {
  CaptureSizeRule capture_size_rule = CaptureSizeRule::reprise;
  // Numbers of tokens; with the rules of ATOM, numbers of requests.
  std::optional<std::vector<int32_t>> cudagraph_capture_sizes;
  std::optional<int32_t> max_cudagraph_capture_size;     // tokens
  std::optional<std::vector<int32_t>> cuda_graph_sizes;  // ATOM's older name for the list
  // In tokens: uniform decode batches above this size get no FULL graph, and run in pieces if the
  // mode has pieces. Unset: max_cudagraph_capture_size counts for all graphs.
  std::optional<int32_t> max_full_cudagraph_capture_size;

  friend bool operator==(const CaptureSizeRequest&, const CaptureSizeRequest&) = default;
};

/// vLLM's `performance_mode`. interactivity captures every size up to 32.
enum class PerformanceMode : uint8_t { balanced, interactivity, throughput };

/// All other settings on which capture sizes depend.
struct CaptureSizeInputs {
  int32_t max_num_seqs = 256;
  int32_t max_num_batched_tokens = 8192;
  int32_t uniform_decode_query_len = 1;  // 1 + speculative tokens
  int32_t tensor_parallel_size = 1;
  bool sequence_parallelism = false;
  PerformanceMode performance_mode = PerformanceMode::balanced;
  /// Largest size of the automatic token grid: 512, or 1024 on data-centre Blackwell GPUs.
  int32_t default_max_capture_size = 512;

  friend bool operator==(const CaptureSizeInputs&, const CaptureSizeInputs&) = default;
};

/// The two ladders of capture sizes, in tokens and ascending.
struct CaptureSizes {
  std::vector<int32_t> mixed;
  /// Multiples of the decode query length. Empty if no graphs for uniform decode batches are
  /// captured. With rule vllm_v1: those sizes of `mixed` that also become decode keys.
  std::vector<int32_t> decode;
  std::vector<std::string> warnings;

  [[nodiscard]] int32_t max_mixed() const noexcept { return mixed.empty() ? 0 : mixed.back(); }
  [[nodiscard]] int32_t max_decode() const noexcept { return decode.empty() ? 0 : decode.back(); }
};

/// The capture sizes for uniform decode batches of one query length.
struct DecodeWidth {
  int32_t query_len = 1;
  std::vector<int32_t> capture_sizes;  // tokens, ascending; multiples of query_len

  friend bool operator==(const DecodeWidth&, const DecodeWidth&) = default;
};

/// The largest number of requests in one decode step. Each request takes as many tokens of the
/// scheduler's budget as the query length: with 512 tokens and query length 4, 128 requests.
[[nodiscard]] int32_t largest_decode_batch(int32_t max_num_seqs,
                                           int32_t max_num_batched_tokens,
                                           int32_t uniform_decode_query_len);

/// Takes the sizes above max_full_cudagraph_capture_size off the ladders whose graphs are FULL, and
/// warns where the batches above it then run eagerly.
void apply_full_ceiling(const CaptureSizeRequest& request, CudagraphMode mode, CaptureSizes& sizes);

/// Computes the ladders for `mode` by the rule request.capture_size_rule. Both are empty for mode
/// NONE. With rule vllm_v1 the sizes are not yet rounded for speculative decoding: the resolution
/// calls adjust_sizes_for_spec_decode later.
/// \throws InvalidArgument if explicit sizes are empty, below 1, or contradict each other
[[nodiscard]] CaptureSizes compute_capture_sizes(const CaptureSizeRequest& request,
                                                 const CaptureSizeInputs& inputs,
                                                 CudagraphMode mode);

/// Rule vllm_v1: the rounding for speculative decoding. Rounds every size up to a multiple of the
/// query length (and of the tensor-parallel size under sequence parallelism), then drops sizes that
/// exceed the largest size before rounding.
/// \throws InvalidArgument if no size remains or no common multiple exists
[[nodiscard]] std::vector<int32_t> adjust_sizes_for_spec_decode(const std::vector<int32_t>& sizes,
                                                                int32_t uniform_decode_query_len,
                                                                int32_t tensor_parallel_size,
                                                                bool sequence_parallelism);

/// Rule vllm_v1: the sizes of a list for which uniform decode graphs are captured: all sizes from
/// the query length to query length x max_num_seqs.
[[nodiscard]] std::vector<int32_t> decode_sizes_within(const std::vector<int32_t>& sizes,
                                                       int32_t uniform_decode_query_len,
                                                       int32_t max_num_seqs);

/// Rule vllm: the sizes for which uniform decode graphs are captured. Each size of the list is
/// rounded up to a multiple of the query length. Rounded sizes above the largest of the list, or of
/// more than max_num_seqs requests, are dropped.
[[nodiscard]] std::vector<int32_t> rounded_decode_sizes(const std::vector<int32_t>& sizes,
                                                        int32_t uniform_decode_query_len,
                                                        int32_t max_num_seqs);

/// A look-up table from a count to the smallest capture size that holds it.
class PaddingTable {
 public:
  PaddingTable() = default;
  /// \pre sizes are positive, ascending and distinct.
  explicit PaddingTable(const std::vector<int32_t>& sizes);

  /// The smallest size >= count. 0 if count is 0; -1 if count is negative or above max().
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
