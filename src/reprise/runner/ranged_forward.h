#pragma once

#include <memory>
#include <vector>

#include "reprise/runner/program_forward.h"

namespace reprise::engine {

/// Numbers of tokens, both ends included, and which program runs them.
struct TokenRange {
  int64_t begin = 1;
  int64_t end = 0;
  size_t program = 0;
};

/// A model's forward, compiled one or several times: each batch runs the program of the first range
/// that holds its number of tokens.
struct RangedPrograms {
  std::vector<program::CompiledProgram> programs;
  std::vector<TokenRange> ranges;  // exact sizes first; the last one holds every other size
};

/// Levels 1 to 3, where the choice of kernels may depend on the size of the batch. The programs
/// share one arena: only one of them runs at a time.
class RangedForward final : public Forward {
 public:
  /// All references are borrowed. `slots`: weights and caches, by program.
  /// \throws OutOfMemory, program::ProgramError
  RangedForward(RangedPrograms programs,
                std::vector<program::SlotTensors> slots,
                Execution& execution,
                const cudagraph::CapturePermission& permission,
                const ProgramForwardOptions& options);

  void run(cudagraph::ForwardContext& context,
           std::span<const Tensor> inputs,
           std::vector<Tensor>& outputs) override;
  [[nodiscard]] size_t num_piecewise_graphs() const noexcept override;
  [[nodiscard]] size_t graph_bytes() const noexcept override;
  [[nodiscard]] device::BufferView memory() const noexcept override { return arena_.view(); }

  /// The program that batches of that many tokens run.
  [[nodiscard]] const program::CompiledProgram& program_for(int64_t num_tokens) const;

 private:
  [[nodiscard]] size_t index_for(int64_t num_tokens) const;

  device::Buffer arena_;
  std::vector<TokenRange> ranges_;
  std::vector<std::unique_ptr<ProgramForward>> forwards_;
};

}  // namespace reprise::engine
