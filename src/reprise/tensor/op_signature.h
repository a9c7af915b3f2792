#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>

#include "reprise/tensor/op_function.h"

/// The C++ compiler parses the signatures of op_list.inl at compile time, so a signature with a
/// syntax error does not compile.
namespace reprise {

/// A constant of an op call. Signatures and programs use these names.
enum class Attribute : uint8_t {
  function,
  dim,
  begin,
  length,
  heads,  // stored in OpAttributes::length
  epsilon,
  scale,
  k_scale,         // of the cache; left out of the text of a program when 1
  v_scale,         // likewise
  sliding_window,  // left out of the text of a program when 0
  chunk_size,      // left out like sliding_window
  soft_cap,        // left out like sliding_window
  top_k,           // OpAttributes::length under another name; left out when 0
  groups,
  top_groups,
  least,
  limit,
  dtype,
  ranks,
  group,
};
inline constexpr std::array<std::string_view, 20> kAttributeNames = {
    "function",   "dim",     "begin",          "length",     "heads",    "epsilon", "scale",
    "k_scale",    "v_scale", "sliding_window", "chunk_size", "soft_cap", "top_k",   "groups",
    "top_groups", "least",   "limit",          "dtype",      "ranks",    "group"};

/// The names of OpFunction. The first one, of ops without a function, is no function's name.
inline constexpr std::string_view kFunctionNames[] = {"",
#define X(function) #function,
                                                      REPRISE_OP_FUNCTIONS(X)
#undef X
};
/// OpFunction::none if no function has this name.
constexpr OpFunction function_of_name(std::string_view name) {
  size_t function = std::size(kFunctionNames) - 1;
  while (kFunctionNames[function] != name && function > 0) --function;
  return static_cast<OpFunction>(function);
}

/// A size that a signature names by a letter, or one of the attributes `heads`, `length`, `top_k`
/// and `ranks`. The attributes `heads`, `length` and `top_k` are one symbol, because they are one
/// member of OpAttributes.
using SizeSymbol = uint8_t;
inline constexpr SizeSymbol kHeadsSymbol = 26;
inline constexpr SizeSymbol kRanksSymbol = 27;
inline constexpr SizeSymbol kNoSymbol = 28;  // the factor 1
inline constexpr size_t kNumSizeSymbols = 29;

/// One size of a shape: a symbol, or a sum of at most two products. A product is a constant times
/// at most two symbols, as in "heads*D+2*N*D" of linear_rope_kv_write.
struct SizeRule {
  enum class Kind : uint8_t { symbol, sum, at_least, sum_or_one };
  struct Product {
    uint8_t constant = 0;
    std::array<SizeSymbol, 2> symbols = {kNoSymbol, kNoSymbol};

    friend bool operator==(const Product&, const Product&) = default;
  };
  Kind kind = Kind::sum;
  std::array<Product, 2> products = {};

  friend bool operator==(const SizeRule&, const SizeRule&) = default;
};

enum class ElementRule : uint8_t {
  of_model,       // the model's element type: all operands with this rule have the same type
  of_weight,      // the same type, in any layout (weight_layout.h)
  of_activation,  // the same type, or int8 in the form that the layout of the weight requires
  i32,
  f32,
  eight_bits,  // int8 or float8: all operands with this rule have the same type
  of_cache,    // the model's element type, int8 or a float8
  of_dtype_attribute,
};

/// The type of an operand or a result.
struct TypeRule {
  ElementRule element = ElementRule::of_model;
  bool has_leading_sizes = false;  // `...`: any leading sizes, equal in all operands and results
  bool has_sums = false;           // some size is not a single symbol
  uint8_t rank = 0;                // does not count the leading sizes
  std::array<SizeRule, 4> sizes = {};
};

struct OperandRule {
  std::string_view name;
  bool is_state = false;
  bool is_optional = false;
  TypeRule type;
};

struct ResultRule {
  TypeRule type;
  // Bit i is set: the result may be written into the memory of operand i.
  uint32_t may_lie_over = 0;
};

template <typename T, size_t kCapacity>
struct FixedList {
  std::array<T, kCapacity> items = {};
  size_t size = 0;

  constexpr void push_back(const T& item) { items.at(size++) = item; }
  [[nodiscard]] constexpr const T* begin() const { return items.data(); }
  [[nodiscard]] constexpr const T* end() const { return items.data() + size; }
  [[nodiscard]] constexpr const T& operator[](size_t index) const { return items.at(index); }
  constexpr operator std::span<const T>() const { return {items.data(), size}; }  // NOLINT
};

struct OpRule {
  FixedList<OperandRule, 12> operands;
  FixedList<ResultRule, 3> results;
  FixedList<Attribute, 6> attributes;
  uint32_t functions = 0;  // bit i: OpFunction i is a value of the attribute `function`
  // Positions of the operands marked `state`, `buffer` and `?`.
  FixedList<size_t, 2> states;
  bool writes_states = false;
  std::optional<size_t> buffer;
  FixedList<size_t, 5> optional_operands;
};

/// The position of an operand. \pre the op has an operand of that name
constexpr size_t operand_index(const OpRule& rule, std::string_view name) {
  for (size_t i = 0; i < rule.operands.size; ++i) {
    if (rule.operands[i].name == name) return i;
  }
  throw "the op has no operand of this name";
}

class SignatureParser {
 public:
  constexpr explicit SignatureParser(std::string_view text) : rest_(text) {}

