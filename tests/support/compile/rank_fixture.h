#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "reprise/device/device.h"
#include "reprise/tensor/op.h"

/// For tests of collectives only.
namespace reprise::compile {

/// Runs several ranks in lock step: each op runs for one rank after the other, and collectives
/// really exchange and sum, in the order of ranks. A tensor refers to the memory of rank 0. The
/// tensors of the other ranks follow at fixed distances, with their own content. Only float32 and
/// integers.
class RankedExecutor final : public OpExecutor {
 public:
  /// `inner` runs ops on `stream`; this executor waits for the stream. Both are borrowed.
  RankedExecutor(int64_t ranks, OpExecutor& inner, device::Stream& stream, size_t bytes_per_rank);

  void execute(const OpCall& call,
               std::span<const Tensor> inputs,
               std::span<Tensor> outputs) override;

  /// Makes a tensor of zeros on each rank.
  [[nodiscard]] Tensor make(const TensorType& type);
  /// Returns the tensor of one rank.
  [[nodiscard]] Tensor of_rank(const Tensor& tensor, int64_t rank);
  [[nodiscard]] int64_t ranks() const noexcept { return ranks_; }

 private:
  void exchange(const OpCall& call, const Tensor& x, const Tensor& result);

  int64_t ranks_;
  OpExecutor* inner_;       // owned by the caller
  device::Stream* stream_;  // owned by the caller
  size_t bytes_per_rank_;
  size_t used_bytes_ = 0;
  std::vector<std::byte> memory_;
};

}  // namespace reprise::compile
