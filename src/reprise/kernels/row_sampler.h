#pragma once

#include <cstdint>
#include <span>

#include "reprise/kernels/sampling_row.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// Chooses tokens on the device that has the logits, so that only tokens are copied to the host. A
/// sampler belongs to one thread and one stream. On that stream launch() follows the step that
/// computed the logits.
class RowSampler {
 public:
  virtual ~RowSampler() = default;

  [[nodiscard]] virtual int32_t max_rows() const noexcept = 0;
  [[nodiscard]] virtual int32_t max_adjustments() const noexcept = 0;

  /// Submits the work, which adjusts the logits in place. Both lists are copied.
  /// \pre the lists do not exceed the limits and there is at least one row
  /// \throws DeviceError
  virtual void launch(const Tensor& logits,  // float32[num_rows, vocab_size]
                      std::span<const SamplingRow> rows,
                      std::span<const LogitAdjustment> adjustments) = 0;

  /// Waits for the last launch and returns its tokens in the order of the rows, with
  /// kNonFiniteLogits or kNoAllowedToken for a row without a token. Valid until the next launch.
  /// \throws DeviceError
  [[nodiscard]] virtual std::span<const int32_t> wait() = 0;
};

}  // namespace reprise::kernels
