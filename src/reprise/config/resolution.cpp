#include "reprise/config/resolution.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/config/custom_ops.h"
#include "reprise/config/splitting_ops.h"

namespace reprise::config {
namespace {

// Adapter counts index a dense table and multiply the number of keys, so they are bounded.
constexpr int32_t kLargestMaxLoras = 4096;
constexpr int32_t kLargestSpeculation = 1024;

bool is_set(const std::optional<bool>& flag) { return flag.value_or(false); }

/// Carries out the stages of the resolution. Each step reads and changes one state; the order of
/// the calls in resolve() is the policy.
class Resolver {
 public:
  explicit Resolver(const ResolutionInputs& inputs);

  void enforce_eager();
  void choose_compile_level();
  void choose_default_mode();
  void choose_default_passes();
  void drop_piecewise_without_pieces();
  void settle_sequence_parallelism();
  void respect_platform();
  void respect_model_kind();
  void choose_warmups();
  void compute_sizes_before_splitting();
  void choose_splitting_ops();
  void drop_piecewise(std::string_view rule, std::string_view because);
  void warn_about_cascade();
  void check_pieces_exist();
  void respect_attention_support();
  void check_recurrent_state_blocks();
  void compute_final_sizes();
  void expand_compile_sizes();

  ResolvedConfig take() && { return std::move(out_); }

 private:
  enum class Loudness : uint8_t { info, warning };

  void set_mode(std::string_view rule,
                cudagraph::CudagraphMode mode,
                Loudness loudness,
                std::string text);
  void note(std::string_view rule, std::string text);
  void warn(std::string_view rule, std::string text);
  void warn_disabled_passes(std::string text);
  void split_nowhere(std::string_view rule, std::string_view because);

  [[nodiscard]] bool uses_partition() const {
    return in_.compilation.use_inductor_graph_partition.value_or(false);
  }
  [[nodiscard]] bool compiles() const {
    return out_.compilation_mode == CompilationMode::VLLM_COMPILE;
  }
  /// Splitting rules apply only when the compiler or a breakable capture splits the model.
  [[nodiscard]] bool splits() const { return compiles() || in_.breakable; }
  [[nodiscard]] bool sequence_parallel() const { return is_set(out_.pass_config.enable_sp); }
  /// "A" of the support table: attention stays outside the pieces.
  [[nodiscard]] bool attention_is_split() const;
  /// "P" of the support table: PIECEWISE can stand in for FULL.
  [[nodiscard]] bool piecewise_possible() const {
    return attention_is_split() || (compiles() && uses_partition());
  }
  [[nodiscard]] bool vllm_rule() const {
    return in_.compilation.capture_size_rule == cudagraph::CaptureSizeRule::vllm;
  }
  [[nodiscard]] cudagraph::CaptureSizeInputs size_inputs() const;
  void compute_sizes();

