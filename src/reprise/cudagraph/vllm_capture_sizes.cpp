#include <fmt/format.h>

#include <algorithm>

#include "reprise/base/error.h"
#include "reprise/cudagraph/size_grid.h"

namespace reprise::cudagraph {

namespace {

// Sizes that rule vllm adds to the automatic list, so that decode batches need little padding: with
// speculation every number of requests of the grid times the query length, else max_num_seqs alone.
// Source: vLLM 0.32, VllmConfig._set_cudagraph_sizes.
Sizes uniform_decode_sizes(const CaptureSizeInputs& in) {
  const int32_t max = automatic_max(in);
  const int32_t q = in.uniform_decode_query_len;
  if (q == 1) return in.max_num_seqs <= max ? Sizes{in.max_num_seqs} : Sizes{};
  const int32_t widest = std::min(in.max_num_seqs, in.default_max_capture_size);
  Sizes sizes = token_grid(widest, PerformanceMode::balanced);  // numbers of requests, here
  sizes.push_back(widest);
  std::erase_if(sizes, [&](int32_t num_reqs) { return int64_t{num_reqs} * q > max; });
  for (int32_t& size : sizes) size *= q;
  return sizes;
}

}  // namespace

// Source: vLLM's _set_cudagraph_sizes, steps 1 to 8 of the behaviour reference.
CaptureSizes vllm_sizes(const ExplicitSizes& asked,
                        const CaptureSizeInputs& in,
                        CaptureSizeRule rule) {
  CaptureSizes result;
  const int32_t max =
      std::min(asked.max ? *asked.max : automatic_max(in), in.max_num_batched_tokens);
  if (asked.list) {
    result.mixed = *asked.list;
    sort_unique(result.mixed);
    std::erase_if(result.mixed, [&](int32_t size) { return size > in.max_num_batched_tokens; });
  } else {
    result.mixed = token_grid(max, in.performance_mode);
    if (in.max_num_batched_tokens <= max) result.mixed.push_back(in.max_num_batched_tokens);
    if (rule == CaptureSizeRule::vllm && !asked.max) {
      for (int32_t size : uniform_decode_sizes(in)) {
        if (size <= in.max_num_batched_tokens) result.mixed.push_back(size);
      }
    }
    sort_unique(result.mixed);
  }
  drop_indivisible(result.mixed, in, result.warnings);

  const int32_t valid_max = result.max_mixed();
  if (asked.max && *asked.max != valid_max) {
    if (asked.list) throw_inconsistent(valid_max, *asked.max);
    result.warnings.push_back(
        fmt::format("truncating max_cudagraph_capture_size from {} to {}, the largest size that is "
                    "captured",
                    *asked.max,
                    valid_max));
  }
  if (asked.list && result.mixed.size() < asked.list->size()) {
    result.warnings.push_back(
        fmt::format("cudagraph_capture_sizes was overridden: of {} sizes {} remain after removing "
                    "repeated ones and those the configuration cannot use",
                    asked.list->size(),
                    result.mixed.size()));
  }
  return result;
}

std::vector<int32_t> decode_sizes_within(const std::vector<int32_t>& sizes,
                                         int32_t uniform_decode_query_len,
                                         int32_t max_num_seqs) {
  std::vector<int32_t> decode;
  const int64_t widest = int64_t{uniform_decode_query_len} * max_num_seqs;
  for (int32_t size : sizes) {
    if (size >= uniform_decode_query_len && size <= widest) decode.push_back(size);
  }
  return decode;
}

// Source: vLLM 0.32, CudaGraphManager._init_candidates.
std::vector<int32_t> rounded_decode_sizes(const std::vector<int32_t>& sizes,
                                          int32_t uniform_decode_query_len,
                                          int32_t max_num_seqs) {
  if (sizes.empty()) return {};
  const int64_t widest = int64_t{uniform_decode_query_len} * max_num_seqs;
  const int64_t limit = std::min<int64_t>(widest, sizes.back());
  Sizes decode;
  for (int32_t size : sizes) {
    const int32_t rounded = round_up(size, uniform_decode_query_len);
    if (rounded <= limit) decode.push_back(rounded);
  }
  sort_unique(decode);
  return decode;
}

std::vector<int32_t> adjust_sizes_for_spec_decode(const std::vector<int32_t>& sizes,
                                                  int32_t uniform_decode_query_len,
                                                  int32_t tensor_parallel_size,
                                                  bool sequence_parallelism) {
  int32_t multiple = uniform_decode_query_len;
  if (sequence_parallelism && tensor_parallel_size > 1) {
    multiple = std::max(uniform_decode_query_len, tensor_parallel_size);
    if (multiple % uniform_decode_query_len != 0 || multiple % tensor_parallel_size != 0) {
      throw InvalidArgument(
          fmt::format("capture sizes must be multiples of the decode query length {} and, under "
                      "sequence parallelism, of the tensor parallel size {}: {} is not a multiple "
                      "of both; change num_speculative_tokens or turn sequence parallelism off",
                      uniform_decode_query_len,
                      tensor_parallel_size,
                      multiple));
    }
  }
  const int32_t max = sizes.empty() ? 0 : *std::max_element(sizes.begin(), sizes.end());
  Sizes rounded;
  for (int32_t size : sizes) {
    const int32_t up = round_up(size, multiple);
    if (up <= max) rounded.push_back(up);
  }
  sort_unique(rounded);
  if (rounded.empty() && multiple <= max) rounded.push_back(multiple);
  if (rounded.empty()) {
    throw InvalidArgument(
        fmt::format("no capture size is a multiple of the decode query length {} within the "
                    "maximum {}; raise max_cudagraph_capture_size or lower num_speculative_tokens",
                    multiple,
                    max));
  }
  return rounded;
}

}  // namespace reprise::cudagraph
