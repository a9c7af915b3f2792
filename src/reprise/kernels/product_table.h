#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "reprise/tensor/dtype.h"
#include "reprise/tensor/op.h"
#include "reprise/tensor/weight_layout.h"

namespace reprise::kernels {

/// How a packed weight is stored, as far as the host knows; a weight in rows has the default.
struct PackedForm {
  WeightFamily family = WeightFamily::rows;
  PanelFormat codec = {};
  int32_t row_bytes = 0;

  constexpr PackedForm() = default;
  explicit constexpr PackedForm(const WeightLayout& layout)
      : family(layout.family), codec(layout.codec), row_bytes(layout.row_bytes) {}
  [[nodiscard]] constexpr WeightLayout layout() const {
    return {.family = family, .codec = codec, .row_bytes = row_bytes};
  }

  friend auto operator<=>(const PackedForm&, const PackedForm&) = default;
};

/// A matrix product of a model without its number of rows: what a choice of kernels depends on.
struct ProductShape {
  OpCode op = OpCode::linear;  // the product with what follows it
  bool has_norm = false;       // x is normed first, in the same call
  bool has_bias = false;
  DType type = DType::bf16;      // of the weight and, unless it is quantised, of x
  DType out_type = DType::bf16;  // of the result
  int64_t columns = 0;           // rows of the weight
  int64_t depth = 0;             // elements of a row of the weight
  int64_t x_stride = 0;          // elements between rows of x; bytes, if these are in blocks
  PackedForm weight = {};

  friend auto operator<=>(const ProductShape&, const ProductShape&) = default;
};

/// "linear_add 4096x14336 bfloat16", with the layout of a packed weight, "normed", "bias", the type
/// of the result and the stride of x where they are not the usual ones.
[[nodiscard]] std::string describe(const ProductShape& shape);

/// The kernels of one product. Every choice computes the same product; another order of sums may
/// give other last bits.
struct ProductChoice {
  enum class Kernel : uint8_t {
    built_in,  // the rule of this build
    own,       // the project's kernel, in one launch with what surrounds the product
    library,   // an algorithm of the vendor's library, with launches of their own around it
    streamed,  // like `own`, with weights that arrive by bulk copies; up to eight rows
  };
  Kernel kernel = Kernel::built_in;
  // own: columns of a block's tile; streamed: rows of the weight in a tile; 0: as the rule says.
  // Packed weights have tiles of one size.
  int32_t tile_columns = 0;
  std::array<uint64_t, 8> algorithm{};  // library: opaque, of one version of the library

  friend bool operator==(const ProductChoice&, const ProductChoice&) = default;
};

/// "own, tiles of 8", "streamed, tiles of 8", "library 3f1a", "built-in".
[[nodiscard]] std::string describe(const ProductChoice& choice);

/// The choice for one number of rows, and what was measured.
struct MeasuredRows {
  ProductChoice choice;
  double microseconds = 0;           // of the choice, positive
  double built_in_microseconds = 0;  // of the built-in rule, positive

  friend bool operator==(const MeasuredRows&, const MeasuredRows&) = default;
};

/// Kernels of matrix products that were chosen by measurement: for products with certain numbers of
/// rows. A value; the caller owns and synchronises it.
class ProductTable {
 public:
  /// By the number of rows of x, ascending.
  using Rows = std::map<int64_t, MeasuredRows>;
  using Products = std::map<ProductShape, Rows>;

  /// The choice for this number of rows, or else for the next power of two: launches whose rows
  /// were not measured take the choice of the rows to which they could be padded. nullptr: the
  /// built-in rule. Allocates nothing.
  [[nodiscard]] const ProductChoice* find(const ProductShape& shape, int64_t rows) const;
  /// Whether this number of rows itself was measured.
  [[nodiscard]] bool has(const ProductShape& shape, int64_t rows) const;
  void set(const ProductShape& shape, int64_t rows, const MeasuredRows& measured);
  /// Takes what this table lacks from another one. What both have stays as it is.
  void merge(const ProductTable& other);

  [[nodiscard]] const Products& products() const noexcept { return products_; }
  [[nodiscard]] bool is_empty() const noexcept { return products_.empty(); }
  /// The number of measured (product, rows), and of those that differ from the built-in rule.
  [[nodiscard]] size_t num_measured() const noexcept;
  [[nodiscard]] size_t num_changed() const noexcept;

  friend bool operator==(const ProductTable&, const ProductTable&) = default;

 private:
  Products products_;
};

/// The table as JSON, one product a line. parse_product_table() reads exactly what this wrote.
[[nodiscard]] std::string print(const ProductTable& table);
/// Whatever the text is, the result is a table that print() could have written, or an error.
/// `where` names the document in messages. \throws InvalidArgument that says what is wrong
[[nodiscard]] ProductTable parse_product_table(std::string_view text, std::string_view where);

}  // namespace reprise::kernels
