#include "reprise/program/sym_shape.h"

#include <fmt/format.h>

#include <algorithm>

#include "reprise/base/assert.h"

namespace reprise::program {
namespace {

constexpr std::array kDTypes = {DType::f32,
                                DType::bf16,
                                DType::f16,
                                DType::f8e4m3,
                                DType::f8e5m2,
                                DType::i8,
                                DType::u8,
                                DType::i32,
                                DType::i64};

std::optional<SymInt> fit_symbol(std::span<const SizeSample> samples, Symbol symbol) {
  const SizeSample& first = samples.front();
  for (const SizeSample& other : samples.subspan(1)) {
    const int64_t run = other.values[symbol] - first.values[symbol];
    if (run == 0) continue;
    const int64_t rise = other.size - first.size;
    if (rise % run != 0) return std::nullopt;
    const SymInt line(symbol, rise / run, first.size - rise / run * first.values[symbol]);
    const bool explains =
        std::all_of(samples.begin(), samples.end(), [&](const SizeSample& sample) {
          return line.evaluate(sample.values) == sample.size;
        });
    return explains ? std::optional(line) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

std::string_view symbol_name(Symbol symbol) noexcept {
  switch (symbol) {
    case Symbol::none:
      return "";
    case Symbol::num_tokens:
      return "T";
    case Symbol::num_reqs:
      return "R";
    case Symbol::num_logits:
      return "L";
    case Symbol::num_blocks:
      return "B";
  }
  return "";
}

std::optional<Symbol> parse_symbol(std::string_view text) noexcept {
  for (Symbol symbol : kSymbols) {
    if (text == symbol_name(symbol)) return symbol;
  }
  return std::nullopt;
}

int64_t SymbolValues::operator[](Symbol symbol) const noexcept {
  switch (symbol) {
    case Symbol::none:
      return 0;
    case Symbol::num_tokens:
      return num_tokens;
    case Symbol::num_reqs:
      return num_reqs;
    case Symbol::num_logits:
      return num_logits;
    case Symbol::num_blocks:
      return num_blocks;
  }
  return 0;
}

int64_t& SymbolValues::operator[](Symbol symbol) {
  REPRISE_ASSERT(symbol != Symbol::none, "a number has no symbol to set");
  switch (symbol) {
    case Symbol::num_reqs:
      return num_reqs;
    case Symbol::num_logits:
      return num_logits;
    case Symbol::num_blocks:
      return num_blocks;
    default:
      return num_tokens;
  }
}

std::string SymbolValues::to_string() const {
  return fmt::format("T={}, R={}, L={}, B={}", num_tokens, num_reqs, num_logits, num_blocks);
}

std::string SymInt::to_string() const {
  if (is_constant()) return fmt::format("{}", constant_);
  std::string text;
  if (coefficient_ != 1) text = fmt::format("{}*", coefficient_);
  text += symbol_name(symbol_);
  if (constant_ != 0) text += fmt::format("{:+}", constant_);
  return text;
}

std::optional<SymInt> fit(std::span<const SizeSample> samples) {
  if (samples.empty()) return std::nullopt;
  const bool agree = std::all_of(samples.begin(), samples.end(), [&](const SizeSample& sample) {
    return sample.size == samples.front().size;
  });
  if (agree) return SymInt(samples.front().size);
  for (Symbol symbol : kSymbols) {
    if (const std::optional<SymInt> line = fit_symbol(samples, symbol)) return line;
  }
  return std::nullopt;
}

SymShape::SymShape(std::initializer_list<SymInt> sizes) {
  for (const SymInt& size : sizes) push_back(size);
}

void SymShape::push_back(SymInt size) {
  REPRISE_ASSERT(rank_ < Shape::kMaxRank, "rank is more than {}", Shape::kMaxRank);
  sizes_[static_cast<size_t>(rank_++)] = size;
}

Shape SymShape::evaluate(const SymbolValues& values) const {
  std::array<int64_t, Shape::kMaxRank> numbers{};
  for (size_t i = 0; i < sizes().size(); ++i) numbers[i] = sizes_[i].evaluate(values);
  return Shape(std::span<const int64_t>(numbers.data(), sizes().size()));
}

std::string SymShape::to_string() const {
  std::string text = "[";
  for (const SymInt& size : sizes()) {
    if (text.size() > 1) text += ", ";
    text += size.to_string();
  }
  return text + "]";
}

std::string ValueType::to_string() const {
  return fmt::format("{}{}{}{}",
                     short_name(dtype),
                     layout.is_rows() ? "" : "_",
                     layout.to_string(),
                     shape.to_string());
}

ValueType constant_type(const TensorType& type) {
  ValueType constant{.dtype = type.dtype, .shape = {}, .layout = type.layout};
  for (int64_t size : type.shape.sizes()) constant.shape.push_back(size);
  return constant;
}

std::string_view short_name(DType dtype) noexcept {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "f16";
    case DType::f8e4m3:
      return "f8e4m3";
    case DType::f8e5m2:
      return "f8e5m2";
    case DType::i8:
      return "i8";
    case DType::u8:
      return "u8";
    case DType::i32:
      return "i32";
    case DType::i64:
      return "i64";
  }
  return "?";
}

std::optional<DType> parse_short_name(std::string_view text) noexcept {
  for (DType dtype : kDTypes) {
    if (text == short_name(dtype)) return dtype;
  }
  return std::nullopt;
}

}  // namespace reprise::program
