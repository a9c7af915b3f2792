#pragma once

#include "reprise/kernels/cuda/block.cuh"
#include "reprise/kernels/cuda/linear_arguments.h"
#include "reprise/kernels/cuda/rope_kernels.cuh"
#include "reprise/kernels/cuda/row_kernels.cuh"

namespace reprise::kernels::cuda {

enum class Epilogue : int { none, silu_and_mul, rope_kv_write };

/// What is added to the sums of a result that is neither rotated nor cached.
struct ResultInputs {
  float bias[2] = {};
  float residual = 0;
};

/// The place of a result of a matrix product, and its inputs besides the sums: the bias, a
/// residual, an angle. load() and store() are separate, so that these inputs are loaded together
/// with the weights.
///
/// With silu_and_mul a result has two sums, of the gate and of up. With rope_kv_write it is a pair
/// that is rotated: a column and the column half a head later. Its place is in q, in the cache, or
/// nowhere if the token has no slot. Sums are rounded the same as if the product were stored.
template <typename T, typename Out, Epilogue kEpilogue>
class ProductResult {
 public:
  static constexpr int kSums = kEpilogue == Epilogue::none ? 1 : 2;

  REPRISE_DEVICE void load(const CudaLinearArguments& arguments, int64_t row, int64_t column) {
    const LinearArguments& a = arguments.product;
    inputs_ = load_inputs(arguments, row, column);
    if constexpr (kEpilogue == Epilogue::rope_kv_write) {
      load_rotation(arguments.to, row, column);
    } else {
      out_ = static_cast<Out*>(a.out) + row * a.columns + column;
    }
  }
  [[nodiscard]] static REPRISE_DEVICE ResultInputs load_inputs(const CudaLinearArguments& arguments,
                                                               int64_t row,
                                                               int64_t column) {
    const LinearArguments& a = arguments.product;
    ResultInputs inputs;
    if (a.bias != nullptr) {
      const T* bias = static_cast<const T*>(a.bias) + column;
      inputs.bias[0] = as_float(*bias);
      if constexpr (kSums == 2) inputs.bias[1] = as_float(bias[second(arguments)]);
    }
    if (kEpilogue == Epilogue::none && a.residual != nullptr) {
      const T* residual = static_cast<const T*>(a.residual);
      inputs.residual = as_float(residual[row * a.residual_stride + column]);
    }
    return inputs;
  }
  /// Instead of load(), if the inputs were loaded before. \pre no rotation
  REPRISE_DEVICE void place(const CudaLinearArguments& arguments,
                            int64_t row,
                            int64_t column,
                            const ResultInputs& inputs) {
    inputs_ = inputs;
    out_ = static_cast<Out*>(arguments.product.out) + row * arguments.product.columns + column;
  }

  REPRISE_DEVICE void store(const CudaLinearArguments& arguments,
                            const float (&sums)[kSums]) const {
    const bool has_bias = arguments.product.bias != nullptr;
    const float value = has_bias ? sums[0] + inputs_.bias[0] : sums[0];
    if constexpr (kEpilogue == Epilogue::none) {
      put(out_,
          arguments.product.residual == nullptr ? value : inputs_.residual + rounded<T>(value));
    } else {
      const float first = rounded<T>(value);
      const float other = rounded<T>(has_bias ? sums[1] + inputs_.bias[1] : sums[1]);
      if constexpr (kEpilogue == Epilogue::silu_and_mul) {
        put(out_, silu(first) * other);
      } else {
        store_rotated(first, other, second(arguments));
      }
    }
  }

 private:
  /// Columns from the first sum's to the second's.
  static REPRISE_DEVICE int64_t second(const CudaLinearArguments& arguments) {
    return kEpilogue == Epilogue::silu_and_mul ? arguments.product.columns
                                               : arguments.to.head_dim / 2;
  }
  REPRISE_DEVICE void load_rotation(const RopeAndCache& to, int64_t row, int64_t column) {
    const int64_t i = column % to.head_dim;
    const HeadPlace<T> place = head_place<T>(to, row, column / to.head_dim);
    out_ = place.out == nullptr ? nullptr : place.out + i;
    is_value_ = place.side == HeadSide::v;
    const float* table = rope_row(to.cos_sin, to.positions[row], to.max_position, to.table_stride);
    cosine_ = table[i];
    sine_ = table[to.head_dim / 2 + i];
  }
  REPRISE_DEVICE void store_rotated(float first, float other, int64_t half) const {
    if (out_ == nullptr) return;
    if (is_value_) {
      put(out_, first);
      put(out_ + half, other);
    } else {
      rotate_pair(first, other, cosine_, sine_, out_, out_ + half);
    }
  }

  Out* out_ = nullptr;
  ResultInputs inputs_;
  float cosine_ = 0;
  float sine_ = 0;
  bool is_value_ = false;
};

/// Loads and stores a result whose sums are known.
template <typename T, typename Out, Epilogue kEpilogue, typename Sums>
REPRISE_DEVICE void store_product(const CudaLinearArguments& a,
                                  int64_t row,
                                  int64_t column,
                                  const Sums& sums) {
  ProductResult<T, Out, kEpilogue> result;
  result.load(a, row, column);
  result.store(a, sums);
}

}  // namespace reprise::kernels::cuda