  constexpr OpRule parse() {
    take('(');
    if (peek() != ')' && peek() != ';') {
      do add_operand();
      while (take_if(','));
    }
    if (take_if(';')) {
      do rule_.attributes.push_back(take_attribute());
      while (take_if(','));
    }
    take(')');
    take('-');
    take('>');
    if (take_if('(')) {
      take(')');
    } else {
      do add_result();
      while (take_if(','));
    }
    if (!rest_.empty()) throw "text behind the signature";
    return rule_;
  }

 private:
  constexpr char peek() {
    while (rest_.starts_with(' ')) rest_.remove_prefix(1);
    return rest_.empty() ? '\0' : rest_.front();
  }
  constexpr bool take_if(char wanted) {
    if (peek() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }
  constexpr void take(char wanted) {
    if (!take_if(wanted)) throw "another character is expected here";
  }
  static constexpr bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  }
  constexpr std::string_view take_word() {
    (void)peek();
    size_t length = 0;
    while (length < rest_.size() && is_word(rest_[length])) ++length;
    const std::string_view word = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return word;
  }
  constexpr Attribute take_attribute() {
    const std::string_view name = take_word();
    for (size_t i = 0; i < kAttributeNames.size(); ++i) {
      if (kAttributeNames[i] != name) continue;
      if (static_cast<Attribute>(i) == Attribute::function) take_functions();
      return static_cast<Attribute>(i);
    }
    throw "no attribute has this name";
  }
  constexpr void take_functions() {
    take('=');
    do {
      const OpFunction function = function_of_name(take_word());
      if (function == OpFunction::none) throw "no function has this name";
      rule_.functions |= 1U << static_cast<unsigned>(function);
    } while (take_if('|'));
  }

  constexpr void add_operand() {
    const size_t index = rule_.operands.size;
    OperandRule operand{.name = take_word()};
    if (operand.name == "state") {
      operand.is_state = true;
      rule_.states.push_back(index);
      if (take_if('!')) rule_.writes_states = true;
      operand.name = take_word();
    } else if (operand.name == "buffer") {
      rule_.buffer = index;
      operand.name = take_word();
    }
    operand.type = take_type();
    operand.is_optional = take_if('?');
    if (operand.is_optional) rule_.optional_operands.push_back(index);
    rule_.operands.push_back(operand);
  }
  constexpr void add_result() {
    ResultRule result{.type = take_type()};
    if (peek() == 'o') {
      if (take_word() != "over") throw "expected 'over'";
      do result.may_lie_over |= 1U << operand_index(rule_, take_word());
      while (peek() == 'o' && take_word() == "or");
    }
    rule_.results.push_back(result);
  }

  constexpr TypeRule take_type() {
    TypeRule type{.element = take_element()};
    take('[');
    do {
      if (take_if('.')) {
        take('.');
        take('.');
        type.has_leading_sizes = true;
      } else {
        const SizeRule size = take_size();
        type.has_sums |= size.kind != SizeRule::Kind::symbol;
        type.sizes.at(type.rank++) = size;
      }
    } while (take_if(','));
    take(']');
    return type;
  }
  constexpr ElementRule take_element() {
    const std::string_view word = take_word();
    if (word.empty()) return ElementRule::of_model;
    if (word == "i32") return ElementRule::i32;
    if (word == "f32") return ElementRule::f32;
    if (word == "q8") return ElementRule::eight_bits;
    if (word == "packed") return ElementRule::of_weight;
    if (word == "act") return ElementRule::of_activation;
    if (word == "cache") return ElementRule::of_cache;
    if (word == "dtype") return ElementRule::of_dtype_attribute;
    throw "no element type has this name";
  }
  constexpr SizeRule take_size() {
    SizeRule size;
    if (take_if('>')) {
      take('=');
      size.kind = SizeRule::Kind::at_least;
    }
    size.products[0] = take_product();
    if (take_if('+')) size.products[1] = take_product();
    if (take_if('|')) {
      take('1');
      size.kind = SizeRule::Kind::sum_or_one;
    }
    const SizeRule::Product& first = size.products[0];
    const bool is_symbol = size.kind == SizeRule::Kind::sum && first.constant == 1 &&
                           first.symbols[0] != kNoSymbol && first.symbols[1] == kNoSymbol &&
                           size.products[1].constant == 0;
    if (is_symbol) size.kind = SizeRule::Kind::symbol;
    return size;
  }
  constexpr SizeRule::Product take_product() {
    SizeRule::Product product{.constant = 1};
    size_t num_symbols = 0;
    do {
      const char first = peek();
      if (first >= '0' && first <= '9') {
        product.constant = static_cast<uint8_t>(product.constant * (first - '0'));
        take(first);
      } else {
        product.symbols.at(num_symbols++) = take_symbol();
      }
    } while (take_if('*'));
    return product;
  }
  constexpr SizeSymbol take_symbol() {
    const char first = peek();
    if (first >= 'A' && first <= 'Z') {
      take(first);
      return static_cast<SizeSymbol>(first - 'A');
    }
    const std::string_view word = take_word();
    if (word == "heads" || word == "length" || word == "top_k") return kHeadsSymbol;
    if (word == "ranks") return kRanksSymbol;
    throw "a size is a capital letter, `heads`, `length`, `top_k` or `ranks`";
  }

  std::string_view rest_;
  OpRule rule_;
};

}  // namespace reprise
