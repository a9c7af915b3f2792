#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "reprise/kernels/cuda/linear_launch.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/product_table.h"
#include "reprise/tensor/op.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels::cuda {

[[nodiscard]] constexpr bool is_streamed(const ProductChoice* choice) noexcept {
  return choice != nullptr && choice->kernel == ProductChoice::Kernel::streamed;
}
/// Whether one launch of the project's kernels computes the product with what surrounds it.
[[nodiscard]] constexpr bool is_own(const ProductChoice* choice) noexcept {
  return is_streamed(choice) || (choice != nullptr && choice->kernel == ProductChoice::Kernel::own);
}
[[nodiscard]] constexpr bool is_librarys(const ProductChoice* choice) noexcept {
  return choice != nullptr && choice->kernel == ProductChoice::Kernel::library;
}
/// Of an own kernel; otherwise as the rule says.
[[nodiscard]] constexpr TileChoice tiles_of(const ProductChoice* choice) noexcept {
  if (!is_own(choice)) return {};
  return {.columns = choice->tile_columns, .is_streamed = is_streamed(choice)};
}
/// \pre is_librarys(&choice)
[[nodiscard]] cublasLtMatmulAlgo_t algorithm_of(const ProductChoice& choice) noexcept;
[[nodiscard]] ProductChoice librarys_choice(const cublasLtMatmulAlgo_t& algorithm) noexcept;

/// The calls of one product with one number of rows in a step: one for each layer. They share
/// activations and results, which are those of the first call, and have their own weights.
struct NotedProduct {
  ProductShape shape;
  int64_t rows = 0;
  OpCall call{};
  std::vector<std::vector<Tensor>> in;  // by call: the operands
  std::vector<Tensor> out;              // of the first call
};

/// Which kernel each matrix product of an executor takes, where a table says more than the rules.
/// Belongs to the executor, and to its thread.
class ProductChoices {
 public:
  /// The choice for a product; nullptr: the rule. While the products are watched,
  /// the call is noted.
  [[nodiscard]] const ProductChoice* of(const OpRun& run, bool has_norm);

  void set_table(ProductTable table) { table_ = std::move(table); }
  [[nodiscard]] const ProductTable& table() const noexcept { return table_; }

  /// From now on, calls are noted.
  void watch();
  /// Stops watching. \returns what was noted, in the order of the first calls
  [[nodiscard]] std::vector<NotedProduct> take_noted();

 private:
  friend class ForcedChoice;
  void note(const OpRun& run, const ProductShape& shape);

  ProductTable table_;
  const ProductChoice* forced_ = nullptr;  // see ForcedChoice
  std::optional<std::vector<NotedProduct>> noted_;
};

/// While this object exists, every product takes this choice, which must outlive the object.
class ForcedChoice {
 public:
  ForcedChoice(ProductChoices& choices, const ProductChoice& choice) noexcept
      : choices_(&choices), previous_(choices.forced_) {
    choices.forced_ = &choice;
  }
  ForcedChoice(const ForcedChoice&) = delete;
  ForcedChoice& operator=(const ForcedChoice&) = delete;
  ~ForcedChoice() { choices_->forced_ = previous_; }

 private:
  ProductChoices* choices_;
  const ProductChoice* previous_;
};

}  // namespace reprise::kernels::cuda
