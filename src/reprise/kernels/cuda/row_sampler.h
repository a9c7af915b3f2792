#pragma once

#include <array>
#include <limits>
#include <memory>
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

  /// Borrows the stream. `most_counted`: as many requests may have count slots; fewer have one if
  /// there are fewer rows or too little room. \pre vocab_size <= kLargestVocabulary \throws
  /// DeviceError, OutOfMemory
  CudaRowSampler(device::Stream& stream,
                 int32_t max_rows,
                 int64_t vocab_size,
                 int num_multiprocessors,
                 int32_t most_counted = std::numeric_limits<int32_t>::max());

  [[nodiscard]] int32_t max_rows() const noexcept override { return max_rows_; }
  [[nodiscard]] int32_t max_adjustments() const noexcept override;
  void launch(const Tensor& logits,
              std::span<const SamplingRow> rows,
              std::span<const LogitAdjustment> adjustments) override;
  [[nodiscard]] int32_t num_count_slots() const noexcept override { return num_count_slots_; }
  void count_tokens(int32_t slot,
                    std::span<const int32_t> prompt,
                    std::span<const int32_t> output) override;
  void write_tokens(const Tensor& ids, std::span<const TokenPlace> places) override;
  [[nodiscard]] std::span<const int32_t> wait() override;
  [[nodiscard]] std::span<const RowLogprobs> logprobs() const noexcept override {
    return host_logprobs_;
  }

 private:
  /// The places in workspace_, in bytes.
  struct Workspace {
    size_t states = 0;
    size_t parts = 0;
    size_t segments = 0;
    size_t histograms = 0;
    size_t candidates = 0;
    size_t counts = 0;
    size_t counted_tokens = 0;
    size_t bytes = 0;
  };
  [[nodiscard]] Workspace make_workspace() const;
  void add_to_counts(uint32_t* counts, std::span<const int32_t> tokens, bool are_output);
  void stage(std::span<const SamplingRow> rows, std::span<const LogitAdjustment> adjustments);
  [[nodiscard]] CudaSamplingArguments arguments(const Tensor& logits, size_t num_rows) const;

  /// The tokens of a launch that the host may not have yet.
  struct Result {
    int32_t* tokens = nullptr;        // on the device
    RowLogprobs* logprobs = nullptr;  // on the device
    bool has_logprobs = false;
    std::unique_ptr<device::Event> ready;  // recorded behind the launch
    size_t num_rows = 0;
  };
  [[nodiscard]] Result& result(uint64_t launch) noexcept {
    return results_[launch % results_.size()];
  }

  device::Stream* stream_;  // the constructor's
  int32_t max_rows_;
  int64_t vocab_size_;
  int num_multiprocessors_;
  int64_t count_stride_;
  int32_t num_count_slots_;
  Workspace places_;
  device::Buffer input_;     // the rows, then the adjustments
  device::Buffer tokens_;    // of kMostLaunches launches
  device::Buffer logprobs_;  // of kMostLaunches launches
  device::Buffer token_places_;
  device::Buffer workspace_;       // of the kernels; every launch leaves it ready for the next one
  std::vector<std::byte> staged_;  // the next content of input_
  std::vector<int32_t> host_tokens_;
  std::vector<RowLogprobs> host_logprobs_;
  std::array<Result, kMostLaunches> results_;  // a ring
  uint64_t num_launches_ = 0;
  uint64_t num_waits_ = 0;
  /// Copies tokens to the host while stream_ already works on the next step.
  std::unique_ptr<device::Stream> copies_;
};

}  // namespace reprise::kernels::cuda
