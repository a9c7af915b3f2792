#pragma once

#include <cstdint>
#include <span>

#include "reprise/kernels/kernel_table.h"
#include "reprise/kernels/logit_passes/logit_passes_arguments.h"

namespace reprise::kernels {

/// Passes over one row of logits with the vectors of an instruction set. They are not ops: they run
/// on the calling thread and read memory of the host. sampling::RowPasses describes each result.
class LogitPasses {
 public:
  /// \pre has_kernels(kernels)
  explicit LogitPasses(const KernelTable& kernels) : kernels_(&kernels) {}
  /// Whether the table has these kernels; tables of GPUs do not.
  [[nodiscard]] static bool has_kernels(const KernelTable& kernels);

  [[nodiscard]] bool find_maxima(std::span<const float> logits, std::span<float> maxima) const;
  void sum_parts(const LogitWeightsArguments& arguments) const;
  void sum_above(const LogitMassArguments& arguments) const;
  void weigh(std::span<const float> logits,  // at most kLogitPart
             float max,
             float inverse_temperature,
             std::span<float> weights) const;

 private:
  const KernelTable* kernels_;
};

}  // namespace reprise::kernels
