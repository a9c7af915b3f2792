#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reprise/kernels/cuda/gemm_library.h"
#include "reprise/kernels/cuda/product_choices.h"
#include "reprise/kernels/tunable_products.h"

namespace reprise::kernels::cuda {

class CudaExecutor;

/// Chooses the kernels of an executor's matrix products by measurement.
///
/// A candidate is timed as it will run: the whole op, with its norm and what follows the product,
/// in a graph with the same product of up to 16 layers, one after the other. Each has its own
/// weight, and a fill evicts the second-level cache before each graph, so the weights come from
/// memory, as in a step. Candidates take turns; the median of their times counts.
class ProductTuner final : public TunableProducts {
 public:
  /// The executor owns this object.
  explicit ProductTuner(CudaExecutor& executor) noexcept : executor_(&executor) {}

  [[nodiscard]] std::string identity() const override;
  std::vector<std::string> use(const ProductTable& table) override;
  void watch() override;
  void measure(ProductTable& table) override;

 private:
  [[nodiscard]] std::vector<ProductChoice> candidates(const NotedProduct& product) const;
  /// Why the executor cannot or may not follow this choice; empty: it can.
  [[nodiscard]] std::string why_not(const ProductShape& shape,
                                    int64_t rows,
                                    const ProductChoice& choice) const;
  [[nodiscard]] bool library_accepts(const ProductShape& shape,
                                     int64_t rows,
                                     const ProductChoice& choice) const;

  CudaExecutor* executor_;
};

}  // namespace reprise::kernels::cuda
