#include "reprise/config/resolver.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/config/splitting_ops.h"

// Stage C: which modes the attention backends support.
namespace reprise::config {

namespace {

/// Whether every backend allows the FULL graphs of mixed batches that the mode has.
bool holds_mixed_batches(const ResolvedConfig& resolved) {
  if (resolved.mode != cudagraph::CudagraphMode::FULL_AND_FULL) {
    return resolved.weakest_attention.support == cudagraph::AttentionCGSupport::ALWAYS;
  }
  return std::ranges::all_of(resolved.attention, [](const auto& group) {
    return group.holds_mixed_batches_beside_decode();
  });
}

/// The backends with more than one set of FULL graphs, as "FLASH_ATTN, TRITON_ATTN"; empty: none.
std::string backends_with_two_sets(const ResolvedConfig& resolved) {
  std::vector<std::string> names;
  for (const cudagraph::AttentionBackendSupport& group : resolved.attention) {
    const bool has_two = group.full_graph_sets != cudagraph::FullGraphSets::one;
    if (has_two && std::ranges::find(names, group.backend) == names.end()) {
      names.push_back(group.backend);
    }
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

bool Resolver::attention_is_split() const {
  // A breakable capture is interrupted at every op that is listed. The compiler's pieces contain no
  // attention only if all attention ops are listed.
  if (!follows_vllm() && compiles()) return splits_attention(out_.splitting_ops);
  // vLLM considers the compiler's splitting ops even where its capture can be interrupted anywhere.
  if (follows_vllm_v2() && !compiles()) {
    return in_.compilation.splitting_ops && contains_attention(*in_.compilation.splitting_ops);
  }
  if (is_breakable() && !out_.splitting_ops.empty()) return true;
  return compiles() && contains_attention(out_.splitting_ops);
}

// Whether decode batches get FULL graphs beside those of mixed batches. Source: vLLM's pull request
// 20059, in which the levels ALWAYS_UNIFIED and ALWAYS_SEPARATE decided this.
void Resolver::choose_full_graph_sets() {
  using enum cudagraph::CudagraphMode;
  if ((out_.mode != FULL && out_.mode != FULL_AND_FULL) || !holds_mixed_batches(out_)) return;
  const std::string backends = backends_with_two_sets(out_);
  if (out_.mode == FULL_AND_FULL) {
    if (!backends.empty()) return;
    set_mode("R2",
             FULL,
             Loudness::warning,
             fmt::format("attention backend {} uses the same kernels for decode batches and mixed "
                         "ones, so one set of FULL graphs serves both: FULL_AND_FULL becomes FULL",
                         out_.weakest_attention.backend));
    return;
  }
  const bool is_wanted = std::ranges::any_of(out_.attention, [](const auto& group) {
    return group.full_graph_sets == cudagraph::FullGraphSets::two;
  });
  if (is_wanted) {
    set_mode("R3",
             FULL_AND_FULL,
             Loudness::info,
             fmt::format("attention backend {} has kernels of its own for decode batches "
                         "(ALWAYS_SEPARATE): FULL becomes FULL_AND_FULL, one set of FULL graphs "
                         "for decode batches and one for mixed batches",
                         backends));
  } else if (!backends.empty()) {
    warn("R4",
         fmt::format("attention backend {} has kernels of its own for decode batches, which mode "
                     "FULL does not use: it replays the graphs of mixed batches for them. "
                     "cudagraph_mode FULL_AND_PIECEWISE is usually faster; FULL_AND_FULL captures "
                     "FULL graphs for both",
                     backends));
  }
}

void Resolver::respect_attention_support() {
  if (out_.mode == cudagraph::CudagraphMode::NONE) return;
  using enum cudagraph::AttentionCGSupport;
  const cudagraph::AttentionCGSupport support = out_.weakest_attention.support;
  const auto weakest = [&] {
    return fmt::format("cudagraph_mode {} is not supported by attention backend {} (support {})",
                       to_string(out_.mode),
                       out_.weakest_attention.backend,
                       to_string(support));
  };
  const auto downgrade =
      [&](std::string_view rule, cudagraph::CudagraphMode mode, std::string_view why) {
        set_mode(rule,
                 mode,
                 Loudness::warning,
                 fmt::format("{}{}: becomes {}", weakest(), why, to_string(mode)));
      };

  if (mixed_mode(out_.mode) == cudagraph::CudagraphRuntimeMode::FULL &&
      !holds_mixed_batches(out_)) {
    if (support == NEVER && follows_vllm_0_10()) {
      downgrade("P2",
                piecewise_possible() ? cudagraph::CudagraphMode::PIECEWISE
                                     : cudagraph::CudagraphMode::NONE,
                ", which captures nothing in FULL graphs");
      return;
    }
    if (support == NEVER) {
      throw InvalidArgument(fmt::format(
          "{}, which captures nothing in FULL graphs [C2]; use cudagraph_mode PIECEWISE "
          "with mode VLLM_COMPILE",
          weakest()));
    }
    downgrade("C2",
              attention_is_split() ? cudagraph::CudagraphMode::FULL_AND_PIECEWISE
                                   : cudagraph::CudagraphMode::FULL_DECODE_ONLY,
              " for mixed batches");
  }
  if (decode_mode(out_.mode) == cudagraph::CudagraphRuntimeMode::FULL && support == NEVER) {
    downgrade(
        "C3",
        piecewise_possible() ? cudagraph::CudagraphMode::PIECEWISE : cudagraph::CudagraphMode::NONE,
        "");
  }
  if (decode_mode(out_.mode) == cudagraph::CudagraphRuntimeMode::FULL &&
      out_.uniform_decode_query_len > 1 && support < UNIFORM_BATCH) {
    downgrade(
        "C4",
        attention_is_split() ? cudagraph::CudagraphMode::PIECEWISE : cudagraph::CudagraphMode::NONE,
        fmt::format(" with decode query length {}", out_.uniform_decode_query_len));
  }
}

void Resolver::check_recurrent_state_blocks() {
  if (!in_.num_recurrent_state_blocks || !has_full_cudagraphs(out_.mode) ||
      in_.max_num_seqs <= *in_.num_recurrent_state_blocks) {
    return;
  }
  throw InvalidArgument(
      fmt::format("max_num_seqs {} is above the {} cache blocks for recurrent state, of which FULL "
                  "graphs need one per request [C7]; lower max_num_seqs to {} or raise "
                  "gpu_memory_utilization",
                  in_.max_num_seqs,
                  *in_.num_recurrent_state_blocks,
                  *in_.num_recurrent_state_blocks));
}

}  // namespace reprise::config
