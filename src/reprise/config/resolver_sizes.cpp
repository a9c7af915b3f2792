#include "reprise/config/resolver.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "reprise/base/error.h"

// Computes the sizes for capture and for compilation.
namespace reprise::config {
namespace {

/// Adds a further query length of decode steps, if it has sizes.
void add_width(ResolvedConfig& out, int32_t query_len, std::vector<int32_t> sizes) {
  if (sizes.empty()) return;
  out.other_decode_widths.push_back({.query_len = query_len, .capture_sizes = std::move(sizes)});
}

}  // namespace

cudagraph::CaptureSizeInputs Resolver::size_inputs() const {
  return {.max_num_seqs = in_.max_num_seqs,
          .max_num_batched_tokens = in_.max_num_batched_tokens,
          .uniform_decode_query_len = out_.uniform_decode_query_len,
          .tensor_parallel_size = in_.tensor_parallel_size,
          .sequence_parallelism = sequence_parallel(),
          .performance_mode = in_.performance_mode,
          .default_max_capture_size = in_.default_max_capture_size};
}

void Resolver::compute_sizes() {
  out_.capture_sizes = cudagraph::compute_capture_sizes(in_.compilation, size_inputs(), out_.mode);
  for (const std::string& warning : out_.capture_sizes.warnings) warn("S", warning);
}

// vLLM computes its sizes before it applies the rules for splitting. So if these rules change the
// mode to NONE, the list of sizes remains.
void Resolver::compute_sizes_before_splitting() {
  if (follows_vllm() && out_.mode != cudagraph::CudagraphMode::NONE) compute_sizes();
}

void Resolver::compute_final_sizes() {
  out_.piecewise_available =
      follows_vllm_v2() ? compiles() || is_breakable() : attention_is_split();
  if (!follows_vllm()) {
    compute_sizes();
    compute_sizes_of_fewer_drafts();
    return;
  }
  cudagraph::CaptureSizes& sizes = out_.capture_sizes;
  const int32_t q = out_.uniform_decode_query_len;
  if (follows_vllm_v1() && decode_mode(out_.mode) == cudagraph::CudagraphRuntimeMode::FULL &&
      q > 1) {
    const std::vector<int32_t> rounded = cudagraph::adjust_sizes_for_spec_decode(
        sizes.mixed, q, in_.tensor_parallel_size, sequence_parallel());
    if (rounded != sizes.mixed) {
      sizes.mixed = rounded;
      note("C6", fmt::format("capture sizes were rounded to multiples of query length {}", q));
    }
  }
  sizes.decode.clear();
  if (separate_routine(out_.mode)) {
    const auto decode_sizes =
        follows_vllm_v1() ? cudagraph::decode_sizes_within : cudagraph::rounded_decode_sizes;
    sizes.decode = decode_sizes(sizes.mixed, q, in_.max_num_seqs);
    cudagraph::apply_full_ceiling(in_.compilation, out_.mode, sizes);
    for (const int32_t drafts : in_.scheduled_drafts) {
      if (1 + drafts == q) continue;
      add_width(out_, 1 + drafts, decode_sizes(sizes.mixed, 1 + drafts, in_.max_num_seqs));
    }
  }
}

// A drafter may propose fewer drafts than it may, or none. Such steps get FULL graphs of their own
// instead of graphs with room for all drafts: one token per request, and then widths whose numbers
// of drafts double, so that padding at most doubles them. Where the number of requests chooses the
// number of drafts, those numbers are the widths. The warnings about sizes would only repeat those
// of the other ladder.
void Resolver::compute_sizes_of_fewer_drafts() {
  const cudagraph::CaptureSizeRule rule = in_.compilation.capture_size_rule;
  const bool has_widths =
      rule == cudagraph::CaptureSizeRule::reprise || rule == cudagraph::CaptureSizeRule::measured;
  if (!has_widths || out_.uniform_decode_query_len == 1 || !separate_routine(out_.mode)) return;
  const auto add = [this](int32_t query_len) {
    cudagraph::CaptureSizeInputs inputs = size_inputs();
    inputs.uniform_decode_query_len = query_len;
    add_width(out_,
              query_len,
              cudagraph::compute_capture_sizes(in_.compilation, inputs, out_.mode).decode);
  };
  add(1);
  const int32_t most_drafts = out_.uniform_decode_query_len - 1;
  if (!in_.scheduled_drafts.empty()) {
    for (const int32_t drafts : in_.scheduled_drafts) {
      if (drafts > 0 && drafts < most_drafts) add(1 + drafts);
    }
    return;
  }
  for (int32_t drafts = 2; 2 * drafts <= most_drafts; drafts *= 2) add(1 + drafts);
}

void Resolver::warn_about_lazy_capture() {
  if (!in_.compilation.cudagraph_lazy_capture || out_.mode == cudagraph::CudagraphMode::NONE)
    return;
  if (in_.tensor_parallel_size > 1) {
    throw InvalidArgument(
        "cudagraph_lazy_capture: several ranks capture together at the start; leave it out");
  }
  warn("L1",
       "cudagraph_lazy_capture: the first batch of each size waits for the capture of its graph, "
       "and "
       "the graphs together may take more memory than if the largest were captured first");
}

void Resolver::warn_about_copied_inputs() {
  if (!in_.compilation.cudagraph_copy_inputs || requires_piecewise_compilation(out_.mode)) return;
  warn("L2",
       fmt::format("cudagraph_copy_inputs has no effect with cudagraph_mode {}: only PIECEWISE "
                   "graphs copy their inputs, FULL graphs read buffers that do not move",
                   to_string(out_.mode)));
}

void Resolver::check_measured_sizes() {
  if (in_.compilation.capture_size_rule != cudagraph::CaptureSizeRule::measured) return;
  if (out_.mode == cudagraph::CudagraphMode::NONE) return;
  const auto refuse = [](std::string_view option, std::string_view because) {
    throw InvalidArgument(fmt::format(
        "capture_size_rule measured: cannot be used with {}, because {}; leave one of the two out",
        option,
        because));
  };
  if (in_.tensor_parallel_size > 1) {
    refuse("several ranks", "each rank would measure other times and keep other graphs");
  }
  if (in_.compilation.cudagraph_lazy_capture) {
    refuse("cudagraph_lazy_capture", "graphs are timed at the start, before the first batch");
  }
  if (in_.compilation.compile_sizes) {
    refuse("compile_sizes", "programs are compiled before it is known which sizes have graphs");
  }
  note("M1",
       "capture_size_rule measured: these sizes are candidates; the start times the graph of each "
       "one and keeps those that save at least 1 %; only the start can tell which");
}

void Resolver::expand_compile_sizes() {
  if (!in_.compilation.compile_sizes) return;
  std::vector<int32_t> sizes = in_.compilation.compile_sizes->sizes;
  if (in_.compilation.compile_sizes->include_capture_sizes) {
    const auto& captured =
        out_.capture_sizes.mixed.empty() ? out_.capture_sizes.decode : out_.capture_sizes.mixed;
    sizes.insert(sizes.end(), captured.begin(), captured.end());
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  out_.compile_sizes = std::move(sizes);
}

}  // namespace reprise::config
