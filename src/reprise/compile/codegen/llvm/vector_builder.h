#pragma once

#include <llvm/IR/IRBuilder.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "reprise/kernels/isa.h"
#include "reprise/tensor/dtype.h"

namespace reprise::compile {

/// The order of elements in a pair of vectors. even_odd: the first vector has the elements with
/// even index, the second those with odd index; then a conversion from or to bfloat16 is a shift
/// and a mask. The order changes only the lane of an element, not its value.
enum class Layout : uint8_t { natural, even_odd };

/// Neighbouring elements of a row, from index + offset on. A span covers two vectors, one vector,
/// or the first elements of one vector.
struct Span {
  llvm::Value* index = nullptr;  // variable of the loop; nullptr outside of loops
  int64_t offset = 0;
  int elements = 0;
  Layout layout = Layout::natural;  // even_odd is allowed only for two vectors

  [[nodiscard]] Span shifted(int64_t by) const {
    Span span = *this;
    span.offset += by;
    return span;
  }
};

/// The floats of a span. After round() they have the values that they would have after a store and
/// a load.
struct Tile {
  std::array<llvm::Value*, 2> vectors{};
  int count = 0;
};

/// Generates with LLVM instructions the operations for which kernels/vector/<isa>.inl uses
/// intrinsics. Every rounding is the same, so generated code computes the same bits as the
/// precompiled kernels.
class VectorBuilder {
 public:
  /// `rounds_to_bfloat16`: whether round() to bfloat16 will be called.
  VectorBuilder(llvm::IRBuilder<>& ir, kernels::Isa isa, bool rounds_to_bfloat16);

  [[nodiscard]] int lanes() const noexcept { return lanes_; }
  [[nodiscard]] llvm::FixedVectorType* float_vector() const noexcept { return floats_; }
  [[nodiscard]] llvm::Type* element_type(DType dtype) const;

  [[nodiscard]] Tile load(llvm::Value* pointer, DType dtype, const Span& span);
  /// \pre the tile is rounded to `dtype`
  void store(llvm::Value* pointer, DType dtype, const Tile& tile, const Span& span);
  [[nodiscard]] Tile round(const Tile& tile, DType dtype);

  /// Applies `function` to the vectors of one, two or three tiles.
  template <typename Function, typename... Tiles>
  [[nodiscard]] Tile map(Function function, const Tile& first, const Tiles&... rest) {
    Tile result{.count = first.count};
    for (size_t i = 0; i < static_cast<size_t>(first.count); ++i) {
      result.vectors[i] = function(first.vectors[i], rest.vectors[i]...);
    }
    return result;
  }

  [[nodiscard]] llvm::Value* broadcast(float value) const;
  [[nodiscard]] llvm::Value* fma(llvm::Value* a, llvm::Value* b, llvm::Value* c);
  [[nodiscard]] llvm::Value* exp(llvm::Value* x);
  [[nodiscard]] llvm::Value* silu(llvm::Value* x);
  /// The sum of all lanes as a scalar, added in the same order as sum() of the kernels.
  [[nodiscard]] llvm::Value* sum(llvm::Value* vector);
  /// Reorders a pair of vectors from `layout` to the natural order.
  [[nodiscard]] std::array<llvm::Value*, 2> to_natural(const std::array<llvm::Value*, 2>& vectors,
                                                       Layout layout);

 private:
  [[nodiscard]] llvm::Value* ints(uint32_t value) const;
  [[nodiscard]] llvm::Value* as_ints(llvm::Value* floats);
  [[nodiscard]] llvm::Value* as_floats(llvm::Value* ints);
  [[nodiscard]] llvm::Value* constant_mask(int elements) const;

  [[nodiscard]] llvm::Value* load_vector(llvm::Value* pointer, DType dtype, int elements);
  void store_vector(llvm::Value* pointer, DType dtype, llvm::Value* vector, int elements);
  [[nodiscard]] llvm::Value* widen(llvm::Value* elements, DType dtype);
  [[nodiscard]] llvm::Value* narrow(llvm::Value* vector, DType dtype);
  [[nodiscard]] llvm::Value* widen_half_in_integers(llvm::Value* bits);
  [[nodiscard]] llvm::Value* narrow_half_in_integers(llvm::Value* vector);
  [[nodiscard]] llvm::Value* round_bfloat16(llvm::Value* vector);
  [[nodiscard]] llvm::Value* shorten_nans(llvm::Value* vector);
  [[nodiscard]] std::array<llvm::Value*, 2> to_even_odd(const std::array<llvm::Value*, 2>& vectors);
  [[nodiscard]] llvm::Value* round_to_integer(llvm::Value* x);
  [[nodiscard]] llvm::Value* scale_by_power_of_two(llvm::Value* x, llvm::Value* n);

  llvm::IRBuilder<>& ir_;
  kernels::Isa isa_;
  bool rounds_to_bfloat16_;
  int lanes_;
  llvm::FixedVectorType* floats_;
  llvm::FixedVectorType* ints_;
  llvm::FixedVectorType* shorts_;
};

}  // namespace reprise::compile
