#include "reprise/config/resolver.h"

#include <fmt/format.h>

#include "reprise/base/error.h"
#include "reprise/config/splitting_ops.h"

// Stage C: which modes the attention backends support.
namespace reprise::config {

bool Resolver::attention_is_split() const {
  // A breakable capture is interrupted at every op that is listed. The compiler's pieces contain no
  // attention only if all attention ops are listed.
  if (!follows_vllm() && compiles()) return splits_attention(out_.splitting_ops);
  // vLLM looks at the compiler's splitting ops even where its capture can be interrupted anywhere.
  if (follows_vllm_v2() && !compiles()) {
    return in_.compilation.splitting_ops && contains_attention(*in_.compilation.splitting_ops);
  }
  if (in_.breakable && !out_.splitting_ops.empty()) return true;
  return compiles() && contains_attention(out_.splitting_ops);
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

  if (mixed_mode(out_.mode) == cudagraph::CudagraphRuntimeMode::FULL && support != ALWAYS) {
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
