#pragma once

#include <memory>
#include <span>
#include <vector>

#include "reprise/device/cuda/cuda_timer.h"
#include "reprise/device/device.h"
#include "reprise/kernels/cuda/product_choices.h"
#include "reprise/kernels/product_table.h"

namespace reprise::kernels::cuda {

class CudaExecutor;

/// Times candidates of products, for ProductTuner. Owns the memory whose fill evicts the
/// second-level cache, so it should live only while products are measured.
class ProductTrials {
 public:
  /// \throws DeviceError, OutOfMemory
  explicit ProductTrials(CudaExecutor& executor);

  /// Times the candidates and chooses one. The first candidate is the built-in rule; it stays
  /// unless another one saves TunableProducts::kLeastGain of its time. Candidates that fail are
  /// left out. \pre candidates are not empty \throws DeviceError if the rule itself fails
  [[nodiscard]] MeasuredRows choose(const NotedProduct& product,
                                    std::span<const ProductChoice> candidates);

 private:
  /// A candidate, recorded, with its times in microseconds for each call of the product.
  struct Trial {
    ProductChoice choice;
    std::unique_ptr<device::GraphExec> graph;
    std::vector<double> times;
  };

  void run(const NotedProduct& product, const ProductChoice& choice, size_t num_calls);
  [[nodiscard]] Trial record(const NotedProduct& product,
                             const ProductChoice& choice,
                             size_t num_calls);
  void time(Trial& trial, size_t num_calls);
  [[nodiscard]] size_t calls_of_chain(const NotedProduct& product, const ProductChoice& rule);

  CudaExecutor* executor_;
  device::cuda::CudaStream* stream_;  // the executor's
  device::cuda::CudaTimer timer_;
  device::Buffer evicting_;  // larger than the second-level cache
};

}  // namespace reprise::kernels::cuda
