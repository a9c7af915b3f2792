#pragma once

#include <vector>

#include "reprise/device/device.h"
#include "reprise/kernels/cuda/sampling_arguments.h"
#include "reprise/kernels/row_sampler.h"

namespace reprise::kernels::cuda {

/// The sampler of one engine on a GPU. The constructor allocates all memory.
class CudaRowSampler final : public RowSampler {
 public:
  /// With more tokens, the sum of the largest weights could overflow (sampling_kernels.cuh).
  static constexpr int64_t kLargestVocabulary = int64_t{1} << 19;

  /// Borrows the stream. \pre vocab_size <= kLargestVocabulary \throws DeviceError, OutOfMemory
  CudaRowSampler(device::Stream& stream,
                 int32_t max_rows,
                 int64_t vocab_size,
                 int num_multiprocessors);

  [[nodiscard]] int32_t max_rows() const noexcept override { return max_rows_; }
  [[nodiscard]] int32_t max_adjustments() const noexcept override;
  void launch(const Tensor& logits,
              std::span<const SamplingRow> rows,
              std::span<const LogitAdjustment> adjustments) override;
  [[nodiscard]] std::span<const int32_t> wait() override;

 private:
  /// The places in workspace_, in bytes.
  struct Workspace {
    size_t states = 0;
    size_t parts = 0;
    size_t histograms = 0;
    size_t candidates = 0;
    size_t bytes = 0;
  };
  [[nodiscard]] static Workspace make_workspace(size_t max_rows);
  void stage(std::span<const SamplingRow> rows, std::span<const LogitAdjustment> adjustments);
  [[nodiscard]] CudaSamplingArguments arguments(const Tensor& logits, size_t num_rows) const;

  device::Stream* stream_;  // the constructor's
  int32_t max_rows_;
  int64_t vocab_size_;
  int num_multiprocessors_;
  Workspace places_;
  device::Buffer input_;  // the rows, then the adjustments
  device::Buffer tokens_;
  device::Buffer workspace_;       // of the kernels; every launch leaves it ready for the next one
  std::vector<std::byte> staged_;  // the next content of input_
  std::vector<int32_t> host_tokens_;
};

}  // namespace reprise::kernels::cuda
