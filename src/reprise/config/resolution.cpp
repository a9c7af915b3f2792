#include "reprise/config/resolution.h"

#include <utility>

#include "reprise/config/resolver.h"

namespace reprise::config {

ResolvedConfig resolve(const ResolutionInputs& inputs) {
  Resolver resolver(inputs);
  // Stage A, first part: the requested settings, and the limits of the platform and of the kind of
  // model.
  resolver.enforce_eager();
  resolver.choose_compile_level();
  resolver.choose_default_mode();
  resolver.choose_default_passes();
  resolver.respect_scheduled_drafts();
  resolver.drop_piecewise_without_pieces();
  resolver.settle_sequence_parallelism();
  resolver.settle_all_reduce_fusion();
  resolver.respect_platform();
  resolver.respect_model_kind();
  resolver.drop_piecewise_again();
  resolver.drop_graphs_of_stock_compiler();
  resolver.choose_warmups();
  resolver.compute_sizes_before_splitting();
  // Stage B: where the model is split.
  resolver.choose_splitting_ops();
  // Stage A, second part: settings that contradict each other.
  resolver.warn_about_cascade();
  resolver.check_pieces_exist();
  // Stage C: which modes the attention backends support.
  resolver.choose_full_graph_sets();
  resolver.respect_attention_support();
  resolver.drop_piecewise_again();
  resolver.check_recurrent_state_blocks();
  resolver.compute_final_sizes();
  resolver.expand_compile_sizes();
  resolver.warn_about_lazy_capture();
  resolver.warn_about_copied_inputs();
  resolver.check_measured_sizes();
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
          .other_decode_widths = resolved.other_decode_widths,
          .lora = inputs.lora,
          .specialize_lora = inputs.compilation.cudagraph_specialize_lora,
          .compile_sizes = resolved.compile_sizes,
          .piecewise_available = resolved.piecewise_available};
}

}  // namespace reprise::config
