#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "reprise/config/resolution.h"

namespace reprise::config {

inline bool is_set(const std::optional<bool>& flag) { return flag.value_or(false); }

/// The steps of the resolution, only for resolve(). Each step reads and changes the state in
/// `out_`. The order in which resolve() calls the steps matters.
class Resolver {
 public:
  explicit Resolver(const ResolutionInputs& inputs);

  void enforce_eager();
  void choose_compile_level();
  void choose_default_mode();
  void choose_default_mode_of_atom();
  void choose_default_passes();
  void respect_scheduled_drafts();
  void drop_piecewise_without_pieces();
  /// Rule vllm: called after a step that may have chosen PIECEWISE although the model has no
  /// pieces. The other rules refuse such a configuration, see check_pieces_exist().
  void drop_piecewise_again();
  void drop_graphs_of_stock_compiler();
  void settle_sequence_parallelism();
  void settle_all_reduce_fusion();
  void respect_platform();
  void respect_model_kind();
  void choose_warmups();
  void compute_sizes_before_splitting();
  void choose_splitting_ops();
  void choose_default_splitting_ops();
  void drop_piecewise(std::string_view rule, std::string_view because);
  void warn_about_cascade();
  void check_pieces_exist();
  void choose_full_graph_sets();
  void respect_attention_support();
  void check_recurrent_state_blocks();
  void compute_final_sizes();
  void expand_compile_sizes();
  void warn_about_lazy_capture();
  void warn_about_copied_inputs();
  void check_measured_sizes();

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
  /// The rules for splitting apply only if the compiler or a breakable capture splits the model.
  [[nodiscard]] bool splits() const { return compiles() || is_breakable(); }
  /// Whether captures can be interrupted at split points. vLLM 0.10 had no such captures.
  [[nodiscard]] bool is_breakable() const { return in_.breakable && !follows_vllm_0_10(); }
  [[nodiscard]] bool sequence_parallel() const { return is_set(out_.pass_config.enable_sp); }
  /// Column "A" of the support table: attention runs outside of the pieces.
  [[nodiscard]] bool attention_is_split() const;
  /// Column "P" of the support table: PIECEWISE can replace FULL.
  [[nodiscard]] bool piecewise_possible() const {
    const bool counts = compiles() || !follows_vllm_v2();  // rule vllm: only with the compiler
    return (attention_is_split() && counts) || (compiles() && uses_partition());
  }
  [[nodiscard]] bool follows_vllm() const { return follows_vllm_v1() || follows_vllm_v2(); }
  [[nodiscard]] bool follows_vllm_v1() const {
    return is_of_first_runner(in_.compilation.capture_size_rule);
  }
  [[nodiscard]] bool follows_vllm_0_10() const {
    return in_.compilation.capture_size_rule == cudagraph::CaptureSizeRule::vllm_0_10;
  }
  [[nodiscard]] bool follows_vllm_v2() const {
    return in_.compilation.capture_size_rule == cudagraph::CaptureSizeRule::vllm;
  }
  [[nodiscard]] bool follows_atom() const { return is_of_atom(in_.compilation.capture_size_rule); }
  [[nodiscard]] cudagraph::CaptureSizeInputs size_inputs() const;
  void compute_sizes();
  void compute_sizes_of_fewer_drafts();

  const ResolutionInputs& in_;
  ResolvedConfig out_;
  bool mode_is_known_ = false;  // whether the user's mode or the default mode has been set
};

}  // namespace reprise::config
