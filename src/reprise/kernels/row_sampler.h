#pragma once

#include <cstdint>
#include <span>

#include "reprise/kernels/sampling_row.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// Chooses tokens where the logits are, so that only the tokens go to the host. One thread, and one
/// stream, on which launch() follows the step that computed the logits.
class RowSampler {
 public:
  virtual ~RowSampler() = default;

  [[nodiscard]] virtual int32_t max_rows() const noexcept = 0;
  [[nodiscard]] virtual int32_t max_adjustments() const noexcept = 0;

  /// Returns when the work is submitted. Adjusts the logits in place. Both lists are copied.
  /// \pre they fit the limits; at least one row
  /// \throws DeviceError
  virtual void launch(const Tensor& logits,  // float32[num_rows, vocab_size]
                      std::span<const SamplingRow> rows,
                      std::span<const LogitAdjustment> adjustments) = 0;

  /// Waits for the last launch. Its tokens in the order of its rows, or why there is none; valid
  /// until the next launch. \throws DeviceError
  [[nodiscard]] virtual std::span<const int32_t> wait() = 0;
};

}  // namespace reprise::kernels
