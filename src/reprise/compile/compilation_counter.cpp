#include "reprise/compile/compilation_counter.h"

#include <fmt/format.h>

#include <iterator>
#include <string_view>

namespace reprise::compile {

std::string to_string(const CompilationCounter& counter) {
  std::string text;
  const auto line = [&text](std::string_view name, uint64_t value) {
    if (value != 0) fmt::format_to(std::back_inserter(text), "{} {}\n", name, value);
  };
  line("num_models_seen", counter.num_models_seen);
  line("num_graphs_seen", counter.num_graphs_seen);
  line("num_piecewise_graphs_seen", counter.num_piecewise_graphs_seen);
  line("num_piecewise_capturable_graphs_seen", counter.num_piecewise_capturable_graphs_seen);
  line("num_unique_pieces", counter.num_unique_pieces);
  line("num_backend_compilations", counter.num_backend_compilations);
  line("num_eager_compiles", counter.num_eager_compiles);
  line("num_inductor_compiles", counter.num_inductor_compiles);
  line("num_fused_groups", counter.num_fused_groups);
  line("num_generated_kernels", counter.num_generated_kernels);
  line("num_compiled_artifacts_saved", counter.num_compiled_artifacts_saved);
  line("num_compiled_artifacts_loaded", counter.num_compiled_artifacts_loaded);
  line("stock_torch_compile_count", counter.stock_torch_compile_count);
  line("num_gpu_runner_capture_triggers", counter.num_gpu_runner_capture_triggers);
  line("num_cudagraph_captured", counter.num_cudagraph_captured);
  line("num_full_cudagraph_captured", counter.num_full_cudagraph_captured);
  return text;
}

std::string to_string(const CompilationSeconds& seconds) {
  std::string text;
  const auto line = [&text](std::string_view stage, double value) {
    if (value != 0) fmt::format_to(std::back_inserter(text), "{} {:.6f}\n", stage, value);
  };
  line("trace", seconds.trace);
  line("split", seconds.split);
  line("passes", seconds.passes);
  line("plan", seconds.plan);
  line("codegen", seconds.codegen);
  line("cache_load", seconds.cache_load);
  line("cache_save", seconds.cache_save);
  line("total", seconds.total());
  return text;
}

}  // namespace reprise::compile
