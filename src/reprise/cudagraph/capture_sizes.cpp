#include "reprise/cudagraph/capture_sizes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "reprise/base/assert.h"
#include "reprise/base/error.h"
#include "reprise/cudagraph/size_grid.h"

namespace reprise::cudagraph {
namespace {

// The dispatch tables have one entry per request or token. These limits keep them at a few
// megabytes.
constexpr int32_t kLargestMaxNumSeqs = 1 << 20;
constexpr int32_t kLargestQueryLen = 1 << 12;

ExplicitSizes explicit_sizes(const CaptureSizeRequest& request) {
  ExplicitSizes asked{request.cudagraph_capture_sizes, request.max_cudagraph_capture_size};
  if (!request.cuda_graph_sizes) return asked;
  if (asked.list || asked.max) {
    throw InvalidArgument(
        fmt::format("cuda_graph_sizes and {} are both set and mean the same; keep {}",
                    asked.list ? "cudagraph_capture_sizes" : "max_cudagraph_capture_size",
                    asked.list ? "cudagraph_capture_sizes" : "max_cudagraph_capture_size"));
  }
  if (request.cuda_graph_sizes->size() == 1) {
    asked.max = request.cuda_graph_sizes->front();
  } else {
    asked.list = request.cuda_graph_sizes;
  }
  return asked;
}

void check_explicit(const ExplicitSizes& asked) {
  if (asked.max && *asked.max < 1) {
    throw InvalidArgument(
        fmt::format("max_cudagraph_capture_size: expected at least 1 while CUDA graphs are on, got "
                    "{}; set cudagraph_mode to NONE to turn them off",
                    *asked.max));
  }
  if (!asked.list) return;
  if (asked.list->empty()) {
    throw InvalidArgument(
        "cudagraph_capture_sizes: the list is empty while CUDA graphs are on; give sizes, leave it "
        "unset, or set cudagraph_mode to NONE");
  }
  for (int32_t size : *asked.list) {
    if (size < 1) {
      throw InvalidArgument(
          fmt::format("cudagraph_capture_sizes: expected sizes of at least 1, got {}", size));
    }
  }
}

void clip_to(Sizes& sizes,
             int32_t limit,
             std::string_view what,
             std::vector<std::string>& warnings) {
  if (sizes.empty() || sizes.back() <= limit) return;
  warnings.push_back(fmt::format(
      "capture sizes above {} ({}) cannot be reached and were reduced to it", limit, what));
  for (int32_t& size : sizes) size = std::min(size, limit);
  sort_unique(sizes);
}

Sizes reprise_mixed(const ExplicitSizes& asked,
                    const CaptureSizeInputs& in,
                    CaptureSizeRule rule,
                    std::vector<std::string>& warnings) {
  if (asked.list) {
    Sizes sizes = *asked.list;
    sort_unique(sizes);
    if (asked.max && sizes.back() != *asked.max) throw_inconsistent(sizes.back(), *asked.max);
    clip_to(sizes, in.max_num_batched_tokens, "max_num_batched_tokens", warnings);
    return sizes;
  }
  if (rule == CaptureSizeRule::measured) {
    // The measurement finds the size above which graphs of mixed batches no longer pay.
    return candidate_grid(
        std::min(asked.max.value_or(in.max_num_batched_tokens), in.max_num_batched_tokens));
  }
  const int32_t max =
      std::min(asked.max ? *asked.max : automatic_max(in), in.max_num_batched_tokens);
  Sizes sizes = token_grid(max, in.performance_mode);
  // If the user or the token budget sets the maximum, the maximum itself is a capture size.
  if (asked.max || in.max_num_batched_tokens <= max) sizes.push_back(max);
  sort_unique(sizes);
  return sizes;
}

// The capture sizes of decode batches in tokens: numbers of requests x query length.
Sizes reprise_decode(const ExplicitSizes& asked,
                     const CaptureSizeInputs& in,
                     CaptureSizeRule rule,
                     std::vector<std::string>& warnings) {
  const int32_t q = in.uniform_decode_query_len;
  const int32_t widest = largest_decode_batch(in.max_num_seqs, in.max_num_batched_tokens, q);
  const int32_t reachable = widest * q;  // at most max_num_batched_tokens, so it cannot overflow
  if (widest == 0) {
    warnings.push_back(
        fmt::format("max_num_batched_tokens {} is below the decode query length {}: no uniform "
                    "decode batch can be scheduled or captured",
                    in.max_num_batched_tokens,
                    q));
    return {};
  }
  const int32_t limit = asked.list ? *std::max_element(asked.list->begin(), asked.list->end())
                                   : asked.max.value_or(reachable);
  if (limit < reachable) {
    warnings.push_back(fmt::format(
        "decode batches of {} to {} requests get no FULL graph: {} is {} tokens, the "
        "widest decode batch has {}",
        limit / q + 1,
        widest,
        asked.list ? "the largest of cudagraph_capture_sizes" : "max_cudagraph_capture_size",
        limit,
        reachable));
  }
  Sizes tokens;
  if (asked.list) {
    for (int32_t size : *asked.list) {
      const int32_t rounded = round_up(size, q);
      if (rounded <= limit) tokens.push_back(std::min(rounded, reachable));
    }
    if (reachable <= limit) tokens.push_back(reachable);
  } else {
    const int32_t most = std::min(widest, limit / q);
    tokens = rule == CaptureSizeRule::measured ? candidate_grid(most)
                                               : request_grid(most, in.performance_mode);
    for (int32_t& size : tokens) size *= q;
  }
  sort_unique(tokens);
  return tokens;
}

CaptureSizes reprise_sizes(const ExplicitSizes& asked,
                           const CaptureSizeInputs& in,
                           CaptureSizeRule rule,
                           CudagraphMode mode) {
  CaptureSizes result;
  const bool wants_mixed = mixed_mode(mode) != CudagraphRuntimeMode::NONE;
  if (wants_mixed) result.mixed = reprise_mixed(asked, in, rule, result.warnings);
  if (separate_routine(mode)) {
    result.decode = reprise_decode(asked, in, rule, result.warnings);
  } else if (!asked.list && !asked.max) {
    // Mixed and decode batches share one routine, so `mixed` also gets the decode sizes that are
    // larger than its own.
    const int32_t grid_max = result.max_mixed();
    const Sizes decode = reprise_decode(asked, in, rule, result.warnings);
    for (int32_t size : decode) {
      if (size > grid_max) result.mixed.push_back(size);
    }
    // The candidates continue above the widest decode batch, which may not be a candidate itself.
    if (rule == CaptureSizeRule::measured && !decode.empty()) {
      result.mixed.push_back(decode.back());
      sort_unique(result.mixed);
    }
  }
  drop_indivisible(result.mixed, in, result.warnings);
  drop_indivisible(result.decode, in, result.warnings);
  return result;
}

// Source: ATOM. Listed sizes are numbers of requests; a graph has size x query length tokens.
CaptureSizes atom_sizes(const CaptureSizeRequest& request,
                        const CaptureSizeInputs& in,
                        CudagraphMode mode) {
  Sizes requests;
  const Sizes pattern = request.cuda_graph_sizes.value_or(Sizes{512});
  if (request.cudagraph_capture_sizes) {
    requests = *request.cudagraph_capture_sizes;
  } else if (pattern.size() == 1) {
    requests = {1, 2, 4, 8};
    for (int32_t n = 16; n <= pattern.front(); n += 16) requests.push_back(n);
  } else {
    requests = pattern;
  }
  sort_unique(requests);

  CaptureSizes result;
  const int32_t q = in.uniform_decode_query_len;
  int32_t widest = largest_decode_batch(in.max_num_seqs, in.max_num_batched_tokens, q);
  if (request.max_cudagraph_capture_size) {
    widest = std::min(widest, *request.max_cudagraph_capture_size / q);
  }
  const size_t asked = requests.size();
  std::erase_if(requests, [&](int32_t n) { return n > widest; });
  if (requests.empty()) {
    throw InvalidArgument(
        fmt::format("no capture size is left: the largest decode batch the scheduler can reach has "
                    "{} requests (max_num_seqs {}, max_num_batched_tokens {}, query length {})",
                    widest,
                    in.max_num_seqs,
                    in.max_num_batched_tokens,
                    q));
  }
  if (requests.size() < asked) {
    result.warnings.push_back(
        fmt::format("dropped {} capture sizes above {}, the largest decode batch the scheduler can "
                    "reach",
                    asked - requests.size(),
                    widest));
  }
  for (int32_t n : requests) {
    if (mixed_mode(mode) != CudagraphRuntimeMode::NONE) result.mixed.push_back(n * q);
    if (separate_routine(mode)) result.decode.push_back(n * q);
  }
  return result;
}

void check_inputs(const CaptureSizeInputs& in) {
  const auto require = [](bool ok, std::string_view field, int32_t low, int32_t high, int32_t got) {
    if (!ok) {
      throw InvalidArgument(fmt::format("{}: expected {} to {}, got {}", field, low, high, got));
    }
  };
  require(in.max_num_seqs >= 1 && in.max_num_seqs <= kLargestMaxNumSeqs,
          "max_num_seqs",
          1,
          kLargestMaxNumSeqs,
          in.max_num_seqs);
  require(in.max_num_batched_tokens >= 1,
          "max_num_batched_tokens",
          1,
          INT32_MAX,
          in.max_num_batched_tokens);
  require(in.uniform_decode_query_len >= 1 && in.uniform_decode_query_len <= kLargestQueryLen,
          "decode query length (1 + speculative tokens)",
          1,
          kLargestQueryLen,
          in.uniform_decode_query_len);
  require(
      in.tensor_parallel_size >= 1, "tensor_parallel_size", 1, INT32_MAX, in.tensor_parallel_size);
}

}  // namespace

std::string_view to_string(CaptureSizeRule rule) noexcept {
  switch (rule) {
    case CaptureSizeRule::reprise:
      return "reprise";
    case CaptureSizeRule::vllm:
      return "vllm";
    case CaptureSizeRule::vllm_v1:
      return "vllm-v1";
    case CaptureSizeRule::vllm_0_10:
      return "vllm-0.10";
    case CaptureSizeRule::atom:
      return "atom";
    case CaptureSizeRule::atom_runner:
      return "atom-runner";
    case CaptureSizeRule::measured:
      return "measured";
  }
  return "";
}

int32_t largest_decode_batch(int32_t max_num_seqs,
                             int32_t max_num_batched_tokens,
                             int32_t uniform_decode_query_len) {
  return std::min(max_num_seqs, max_num_batched_tokens / uniform_decode_query_len);
}

CaptureSizes compute_capture_sizes(const CaptureSizeRequest& request,
                                   const CaptureSizeInputs& inputs,
                                   CudagraphMode mode) {
  check_inputs(inputs);
  if (mode == CudagraphMode::NONE) return {};
  if (is_of_atom(request.capture_size_rule)) {
    check_explicit({request.cudagraph_capture_sizes, request.max_cudagraph_capture_size});
    if (request.cuda_graph_sizes) check_explicit({request.cuda_graph_sizes, std::nullopt});
    CaptureSizes sizes = atom_sizes(request, inputs, mode);
    apply_full_ceiling(request, mode, sizes);
    return sizes;
  }
  const ExplicitSizes asked = explicit_sizes(request);
  check_explicit(asked);
  const CaptureSizeRule rule = request.capture_size_rule;
  const bool reprise_rule = rule == CaptureSizeRule::reprise || rule == CaptureSizeRule::measured;
  CaptureSizes result =
      reprise_rule ? reprise_sizes(asked, inputs, rule, mode) : vllm_sizes(asked, inputs, rule);
  if (request.cuda_graph_sizes) {
    result.warnings.push_back(
        asked.list ? fmt::format("cuda_graph_sizes is an old spelling: write "
                                 "\"cudagraph_capture_sizes\": [{}]",
                                 fmt::join(*asked.list, ", "))
                   : fmt::format("cuda_graph_sizes with one value is an old spelling: write "
                                 "\"max_cudagraph_capture_size\": {}",
                                 *asked.max));
  }
  if (!reprise_rule && separate_routine(mode)) {
    const auto decode_sizes =
        rule == CaptureSizeRule::vllm ? rounded_decode_sizes : decode_sizes_within;
    result.decode =
        decode_sizes(result.mixed, inputs.uniform_decode_query_len, inputs.max_num_seqs);
  }
  apply_full_ceiling(request, mode, result);
  return result;
}

void apply_full_ceiling(const CaptureSizeRequest& request,
                        CudagraphMode mode,
                        CaptureSizes& sizes) {
  if (!request.max_full_cudagraph_capture_size) return;
  const int32_t ceiling = *request.max_full_cudagraph_capture_size;
  if (!has_full_cudagraphs(mode)) {
    sizes.warnings.push_back(
        fmt::format("max_full_cudagraph_capture_size has no effect: mode {} has no FULL graphs",
                    to_string(mode)));
    return;
  }
  const auto drop_larger = [ceiling](std::vector<int32_t>& ladder) {
    return std::erase_if(ladder, [ceiling](int32_t size) { return size > ceiling; });
  };
  size_t num_dropped = separate_routine(mode) ? drop_larger(sizes.decode) : 0;
  if (mixed_mode(mode) == CudagraphRuntimeMode::FULL) num_dropped += drop_larger(sizes.mixed);
  if (num_dropped == 0 || mixed_mode(mode) == CudagraphRuntimeMode::PIECEWISE) return;
  sizes.warnings.push_back(fmt::format(
      "batches above max_full_cudagraph_capture_size {} run eagerly in mode {}; in mode "
      "FULL_AND_PIECEWISE they run in pieces",
      ceiling,
      to_string(mode)));
}

PaddingTable::PaddingTable(const std::vector<int32_t>& sizes) {
  if (sizes.empty()) return;
  padded_.assign(static_cast<size_t>(sizes.back()) + 1, 0);
  int32_t previous = 0;
  for (int32_t size : sizes) {
    REPRISE_ASSERT(size > previous, "capture sizes not ascending: {} after {}", size, previous);
    for (int32_t n = previous + 1; n <= size; ++n) padded_[static_cast<size_t>(n)] = size;
    previous = size;
  }
}

}  // namespace reprise::cudagraph
