#pragma once

#include <vector>

#include "reprise/device/device.h"
#include "reprise/kernels/row_sampler.h"

namespace reprise::kernels::cuda {

/// The sampler of one engine on a GPU. The constructor allocates all memory.
class CudaRowSampler final : public RowSampler {
 public:
  /// With more tokens, the sum of the largest weights could overflow (sampling_kernels.cuh).
  static constexpr int64_t kLargestVocabulary = int64_t{1} << 19;

  /// Borrows the stream. \pre vocab_size <= kLargestVocabulary \throws DeviceError, OutOfMemory
  CudaRowSampler(device::Stream& stream, int32_t max_rows, int64_t vocab_size);

  [[nodiscard]] int32_t max_rows() const noexcept override { return max_rows_; }
  [[nodiscard]] int32_t max_adjustments() const noexcept override;
  void launch(const Tensor& logits,
              std::span<const SamplingRow> rows,
              std::span<const LogitAdjustment> adjustments) override;
  [[nodiscard]] std::span<const int32_t> wait() override;

 private:
  device::Stream* stream_;  // the constructor's
  int32_t max_rows_;
  device::Buffer input_;  // the rows, then the adjustments
  device::Buffer tokens_;
  std::vector<std::byte> staged_;  // the next content of input_
  std::vector<int32_t> host_tokens_;
};

}  // namespace reprise::kernels::cuda
