#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace reprise::compile {

/// Counts what the compiler did for one engine. Most tests of the compiler check these counts.
/// Fields that vLLM's compilation_counter has too have the same names.
struct CompilationCounter {
  uint64_t num_models_seen = 0;
  uint64_t num_graphs_seen = 0;                       // traced programs that were compiled
  uint64_t num_piecewise_graphs_seen = 0;             // pieces, including splitting ones
  uint64_t num_piecewise_capturable_graphs_seen = 0;  // pieces that are not splitting
  uint64_t num_unique_pieces = 0;                     // distinct capturable pieces
  uint64_t num_backend_compilations = 0;  // programs that were compiled by passes and backend
  uint64_t num_eager_compiles = 0;        // of these, with backend "eager", which generates no code
  uint64_t num_inductor_compiles = 0;     // of these, with generated code
  uint64_t num_fused_groups = 0;          // row groups in these programs
  uint64_t num_generated_kernels = 0;     // row groups for which code was generated
  uint64_t num_compiled_artifacts_saved = 0;
  uint64_t num_compiled_artifacts_loaded = 0;    // cache hits
  uint64_t stock_torch_compile_count = 0;        // engines at level 1
  uint64_t num_gpu_runner_capture_triggers = 0;  // capture sessions
  uint64_t num_cudagraph_captured = 0;           // all graphs: of pieces and of whole forwards
  uint64_t num_full_cudagraph_captured = 0;      // of these, graphs of whole forwards

  friend bool operator==(const CompilationCounter&, const CompilationCounter&) = default;
};

/// Seconds of wall time per stage. 0 if the stage did not run.
struct CompilationSeconds {
  double trace = 0;
  double split = 0;
  double passes = 0;
  double plan = 0;
  double codegen = 0;
  double cache_load = 0;
  double cache_save = 0;

  [[nodiscard]] double total() const noexcept {
    return trace + split + passes + plan + codegen + cache_load + cache_save;
  }
};

/// Adds its own lifetime to the time of a stage.
class StageTimer {
 public:
  explicit StageTimer(double& seconds) noexcept : seconds_(seconds) {}
  StageTimer(const StageTimer&) = delete;
  StageTimer& operator=(const StageTimer&) = delete;
  ~StageTimer() {
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// One line "name value" per field, in the order above. Fields that are 0 are left out.
[[nodiscard]] std::string to_string(const CompilationCounter& counter);
[[nodiscard]] std::string to_string(const CompilationSeconds& seconds);

}  // namespace reprise::compile
