#pragma once

#include <memory>
#include <vector>

#include "reprise/program/ranged_programs.h"
#include "reprise/runner/program_forward.h"

namespace reprise::runner {

/// Levels 1 to 3 with several programs for different batch sizes. Each batch runs the program of
/// the first range that contains its number of tokens. Only one program runs at a time, so they
/// share one arena.
class RangedForward final : public Forward {
 public:
  /// All references are borrowed. slots[p] has the weights and caches of program p.
  /// \throws OutOfMemory, program::ProgramError
  RangedForward(program::RangedPrograms programs,
                std::vector<program::SlotTensors> slots,
                Execution& execution,
                const cudagraph::CapturePermission& permission,
                const ProgramForwardOptions& options);

  void run(cudagraph::ForwardContext& context,
           std::span<const Tensor> inputs,
           std::vector<Tensor>& outputs) override;
  [[nodiscard]] size_t num_piecewise_graphs() const noexcept override;
  [[nodiscard]] size_t graph_bytes() const noexcept override;
  void forget(const cudagraph::BatchDescriptor& descriptor) override;
  [[nodiscard]] device::BufferView memory() const noexcept override { return arena_.view(); }

  /// The program for batches of `num_tokens` tokens.
  [[nodiscard]] const program::CompiledProgram& program_for(int64_t num_tokens) const;

 private:
  device::Buffer arena_;
  std::vector<program::ProgramRange> ranges_;
  std::vector<std::unique_ptr<ProgramForward>> forwards_;
};

}  // namespace reprise::runner
