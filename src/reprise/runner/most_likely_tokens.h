#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reprise/kernels/row_sampler.h"
#include "reprise/runner/step_result.h"

namespace reprise::runner {

class ModelRunner;

/// The most likely token of each row of a step's logits: what a drafter proposes. With a sampler,
/// the device chooses, and only tokens are copied to the host. Borrows the runner and the sampler.
/// Belongs to one thread. Only the constructor allocates.
class MostLikelyTokens {
 public:
  /// `sampler`: for the runner's stream and rows of its logits; nullptr: the host chooses.
  /// `max_rows`: of a step
  MostLikelyTokens(ModelRunner& runner, kernels::RowSampler* sampler, int32_t max_rows);

  /// Waits for the step. The result is valid until the next call. Of equal logits, the first one
  /// wins; a row with a NaN gives any token. \pre count > 0 \throws device::DeviceError
  [[nodiscard]] std::span<const int32_t> choose(const StepResult& result, int32_t count);

 private:
  ModelRunner* runner_;
  kernels::RowSampler* sampler_;
  std::vector<kernels::SamplingRow> rows_;
  std::vector<int32_t> tokens_;
};

}  // namespace reprise::runner
