#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reprise/cudagraph/capture_sizes.h"

/// Functions that several rules for capture sizes use. Private to this folder.
namespace reprise::cudagraph {

using Sizes = std::vector<int32_t>;

/// The sizes that the user set, after older names for the options are translated.
struct ExplicitSizes {
  std::optional<Sizes> list;
  std::optional<int32_t> max;
};

void sort_unique(Sizes& sizes);

/// The smallest multiple that is at least `value`; INT32_MAX where that would overflow.
[[nodiscard]] int32_t round_up(int32_t value, int32_t multiple);

/// vLLM's token grid: 1, 2, 4, then multiples of 8 below 256 and multiples of 16 from there.
/// PerformanceMode::interactivity has every size up to 32.
[[nodiscard]] Sizes token_grid(int32_t max, PerformanceMode performance);

/// Numbers of requests with the same spacing as the token grid. Above 512 the spacing grows to 1/16
/// of the size, so that very large batches do not need hundreds of captures. The last number is
/// `widest`, so the largest possible decode batch has a graph.
[[nodiscard]] Sizes request_grid(int32_t widest, PerformanceMode performance);

/// The candidates of the rule measured: every size up to 32, and from there 16 sizes for each
/// doubling. Has every size of request_grid(). The last size is `max`.
[[nodiscard]] Sizes candidate_grid(int32_t max);

/// Twice the tokens of the widest decode batch, at most the default maximum.
[[nodiscard]] int32_t automatic_max(const CaptureSizeInputs& in);

/// Under sequence parallelism: removes the sizes that the tensor-parallel size does not divide,
/// with a warning.
void drop_indivisible(Sizes& sizes,
                      const CaptureSizeInputs& in,
                      std::vector<std::string>& warnings);

/// \throws InvalidArgument that names both options
[[noreturn]] void throw_inconsistent(int32_t largest, int32_t max);

/// The token list of the rules vllm and vllm_v1, as `mixed`; `decode` stays empty.
[[nodiscard]] CaptureSizes vllm_sizes(const ExplicitSizes& asked,
                                      const CaptureSizeInputs& in,
                                      CaptureSizeRule rule);

}  // namespace reprise::cudagraph
