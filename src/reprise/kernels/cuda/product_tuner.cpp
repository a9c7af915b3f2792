#include "reprise/kernels/cuda/product_tuner.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "reprise/kernels/cuda/cuda_executor.h"
#include "reprise/kernels/cuda/cuda_kernels.h"
#include "reprise/kernels/cuda/linear_launch.h"
#include "reprise/kernels/cuda/packed_launch.h"
#include "reprise/kernels/cuda/product_sources.h"
#include "reprise/kernels/cuda/product_trials.h"

namespace reprise::kernels::cuda {
namespace {

// With more rows the project's own kernels read the weight three times or more often, so the
// library's are always faster.
constexpr int64_t kMostRowsOfOwnKernels = 64;

LinearKernels own_kernels(OpCode op, DType type) {
  switch (op) {
    case OpCode::linear_silu_and_mul:
      return linear_silu_and_mul_kernels(type);
    case OpCode::linear_rope_kv_write:
      return linear_rope_kv_write_kernels(type);
    case OpCode::lm_head:
      return lm_head_kernels(type);
    default:
      return linear_kernels(type);
  }
}

/// The product that the library computes: without the norm before it and what follows it.
GemmLibrary::Shape library_shape(const ProductShape& shape) {
  const bool is_whole_op = shape.op == OpCode::linear || shape.op == OpCode::lm_head;
  return {shape.columns,
          shape.depth,
          shape.has_norm ? shape.depth : shape.x_stride,  // normed rows lie one after the other
          shape.columns,
          shape.type,
          is_whole_op ? shape.out_type : shape.type,
          shape.has_bias,
          GemmLibrary::ScaleMode::none};
}

double rounded(double microseconds) { return std::max(std::round(1e3 * microseconds), 1.0) / 1e3; }

}  // namespace

std::string ProductTuner::identity() const {
  GemmLibrary* library = executor_->library();
  const bool is_invariant = executor_->options().invariance == BatchInvariance::required;
  return fmt::format(
      "{}; {}; {}; kernels {}",
      executor_->stream().device().description(),
      library == nullptr ? "no library" : fmt::format("cuBLASLt {}", library->version()),
      is_invariant ? "batch invariant" : "any sums",
      kProductSourcesHash);
}

std::vector<std::string> ProductTuner::use(const ProductTable& table) {
  ProductTable usable;
  std::vector<std::string> left_out;
  for (const auto& [shape, measured_rows] : table.products()) {
    for (const auto& [rows, measured] : measured_rows) {
      const std::string why = why_not(shape, rows, measured.choice);
      if (why.empty()) {
        usable.set(shape, rows, measured);
      } else {
        left_out.push_back(fmt::format(
            "{}, {} rows: {}: {}", describe(shape), rows, describe(measured.choice), why));
      }
    }
  }
  executor_->choices().set_table(std::move(usable));
  return left_out;
}

std::string ProductTuner::why_not(const ProductShape& shape,
                                  int64_t rows,
                                  const ProductChoice& choice) const {
  if (is_streamed(&choice) && !executor_->has_streamed_kernels()) {
    return "this GPU, or the code for it in this build, has no bulk copies";
  }
  if (!is_librarys(&choice)) return {};
  if (shape.op == OpCode::expert_linear || shape.weight.family != WeightFamily::rows) {
    return "cuBLASLt reads no experts and no packed weights";
  }
  if (executor_->options().invariance == BatchInvariance::required) {
    return "with --batch-invariant no sum may depend on the number of rows";
  }
  if (executor_->library() == nullptr) return "there is no cuBLASLt here";
  return library_accepts(shape, rows, choice) ? "" : "cuBLASLt refuses the algorithm";
}

bool ProductTuner::library_accepts(const ProductShape& shape,
                                   int64_t rows,
                                   const ProductChoice& choice) const {
  GemmLibrary& library = *executor_->library();
  const GemmLibrary::Shape product = library_shape(shape);
  const cublasLtMatmulAlgo_t algorithm = algorithm_of(choice);
  // A power of two also serves the rows that are rounded up to it.
  const bool is_padded_to = std::has_single_bit(static_cast<uint64_t>(rows)) && rows > 1;
  return library.accepts(product, rows, algorithm) &&
         (!is_padded_to || library.accepts(product, rows / 2 + 1, algorithm));
}

void ProductTuner::watch() { executor_->choices().watch(); }

void ProductTuner::measure(ProductTable& table) {
  const std::vector<NotedProduct> noted = executor_->choices().take_noted();
  std::optional<ProductTrials> trials;  // only if there is something to measure
  for (const NotedProduct& product : noted) {
    if (table.has(product.shape, product.rows)) continue;
    if (!trials) trials.emplace(*executor_);
    MeasuredRows measured = trials->choose(product, candidates(product));
    measured.microseconds = rounded(measured.microseconds);
    measured.built_in_microseconds = rounded(measured.built_in_microseconds);
    table.set(product.shape, product.rows, measured);
  }
}

std::vector<ProductChoice> ProductTuner::candidates(const NotedProduct& product) const {
  const Tensor& x = product.in.front()[0];
  const Tensor& weight = product.in.front()[1];
  std::vector<ProductChoice> all = {{.kernel = ProductChoice::Kernel::built_in}};
  const bool is_of_experts = product.shape.op == OpCode::expert_linear;
  if (is_of_experts || !weight.layout().is_rows()) {
    const bool can = is_of_experts ? can_stream_experts(x, weight, product.out[0].size(0))
                                   : can_stream(x, weight);
    if (executor_->has_streamed_kernels() && can) {
      all.push_back({.kernel = ProductChoice::Kernel::streamed});
    }
    return all;
  }
  GemmLibrary* library = executor_->library();
  if (library == nullptr || product.rows <= kMostRowsOfOwnKernels) {
    std::vector<TileChoice> choices = tile_choices(
        own_kernels(product.shape.op, x.dtype()), x, weight, executor_->has_streamed_kernels());
    if (choices.empty()) choices.emplace_back();
    for (const TileChoice& tiles : choices) {
      all.push_back({.kernel = tiles.is_streamed ? ProductChoice::Kernel::streamed
                                                 : ProductChoice::Kernel::own,
                     .tile_columns = tiles.columns});
    }
  }
  if (library == nullptr) return all;
  for (const auto& algorithm : library->candidates(library_shape(product.shape), product.rows)) {
    const ProductChoice choice = librarys_choice(algorithm);
    if (library_accepts(product.shape, product.rows, choice)) all.push_back(choice);
  }
  return all;
}

}  // namespace reprise::kernels::cuda
