#include "reprise/config/resolver.h"

#include <fmt/format.h>

#include <algorithm>

#include "reprise/base/error.h"
#include "reprise/config/custom_ops.h"

namespace reprise::config {
namespace {

// Limits the number of LoRA cases, because it multiplies the number of keys and sets the size of a
// table.
constexpr int32_t kLargestMaxLoras = 4096;
constexpr int32_t kLargestSpeculation = 1024;

void require_range(std::string_view field, int32_t value, int32_t low, int32_t high) {
  if (value < low || value > high) {
    throw InvalidArgument(fmt::format("{}: expected {} to {}, got {}", field, low, high, value));
  }
}

}  // namespace

Resolver::Resolver(const ResolutionInputs& inputs) : in_(inputs) {
  validate(in_.compilation, in_.extensions);
  require_range("num_speculative_tokens", in_.num_speculative_tokens, 0, kLargestSpeculation);
  require_range("max_loras", in_.lora.max_loras, 0, kLargestMaxLoras);
  require_range("tensor_parallel_size", in_.tensor_parallel_size, 1, 1 << 16);
  require_range("max_num_seqs", in_.max_num_seqs, 1, 1 << 20);
  require_range("max_num_batched_tokens", in_.max_num_batched_tokens, 1, INT32_MAX);
  require_range("default_max_capture_size", in_.default_max_capture_size, 1, 1 << 20);
  out_.requested = in_.compilation.cudagraph_mode;
  out_.pass_config = in_.compilation.pass_config;
  out_.custom_ops = in_.compilation.custom_ops;
  out_.uniform_decode_query_len = 1 + in_.num_speculative_tokens;
  out_.attention = in_.attention;
  out_.weakest_attention = weakest_of(in_.attention);
}

void Resolver::note(std::string_view rule, std::string text) {
  out_.reasons.push_back({std::string(rule), std::move(text), out_.mode, out_.mode});
}

void Resolver::warn(std::string_view rule, std::string text) {
  out_.warnings.push_back(text);
  note(rule, std::move(text));
}

void Resolver::set_mode(std::string_view rule,
                        cudagraph::CudagraphMode mode,
                        Loudness loudness,
                        std::string text) {
  const cudagraph::CudagraphMode before = mode_is_known_ ? out_.mode : mode;
  if (loudness == Loudness::warning) out_.warnings.push_back(text);
  out_.mode = mode;
  mode_is_known_ = true;
  out_.reasons.push_back({std::string(rule), std::move(text), before, mode});
}

void Resolver::enforce_eager() {
  if (!in_.enforce_eager) return;
  out_.compilation_mode = CompilationMode::NONE;
  std::string text = "enforce_eager is set: same as mode NONE with cudagraph_mode NONE";
  if (out_.requested && *out_.requested != cudagraph::CudagraphMode::NONE) {
    text += fmt::format("; the requested {} is ignored", to_string(*out_.requested));
    out_.mode = *out_.requested;
    mode_is_known_ = true;
  }
  set_mode("A1", cudagraph::CudagraphMode::NONE, Loudness::warning, std::move(text));
}

void Resolver::choose_compile_level() {
  if (in_.enforce_eager) return;
  if (in_.compilation.mode) {
    out_.compilation_mode = *in_.compilation.mode;
    return;
  }
  const bool optimises = in_.optimization_level != OptimizationLevel::O0;
  out_.compilation_mode = optimises ? CompilationMode::VLLM_COMPILE : CompilationMode::NONE;
}

void Resolver::choose_default_mode() {
  if (in_.enforce_eager) return;
  if (out_.requested) {
    out_.mode = *out_.requested;
    mode_is_known_ = true;
    return;
  }
  if (follows_atom()) return choose_default_mode_of_atom();
  if (follows_vllm_0_10()) {
    const auto mode =
        compiles() ? cudagraph::CudagraphMode::FULL_AND_PIECEWISE : cudagraph::CudagraphMode::NONE;
    set_mode("P1",
             mode,
             Loudness::info,
             fmt::format("cudagraph_mode was not given: vLLM 0.10 chooses {}, because compile mode "
                         "{} {} the model in pieces",
                         to_string(mode),
                         to_string(out_.compilation_mode),
                         compiles() ? "makes" : "does not make"));
    return;
  }
  cudagraph::CudagraphMode mode = cudagraph::CudagraphMode::FULL_AND_PIECEWISE;
  if (in_.optimization_level == OptimizationLevel::O0) mode = cudagraph::CudagraphMode::NONE;
  if (in_.optimization_level == OptimizationLevel::O1) mode = cudagraph::CudagraphMode::PIECEWISE;
  set_mode("A8",
           mode,
           Loudness::info,
           fmt::format("cudagraph_mode was not given: -{} chooses {}",
                       to_string(in_.optimization_level),
                       to_string(mode)));
}

// Source: ATOM, docs/compilation_cudagraph_guide.md. ATOM configures PIECEWISE at level 3.
// Its runner does not read the mode: run_model() runs prompts eagerly, and decode batches from the
// FULL graphs of (batch size, max_q_len).
void Resolver::choose_default_mode_of_atom() {
  using enum cudagraph::CudagraphMode;
  const bool is_runner =
      in_.compilation.capture_size_rule == cudagraph::CaptureSizeRule::atom_runner;
  if (is_runner && compiles()) {
    set_mode("T2",
             FULL_DECODE_ONLY,
             Loudness::info,
             "cudagraph_mode was not given: ATOM's runner runs prompts eagerly and decode batches "
             "from FULL graphs");
    return;
  }
  set_mode("T1",
           compiles() ? PIECEWISE : NONE,
           Loudness::info,
           fmt::format("cudagraph_mode was not given: ATOM chooses {} at level {}",
                       to_string(compiles() ? PIECEWISE : NONE),
                       static_cast<int>(out_.compilation_mode)));
}

// By default, only those fusions are on that need no particular device: those that replace a custom
// op.
void Resolver::choose_default_passes() {
  const bool generates = out_.compilation_mode != CompilationMode::NONE &&
                         in_.compilation.use_inductor &&
                         (in_.compilation.backend.empty() || in_.compilation.backend == "inductor");
  PassConfig& passes = out_.pass_config;
  if (is_set(passes.enable_qk_norm_rope_fusion) || is_set(passes.fuse_rope_kvcache) ||
      is_set(passes.fuse_qk_norm_rope_kvcache)) {
    if (std::find(out_.custom_ops.begin(), out_.custom_ops.end(), "+rotary_embedding") ==
        out_.custom_ops.end()) {
      out_.custom_ops.emplace_back("+rotary_embedding");
    }
    check_custom_ops(out_.custom_ops);
  }
  append_default_base_mode(out_.custom_ops, generates);

  const bool optimises = in_.optimization_level != OptimizationLevel::O0;
  const auto enabled = [&](std::string_view op) { return enables_custom_op(out_.custom_ops, op); };
  const auto fill = [](std::optional<bool>& flag, bool value) {
    if (!flag) flag = value;
  };
  fill(passes.fuse_norm_quant, optimises && (enabled("rms_norm") || enabled("quant_fp8")));
  fill(passes.fuse_act_quant, optimises && (enabled("silu_and_mul") || enabled("quant_fp8")));
  fill(passes.fuse_rope_kvcache, optimises && !follows_vllm());
  fill(passes.fuse_qk_norm_rope_kvcache, optimises && !follows_vllm());
  for (std::optional<bool>* flag : {&passes.fuse_act_padding,
                                    &passes.fuse_mla_dual_rms_norm,
                                    &passes.fuse_allreduce_rms,
                                    &passes.fuse_attn_quant,
                                    &passes.enable_sp,
                                    &passes.fuse_gemm_comms,
                                    &passes.enable_qk_norm_rope_fusion,
                                    &passes.fuse_rope_kvcache_cat_mla}) {
    fill(*flag, false);
  }
}

// vLLM's first runner captures FULL graphs for one query length only.
void Resolver::respect_scheduled_drafts() {
  if (!follows_vllm_v1() || in_.scheduled_drafts.empty() || !has_full_cudagraphs(out_.mode)) {
    return;
  }
  set_mode("A10",
           cudagraph::CudagraphMode::PIECEWISE,
           Loudness::warning,
           fmt::format("num_speculative_tokens_per_batch_size changes the query length while the "
                       "engine runs, which the FULL graphs of rule vllm-v1 cannot follow: "
                       "cudagraph_mode {} becomes PIECEWISE; use rule vllm or reprise",
                       to_string(out_.mode)));
}

void Resolver::drop_piecewise_without_pieces() {
  if (!requires_piecewise_compilation(out_.mode) || compiles() || is_breakable()) return;
  const cudagraph::CudagraphMode rest =
      follows_vllm_v2() ? without_piecewise(out_.mode) : cudagraph::CudagraphMode::NONE;
  set_mode("A11",
           rest,
           follows_vllm() && !follows_vllm_0_10() ? Loudness::info : Loudness::warning,
           fmt::format("cudagraph_mode {} needs the model in pieces, which compile mode {} does "
                       "not make: becomes {}; use mode VLLM_COMPILE, or FULL or FULL_DECODE_ONLY",
                       to_string(out_.mode),
                       to_string(out_.compilation_mode),
                       to_string(rest)));
}

void Resolver::drop_piecewise_again() {
  if (follows_vllm_v2()) drop_piecewise_without_pieces();
}

void Resolver::drop_graphs_of_stock_compiler() {
  if (!follows_vllm_v2() || is_breakable() || out_.mode == cudagraph::CudagraphMode::NONE) return;
  if (out_.compilation_mode != CompilationMode::STOCK_TORCH_COMPILE) return;
  set_mode("A24",
           cudagraph::CudagraphMode::NONE,
           Loudness::info,
           "vLLM's Model Runner V2 captures no graph around a model of compile mode "
           "STOCK_TORCH_COMPILE: CUDA graphs are off");
}

void Resolver::warn_disabled_passes(std::string text) {
  out_.pass_config.enable_sp = false;
  out_.pass_config.fuse_gemm_comms = false;
  warn("A12", std::move(text));
}

void Resolver::settle_sequence_parallelism() {
  if (is_set(out_.pass_config.fuse_gemm_comms)) out_.pass_config.enable_sp = true;
  if (!sequence_parallel()) return;
  if (in_.tensor_parallel_size == 1) {
    warn_disabled_passes(
        "pass_config.enable_sp needs tensor_parallel_size above 1: sequence parallelism and its "
        "fusions are off");
  } else if (!out_.pass_config.sp_min_token_num) {
    warn_disabled_passes(
        "no token threshold for sequence parallelism is known for this device: it is off; set "
        "pass_config.sp_min_token_num to use it");
  }
}

void Resolver::settle_all_reduce_fusion() {
  std::optional<bool>& flag = out_.pass_config.fuse_allreduce_rms;
  if (!is_set(flag) || in_.tensor_parallel_size > 1) return;
  flag = false;
  warn("R5",
       "pass_config.fuse_allreduce_rms needs tensor_parallel_size above 1: one rank has no sum to "
       "fuse, and the pass is off");
}

void Resolver::respect_platform() {
  if (in_.platform_supports_graphs || out_.mode == cudagraph::CudagraphMode::NONE) return;
  set_mode("A13",
           cudagraph::CudagraphMode::NONE,
           out_.requested ? Loudness::warning : Loudness::info,
           "this device cannot capture graphs: CUDA graphs are off");
}

void Resolver::respect_model_kind() {
  if (out_.mode == cudagraph::CudagraphMode::NONE) return;
  if (in_.pooling && has_full_cudagraphs(out_.mode)) {
    set_mode("A14",
             cudagraph::CudagraphMode::PIECEWISE,
             out_.requested ? Loudness::warning : Loudness::info,
             fmt::format("pooling models have no FULL graphs: {} becomes PIECEWISE",
                         to_string(out_.mode)));
  } else if (in_.encoder_decoder && (!in_.pooling || follows_vllm()) &&
             out_.mode != cudagraph::CudagraphMode::FULL_DECODE_ONLY) {
    set_mode("A15",
             cudagraph::CudagraphMode::FULL_DECODE_ONLY,
             Loudness::info,
             fmt::format("encoder-decoder models capture uniform decode only: {} becomes "
                         "FULL_DECODE_ONLY",
                         to_string(out_.mode)));
  }
  if (in_.kv_connector_requires_piecewise && has_full_cudagraphs(out_.mode)) {
    set_mode(
        "A16",
        cudagraph::CudagraphMode::PIECEWISE,
        Loudness::warning,
        fmt::format("the KV connector works layer by layer, which a FULL graph cannot contain: "
                    "{} becomes PIECEWISE",
                    to_string(out_.mode)));
  }
}

void Resolver::choose_warmups() {
  out_.num_of_warmups = in_.compilation.cudagraph_num_of_warmups;
  // Without a warm-up, libraries would be initialised within a capture, which must not happen. So
  // there is at least one eager run per shape.
  if (!in_.enforce_eager && in_.platform_supports_graphs && out_.num_of_warmups == 0) {
    out_.num_of_warmups = 1;
  }
}

}  // namespace reprise::config
