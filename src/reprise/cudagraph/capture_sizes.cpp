#include "reprise/cudagraph/capture_sizes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

#include "reprise/base/assert.h"
#include "reprise/base/error.h"

namespace reprise::cudagraph {
namespace {

using Sizes = std::vector<int32_t>;

// The dispatch tables have one entry per request or token. These limits keep them at a few
// megabytes.
constexpr int32_t kLargestMaxNumSeqs = 1 << 20;
constexpr int32_t kLargestQueryLen = 1 << 12;

// vLLM's performance mode interactivity captures every size up to this one.
constexpr int32_t kDenseInteractiveSizes = 32;

void sort_unique(Sizes& sizes) {
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
}

int32_t round_up(int32_t value, int32_t multiple) {
  const int64_t rounded = (int64_t{value} + multiple - 1) / multiple * multiple;
  return static_cast<int32_t>(std::min<int64_t>(rounded, INT32_MAX));
}

void append_small_sizes(Sizes& sizes, int32_t max, PerformanceMode performance) {
  if (performance == PerformanceMode::interactivity) {
    for (int32_t n = 1; n <= std::min(max, kDenseInteractiveSizes); ++n) sizes.push_back(n);
    return;
  }
  for (int32_t n : {1, 2, 4}) {
    if (n <= max) sizes.push_back(n);
  }
}

// vLLM's token grid: 1, 2, 4, then multiples of 8 below 256 and multiples of 16 from there.
Sizes token_grid(int32_t max, PerformanceMode performance) {
  Sizes sizes;
  append_small_sizes(sizes, max, performance);
  for (int32_t n = 8; n <= std::min(max, 255); n += 8) sizes.push_back(n);
  for (int32_t n = 256; n <= max; n += 16) sizes.push_back(n);
  sort_unique(sizes);
  return sizes;
}

// Numbers of requests with the same spacing as the token grid. Above 512 the spacing grows to 1/16
// of the size, so that very large batches do not need hundreds of captures. The last number is
// `widest`, so the largest possible decode batch has a graph.
Sizes request_grid(int32_t widest, PerformanceMode performance) {
  Sizes sizes;
  append_small_sizes(sizes, widest, performance);
  for (int32_t n = 8; n <= widest;) {
    sizes.push_back(n);
    n += n < 256 ? 8 : static_cast<int32_t>(std::bit_floor(static_cast<uint32_t>(n)) / 16);
  }
  if (widest >= 1) sizes.push_back(widest);
  sort_unique(sizes);
  return sizes;
}

// The sizes that the user set, after older names for the options are translated.
struct ExplicitSizes {
  std::optional<Sizes> list;
  std::optional<int32_t> max;
};

ExplicitSizes explicit_sizes(const CaptureSizeRequest& request) {
  ExplicitSizes wish{request.cudagraph_capture_sizes, request.max_cudagraph_capture_size};
  if (!request.cuda_graph_sizes) return wish;
  if (wish.list || wish.max) {
    throw InvalidArgument(
        fmt::format("cuda_graph_sizes and {} are both set and mean the same; keep {}",
                    wish.list ? "cudagraph_capture_sizes" : "max_cudagraph_capture_size",
                    wish.list ? "cudagraph_capture_sizes" : "max_cudagraph_capture_size"));
  }
  if (request.cuda_graph_sizes->size() == 1) {
    wish.max = request.cuda_graph_sizes->front();
  } else {
    wish.list = request.cuda_graph_sizes;
  }
  return wish;
}

void check_explicit(const ExplicitSizes& wish) {
  if (wish.max && *wish.max < 1) {
    throw InvalidArgument(
        fmt::format("max_cudagraph_capture_size: expected at least 1 while CUDA graphs are on, got "
                    "{}; set cudagraph_mode to NONE to turn them off",
                    *wish.max));
  }
  if (!wish.list) return;
  if (wish.list->empty()) {
    throw InvalidArgument(
        "cudagraph_capture_sizes: the list is empty while CUDA graphs are on; give sizes, leave it "
        "unset, or set cudagraph_mode to NONE");
  }
  for (int32_t size : *wish.list) {
    if (size < 1) {
      throw InvalidArgument(
          fmt::format("cudagraph_capture_sizes: expected sizes of at least 1, got {}", size));
    }
  }
}

[[noreturn]] void throw_inconsistent(int32_t largest, int32_t max) {
  throw InvalidArgument(fmt::format(
      "cudagraph_capture_sizes and max_cudagraph_capture_size are inconsistent: the largest usable "
      "size is {}, the maximum is {}; make them equal or drop one",
      largest,
      max));
}

void drop_indivisible(Sizes& sizes,
                      const CaptureSizeInputs& in,
                      std::vector<std::string>& warnings) {
  if (!in.sequence_parallelism || in.tensor_parallel_size <= 1) return;
  Sizes removed;
  for (int32_t size : sizes) {
    if (size % in.tensor_parallel_size != 0) removed.push_back(size);
  }
  if (removed.empty()) return;
  std::erase_if(sizes, [&](int32_t size) { return size % in.tensor_parallel_size != 0; });
  warnings.push_back(
      fmt::format("sequence parallelism needs capture sizes divisible by the tensor parallel size "
                  "{}: removed {}",
                  in.tensor_parallel_size,
                  fmt::join(removed, ", ")));
}

int32_t automatic_max(const CaptureSizeInputs& in) {
  const int64_t twice = int64_t{in.max_num_seqs} * in.uniform_decode_query_len * 2;
  return static_cast<int32_t>(std::min<int64_t>(twice, in.default_max_capture_size));
}

// Source: vLLM's _set_cudagraph_sizes, steps 1 to 8 of the behaviour reference.
CaptureSizes vllm_sizes(const ExplicitSizes& wish, const CaptureSizeInputs& in) {
  CaptureSizes result;
  const int32_t max = std::min(wish.max ? *wish.max : automatic_max(in), in.max_num_batched_tokens);
  if (wish.list) {
    result.mixed = *wish.list;
    sort_unique(result.mixed);
    std::erase_if(result.mixed, [&](int32_t size) { return size > in.max_num_batched_tokens; });
  } else {
    result.mixed = token_grid(max, in.performance_mode);
    if (in.max_num_batched_tokens <= max) result.mixed.push_back(in.max_num_batched_tokens);
    sort_unique(result.mixed);
  }
  drop_indivisible(result.mixed, in, result.warnings);

  const int32_t valid_max = result.max_mixed();
  if (wish.max && *wish.max != valid_max) {
    if (wish.list) throw_inconsistent(valid_max, *wish.max);
    result.warnings.push_back(
        fmt::format("truncating max_cudagraph_capture_size from {} to {}, the largest size that is "
                    "captured",
                    *wish.max,
                    valid_max));
  }
  if (wish.list && result.mixed.size() < wish.list->size()) {
    result.warnings.push_back(
        fmt::format("cudagraph_capture_sizes was overridden: of {} sizes {} remain after removing "
                    "repeated ones and those the configuration cannot use",
                    wish.list->size(),
                    result.mixed.size()));
  }
  return result;
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

Sizes reprise_mixed(const ExplicitSizes& wish,
                    const CaptureSizeInputs& in,
                    std::vector<std::string>& warnings) {
  if (wish.list) {
    Sizes sizes = *wish.list;
    sort_unique(sizes);
    if (wish.max && sizes.back() != *wish.max) throw_inconsistent(sizes.back(), *wish.max);
    clip_to(sizes, in.max_num_batched_tokens, "max_num_batched_tokens", warnings);
    return sizes;
  }
  const int32_t max = std::min(wish.max ? *wish.max : automatic_max(in), in.max_num_batched_tokens);
  Sizes sizes = token_grid(max, in.performance_mode);
  // If the user or the token budget sets the maximum, the maximum itself is a capture size.
  if (wish.max || in.max_num_batched_tokens <= max) sizes.push_back(max);
  sort_unique(sizes);
  return sizes;
}

// The capture sizes of decode batches in tokens: numbers of requests x query length.
Sizes reprise_decode(const ExplicitSizes& wish,
                     const CaptureSizeInputs& in,
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
  const int32_t limit = wish.list ? *std::max_element(wish.list->begin(), wish.list->end())
                                  : wish.max.value_or(reachable);
  if (limit < reachable) {
    warnings.push_back(fmt::format(
        "decode batches of {} to {} requests get no FULL graph: {} is {} tokens, the "
        "widest decode batch has {}",
        limit / q + 1,
        widest,
        wish.list ? "the largest of cudagraph_capture_sizes" : "max_cudagraph_capture_size",
        limit,
        reachable));
  }
  Sizes tokens;
  if (wish.list) {
    for (int32_t size : *wish.list) {
      const int32_t rounded = round_up(size, q);
      if (rounded <= limit) tokens.push_back(std::min(rounded, reachable));
    }
    if (reachable <= limit) tokens.push_back(reachable);
  } else {
    tokens = request_grid(std::min(widest, limit / q), in.performance_mode);
    for (int32_t& size : tokens) size *= q;
  }
  sort_unique(tokens);
  return tokens;
}

CaptureSizes reprise_sizes(const ExplicitSizes& wish,
                           const CaptureSizeInputs& in,
                           CudagraphMode mode) {
  CaptureSizes result;
  const bool wants_mixed = mixed_mode(mode) != CudagraphRuntimeMode::NONE;
  if (wants_mixed) result.mixed = reprise_mixed(wish, in, result.warnings);
  if (separate_routine(mode)) {
    result.decode = reprise_decode(wish, in, result.warnings);
  } else if (!wish.list && !wish.max) {
    // Mixed and decode batches share one routine, so `mixed` also gets the decode sizes that are
    // larger than its own.
    const int32_t grid_max = result.max_mixed();
    for (int32_t size : reprise_decode(wish, in, result.warnings)) {
      if (size > grid_max) result.mixed.push_back(size);
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
    case CaptureSizeRule::atom:
      return "atom";
  }
  return "";
}

int32_t largest_decode_batch(int32_t max_num_seqs,
                             int32_t max_num_batched_tokens,
                             int32_t uniform_decode_query_len) {
  return std::min(max_num_seqs, max_num_batched_tokens / uniform_decode_query_len);
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

CaptureSizes compute_capture_sizes(const CaptureSizeRequest& request,
                                   const CaptureSizeInputs& inputs,
                                   CudagraphMode mode) {
  check_inputs(inputs);
  if (mode == CudagraphMode::NONE) return {};
  if (request.capture_size_rule == CaptureSizeRule::atom) {
    check_explicit({request.cudagraph_capture_sizes, request.max_cudagraph_capture_size});
    if (request.cuda_graph_sizes) check_explicit({request.cuda_graph_sizes, std::nullopt});
    return atom_sizes(request, inputs, mode);
  }
  const ExplicitSizes wish = explicit_sizes(request);
  check_explicit(wish);
  const bool reprise_rule = request.capture_size_rule == CaptureSizeRule::reprise;
  CaptureSizes result = reprise_rule ? reprise_sizes(wish, inputs, mode) : vllm_sizes(wish, inputs);
  if (request.cuda_graph_sizes) {
    result.warnings.push_back(
        wish.list ? fmt::format("cuda_graph_sizes is an old spelling: write "
                                "\"cudagraph_capture_sizes\": [{}]",
                                fmt::join(*wish.list, ", "))
                  : fmt::format("cuda_graph_sizes with one value is an old spelling: write "
                                "\"max_cudagraph_capture_size\": {}",
                                *wish.max));
  }
  if (!reprise_rule && separate_routine(mode)) {
    result.decode =
        decode_sizes_within(result.mixed, inputs.uniform_decode_query_len, inputs.max_num_seqs);
  }
  return result;
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
