#include "reprise/config/resolver.h"

#include <fmt/format.h>

#include "reprise/base/error.h"
#include "reprise/config/splitting_ops.h"

// Stage B: where the model is split, and which modes remain possible.
namespace reprise::config {

void Resolver::split_nowhere(std::string_view rule, std::string_view because) {
  out_.splitting_ops.clear();
  if (has_mode(out_.mode, cudagraph::CudagraphRuntimeMode::PIECEWISE)) {
    set_mode(
        rule,
        cudagraph::CudagraphMode::FULL,
        Loudness::warning,
        fmt::format("{}: the model is not split, {} becomes FULL", because, to_string(out_.mode)));
  } else {
    note(rule, fmt::format("{}: the model is not split", because));
  }
}

void Resolver::choose_default_splitting_ops() {
  const auto ops = follows_atom() ? atom_attention_ops() : attention_ops();
  out_.splitting_ops.assign(ops.begin(), ops.end());
  if (follows_atom() && in_.num_recurrent_state_blocks) {
    // ATOM has no recurrent models, but for such a model the state updates must be outside the
    // pieces too.
    out_.splitting_ops.insert(
        out_.splitting_ops.end(), attention_ops().begin(), attention_ops().end());
  }
}

void Resolver::choose_splitting_ops() {
  const auto& asked = in_.compilation.splitting_ops;
  out_.splitting_ops = asked.value_or(std::vector<std::string>{});
  if (!splits()) return;  // B1

  const PassConfig& passes = out_.pass_config;
  const bool whole_program = compiles() && !uses_partition();
  if (is_set(passes.fuse_attn_quant) && whole_program) {
    if (!asked) {
      split_nowhere("B2", "pass_config.fuse_attn_quant needs the whole program");
      return;
    }
    if (contains_attention(*asked)) {
      throw InvalidArgument(
          "pass_config.fuse_attn_quant and splitting_ops that contain attention contradict each "
          "other [B3]: drop attention from splitting_ops, set use_inductor_graph_partition, or "
          "turn "
          "the fusion off");
    }
  }
  if (!asked) {
    choose_default_splitting_ops();
    // In this engine, pieces get their caches as arguments, so pieces with cache writes can be
    // equal too. Only rule vllm splits at cache writes.
    if (whole_program && follows_vllm()) {
      out_.splitting_ops.insert(
          out_.splitting_ops.end(), kv_cache_update_ops().begin(), kv_cache_update_ops().end());
      if (is_set(passes.fuse_rope_kvcache) || is_set(passes.fuse_qk_norm_rope_kvcache)) {
        out_.pass_config.fuse_rope_kvcache = false;
        out_.pass_config.fuse_qk_norm_rope_kvcache = false;
        warn("B4",
             "the KV-cache update is a splitting op: fuse_rope_kvcache and "
             "fuse_qk_norm_rope_kvcache are off; set use_inductor_graph_partition or splitting_ops "
             "to use them");
      }
    }
  } else if (asked->empty()) {
    drop_piecewise("B5", "splitting_ops is [], so there are no pieces");
  } else if (compiles() && !follows_vllm_v1() && !splits_attention(*asked)) {
    // A piecewise graph serves any number of requests. With attention inside, it would only serve
    // one number.
    drop_piecewise(
        "R1",
        "splitting_ops leaves attention inside the pieces, which no PIECEWISE graph can hold");
  }
  if ((sequence_parallel() || is_set(passes.fuse_gemm_comms)) && whole_program &&
      !out_.splitting_ops.empty()) {
    split_nowhere("B6", "sequence parallelism and its fusions need the whole program");
  }
}

void Resolver::drop_piecewise(std::string_view rule, std::string_view because) {
  if (out_.mode == cudagraph::CudagraphMode::PIECEWISE) {
    set_mode(rule,
             cudagraph::CudagraphMode::NONE,
             Loudness::warning,
             fmt::format("{}: PIECEWISE becomes NONE; consider cudagraph_mode FULL", because));
  } else if (out_.mode == cudagraph::CudagraphMode::FULL_AND_PIECEWISE) {
    set_mode(rule,
             cudagraph::CudagraphMode::FULL,
             Loudness::warning,
             fmt::format("{}: FULL_AND_PIECEWISE becomes FULL", because));
  }
}

void Resolver::warn_about_cascade() {
  if (!in_.cascade_enabled || !has_full_cudagraphs(out_.mode) ||
      has_mode(out_.mode, cudagraph::CudagraphRuntimeMode::PIECEWISE)) {
    return;
  }
  warn(
      "A21",
      fmt::format("batches with cascade attention run eagerly in mode {}: they cannot be in a FULL "
                  "graph and there are no PIECEWISE graphs",
                  to_string(out_.mode)));
}

void Resolver::check_pieces_exist() {
  if (!requires_piecewise_compilation(out_.mode) || compiles() || is_breakable()) return;
  throw InvalidArgument(
      fmt::format("cudagraph_mode became {} but compile mode {} makes no pieces [A22]; use mode "
                  "VLLM_COMPILE or set cudagraph_mode to NONE",
                  to_string(out_.mode),
                  to_string(out_.compilation_mode)));
}

}  // namespace reprise::config
