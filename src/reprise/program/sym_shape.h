#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "reprise/tensor/dtype.h"
#include "reprise/tensor/shape.h"
#include "reprise/tensor/tensor.h"

namespace reprise::program {

/// The sizes of a program that are not known before a run. Its text calls them T, R, L and B.
enum class Symbol : uint8_t {
  none,
  num_tokens,  // T: tokens of the step, padding included
  num_reqs,    // R: requests of the step, padding included
  num_logits,  // L: positions whose logits are computed
  num_blocks,  // B: blocks of the KV cache. Their number depends on the machine's memory
};
inline constexpr std::array kSymbols = {
    Symbol::num_tokens, Symbol::num_reqs, Symbol::num_logits, Symbol::num_blocks};

/// "T", "R", "L", "B"; empty for none.
[[nodiscard]] std::string_view symbol_name(Symbol symbol) noexcept;
[[nodiscard]] std::optional<Symbol> parse_symbol(std::string_view text) noexcept;

/// The values of the symbols in one run.
struct SymbolValues {
  int64_t num_tokens = 0;
  int64_t num_reqs = 0;
  int64_t num_logits = 0;
  int64_t num_blocks = 0;

  [[nodiscard]] int64_t operator[](Symbol symbol) const noexcept;
  [[nodiscard]] int64_t& operator[](Symbol symbol);
  /// "T=7, R=3, L=2, B=5"
  [[nodiscard]] std::string to_string() const;

  friend bool operator==(const SymbolValues&, const SymbolValues&) = default;
};

/// constant + coefficient * symbol, such as 2*T+3. A plain number has no symbol.
class SymInt {
 public:
  constexpr SymInt() = default;
  constexpr SymInt(int64_t constant) : constant_(constant) {}  // NOLINT: a number is a SymInt
  constexpr SymInt(Symbol symbol, int64_t coefficient = 1, int64_t constant = 0)
      : constant_(constant),
        coefficient_(symbol == Symbol::none ? 0 : coefficient),
        symbol_(coefficient == 0 ? Symbol::none : symbol) {}

  [[nodiscard]] constexpr int64_t constant() const noexcept { return constant_; }
  [[nodiscard]] constexpr int64_t coefficient() const noexcept { return coefficient_; }
  [[nodiscard]] constexpr Symbol symbol() const noexcept { return symbol_; }
  [[nodiscard]] constexpr bool is_constant() const noexcept { return symbol_ == Symbol::none; }
  [[nodiscard]] int64_t evaluate(const SymbolValues& values) const noexcept {
    return constant_ + coefficient_ * values[symbol_];
  }
  /// "64", "T", "R+1", "2*T-3"
  [[nodiscard]] std::string to_string() const;

  friend bool operator==(const SymInt&, const SymInt&) = default;

 private:
  int64_t constant_ = 0;
  int64_t coefficient_ = 0;
  Symbol symbol_ = Symbol::none;
};

/// The size of one dimension in one traced run, and the values of the symbols in that run.
struct SizeSample {
  int64_t size = 0;
  SymbolValues values;
};
/// Finds the SymInt that explains all samples: a number if all sizes are equal, otherwise an affine
/// function of the first symbol that fits. Nothing if no symbol fits. Sizes 7 and 1031 for T = 7
/// and T = 1031 give T.
[[nodiscard]] std::optional<SymInt> fit(std::span<const SizeSample> samples);

/// Up to four sizes, outermost first.
class SymShape {
 public:
  SymShape() = default;
  SymShape(std::initializer_list<SymInt> sizes);

  /// \pre rank() < Shape::kMaxRank
  void push_back(SymInt size);
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] const SymInt& operator[](int dim) const {
    return sizes_.at(static_cast<size_t>(dim));
  }
  [[nodiscard]] std::span<const SymInt> sizes() const noexcept {
    return {sizes_.data(), static_cast<size_t>(rank_)};
  }
  [[nodiscard]] Shape evaluate(const SymbolValues& values) const;
  /// "[T, 64]"
  [[nodiscard]] std::string to_string() const;

  friend bool operator==(const SymShape&, const SymShape&) = default;

 private:
  std::array<SymInt, Shape::kMaxRank> sizes_{};
  int rank_ = 0;
};

/// The element type and shape of a value of a program; for weights, also the layout.
struct ValueType {
  DType dtype = DType::f32;
  SymShape shape;
  WeightLayout layout = {};

  [[nodiscard]] TensorType evaluate(const SymbolValues& values) const {
    return {dtype, shape.evaluate(values), layout};
  }
  /// "bf16[T, 64]", "bf16_panels[128, 64]"
  [[nodiscard]] std::string to_string() const;

  friend bool operator==(const ValueType&, const ValueType&) = default;
};

/// The same type as a ValueType in which no size has a symbol.
[[nodiscard]] ValueType constant_type(const TensorType& type);

/// "bf16": the name of an element type in a program's text.
[[nodiscard]] std::string_view short_name(DType dtype) noexcept;
[[nodiscard]] std::optional<DType> parse_short_name(std::string_view text) noexcept;

}  // namespace reprise::program