  const ResolutionInputs& in_;
  ResolvedConfig out_;
  bool mode_is_known_ = false;  // false until the user's mode or the default mode is set
};

void require_range(std::string_view field, int32_t value, int32_t low, int32_t high) {
  if (value < low || value > high) {
    throw InvalidArgument(fmt::format("{}: expected {} to {}, got {}", field, low, high, value));
  }
}

Resolver::Resolver(const ResolutionInputs& inputs) : in_(inputs) {
  validate(in_.compilation);
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

// By default only fusions that need no device are on, which are the ones that replace a custom op.
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
  fill(passes.fuse_rope_kvcache, optimises && !vllm_rule());
  fill(passes.fuse_qk_norm_rope_kvcache, optimises && !vllm_rule());
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

void Resolver::drop_piecewise_without_pieces() {
  if (!requires_piecewise_compilation(out_.mode) || compiles() || in_.breakable) return;
  set_mode("A11",
           cudagraph::CudagraphMode::NONE,
           vllm_rule() ? Loudness::info : Loudness::warning,
           fmt::format("cudagraph_mode {} needs the model in pieces, which compile mode {} does "
                       "not make: CUDA graphs are off; use mode VLLM_COMPILE, or FULL or "
                       "FULL_DECODE_ONLY",
                       to_string(out_.mode),
                       to_string(out_.compilation_mode)));
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
  } else if (in_.encoder_decoder && (!in_.pooling || vllm_rule()) &&
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
  // One eager run per shape, because lazy library set-up must not happen inside a capture.
  if (!in_.enforce_eager && in_.platform_supports_graphs && out_.num_of_warmups == 0) {
    out_.num_of_warmups = 1;
  }
}

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

// vLLM computes its sizes before it applies the splitting rules, so a mode that these rules turn
// into NONE keeps its list of sizes.
void Resolver::compute_sizes_before_splitting() {
  if (vllm_rule() && out_.mode != cudagraph::CudagraphMode::NONE) compute_sizes();
}

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

void Resolver::choose_splitting_ops() {
  const auto& wish = in_.compilation.splitting_ops;
  out_.splitting_ops = wish.value_or(std::vector<std::string>{});
  if (!splits()) return;  // B1

  const PassConfig& passes = out_.pass_config;
  const bool whole_program = compiles() && !uses_partition();
  if (is_set(passes.fuse_attn_quant) && whole_program) {
    if (!wish) {
      split_nowhere("B2", "pass_config.fuse_attn_quant needs the whole program");
      return;
    }
    if (contains_attention(*wish)) {
      throw InvalidArgument(
          "pass_config.fuse_attn_quant and splitting_ops that contain attention contradict each "
          "other [B3]: drop attention from splitting_ops, set use_inductor_graph_partition, or "
          "turn "
          "the fusion off");
    }
  }
  if (!wish) {
    out_.splitting_ops.assign(attention_ops().begin(), attention_ops().end());
    // Pieces of this engine get their caches as arguments: equal pieces are shared even with cache
    // writes inside.
    if (whole_program && vllm_rule()) {
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
  } else if (wish->empty()) {
    drop_piecewise("B5", "splitting_ops is [], so there are no pieces");
  } else if (compiles() && !vllm_rule() && !splits_attention(*wish)) {
    // A piecewise graph serves any number of requests; attention inside it would fix that number.
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
  if (!requires_piecewise_compilation(out_.mode) || compiles() || in_.breakable) return;
  throw InvalidArgument(
      fmt::format("cudagraph_mode became {} but compile mode {} makes no pieces [A22]; use mode "
                  "VLLM_COMPILE or set cudagraph_mode to NONE",
                  to_string(out_.mode),
                  to_string(out_.compilation_mode)));
}

bool Resolver::attention_is_split() const {
  // Breakable capture breaks wherever an op is listed; the compiler's pieces are free of attention
  // only when every attention op is listed.
  if (!vllm_rule() && compiles()) return splits_attention(out_.splitting_ops);
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

void Resolver::compute_final_sizes() {
  out_.piecewise_available = attention_is_split();
  if (!vllm_rule()) {
    compute_sizes();
    return;
  }
  cudagraph::CaptureSizes& sizes = out_.capture_sizes;
  const int32_t q = out_.uniform_decode_query_len;
  if (decode_mode(out_.mode) == cudagraph::CudagraphRuntimeMode::FULL && q > 1) {
    const std::vector<int32_t> rounded = cudagraph::adjust_sizes_for_spec_decode(
        sizes.mixed, q, in_.tensor_parallel_size, sequence_parallel());
    if (rounded != sizes.mixed) {
      sizes.mixed = rounded;
      note("C6", fmt::format("capture sizes were rounded to multiples of query length {}", q));
    }
  }
  sizes.decode.clear();
  if (separate_routine(out_.mode)) {
    sizes.decode = cudagraph::decode_sizes_within(sizes.mixed, q, in_.max_num_seqs);
  }
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

}  // namespace

ResolvedConfig resolve(const ResolutionInputs& inputs) {
  Resolver resolver(inputs);
  // Stage A, part one: the requested settings, and the limits of the platform and the model kind.
  resolver.enforce_eager();
  resolver.choose_compile_level();
  resolver.choose_default_mode();
  resolver.choose_default_passes();
  resolver.drop_piecewise_without_pieces();
  resolver.settle_sequence_parallelism();
  resolver.respect_platform();
  resolver.respect_model_kind();
  resolver.choose_warmups();
  resolver.compute_sizes_before_splitting();
  // Stage B: the places where the model is split.
  resolver.choose_splitting_ops();
  // Stage A, part two: consistency.
  resolver.warn_about_cascade();
  resolver.check_pieces_exist();
  // Stage C: the modes that the attention backends support.
  resolver.respect_attention_support();
  resolver.check_recurrent_state_blocks();
  resolver.compute_final_sizes();
  resolver.expand_compile_sizes();
  return std::move(resolver).take();
}

cudagraph::DispatcherOptions dispatcher_options(const ResolutionInputs& inputs,
                                                const ResolvedConfig& resolved) {
  return {.mode = resolved.mode,
          .rule = inputs.compilation.capture_size_rule,
          .uniform_decode_query_len = resolved.uniform_decode_query_len,
          .max_num_seqs = inputs.max_num_seqs,
          .mixed_capture_sizes = resolved.capture_sizes.mixed,
          .decode_capture_sizes = resolved.capture_sizes.decode,
          .lora = inputs.lora,
          .specialize_lora = inputs.compilation.cudagraph_specialize_lora,
          .compile_sizes = resolved.compile_sizes,
          .piecewise_available = resolved.piecewise_available};
}

}  // namespace reprise::config
