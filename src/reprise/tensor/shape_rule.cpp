#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "reprise/tensor/op_table.h"

namespace reprise {
namespace {

bool is_eight_bits(DType dtype) { return dtype == DType::i8 || dtype == DType::f8e4m3; }
bool is_cache_type(DType dtype) { return is_eight_bits(dtype) || dtype == DType::f8e5m2; }

// Compares one call with the signature of its op: finds the sizes and element types of the
// operands, then computes those of the results.
class SignatureMatch {
 public:
  SignatureMatch(const OpDefinition& op, const OpCall& call, std::span<const Tensor> inputs)
      : op_(op), call_(call), inputs_(inputs) {
    sizes_.fill(kUnknown);
    sizes_[kHeadsSymbol] = call.attributes.length;
    sizes_[kRanksSymbol] = call.attributes.ranks;
    sizes_[kNoSymbol] = 1;
  }

  size_t infer(std::span<TensorType> outputs) {
    if (inputs_.size() != op_.rule.operands.size) refuse("wrong number of operands");
    for (Attribute attribute : op_.rule.attributes) {
      if (attribute == Attribute::heads && call_.attributes.length <= 0)
        refuse("heads must be > 0");
      // Without an index, latent attention chooses no positions.
      const int64_t least = call_.code == OpCode::mla_attention ? 0 : 1;
      if (attribute == Attribute::top_k && call_.attributes.length < least)
        refuse("top_k must be > 0");
      if (attribute == Attribute::function &&
          ((op_.rule.functions >> static_cast<unsigned>(call_.attributes.function)) & 1U) == 0) {
        refuse("the op has no such function");
      }
      if (attribute == Attribute::ranks && call_.attributes.ranks <= 0) refuse("ranks must be > 0");
    }
    for (size_t i = 0; i < inputs_.size(); ++i) match_type(i);
    for (size_t i = 0; i < inputs_.size(); ++i) match_sums(i);
    if (op_.properties.check != nullptr) {
      if (const char* broken = op_.properties.check(call_.code, inputs_)) refuse(broken);
    }
    for (size_t i = 0; i < op_.rule.results.size; ++i) {
      set_type(op_.rule.results[i].type, outputs[i]);
    }
    return op_.rule.results.size;
  }

 private:
  static constexpr int64_t kUnknown = -1;

  [[noreturn]] void refuse(std::string_view rule) const { refuse_operands(call_, inputs_, rule); }
  [[noreturn]] void refuse(size_t operand, std::string_view what) const {
    refuse(fmt::format("wrong {} of {}", what, op_.rule.operands[operand].name));
  }

  // Checks the element type, the rank, and all sizes that are a single symbol.
  void match_type(size_t operand) {
    const Tensor& tensor = inputs_[operand];
    const OperandRule& rule = op_.rule.operands[operand];
    if (!tensor.defined() && rule.is_optional) return;
    const TypeRule& type = rule.type;
    const std::span<const int64_t> shape = tensor.shape().sizes();
    // `[..., H]` needs at least one leading size (the rows). `[...]` accepts any rank.
    const bool has_rank = type.has_leading_sizes
                              ? shape.size() >= type.rank + (type.rank > 0 ? 1U : 0U)
                              : shape.size() == type.rank;
    if (!tensor.defined() || !has_rank) refuse(operand, "rank");
    const bool has_layout = type.element == ElementRule::of_weight || tensor.layout().is_rows();
    if (!has_layout || !matches_element(type.element, tensor.dtype())) {
      refuse(operand, "element type");
    }
    const size_t num_leading = shape.size() - type.rank;
    if (type.has_leading_sizes) {
      const auto sizes = shape.first(num_leading);
      if (!leading_) leading_ = sizes;
      if (!std::ranges::equal(sizes, *leading_)) refuse(operand, "shape");
    }
    // The rows of quantised activations are compared with the weight in check_activations().
    const bool is_quantised =
        type.element == ElementRule::of_activation && tensor.dtype() == DType::i8;
    const size_t num_sizes = type.rank - (is_quantised ? 1U : 0U);
    for (size_t i = 0; i < num_sizes; ++i) {
      if (type.sizes[i].kind != SizeRule::Kind::symbol) continue;
      const int64_t size = shape[num_leading + i];
      int64_t& known = sizes_[type.sizes[i].products[0].symbols[0]];
      if (known == kUnknown) known = size;
      // A state is [blocks, ...]. Kernels divide by the sizes of a block, so these must not be 0.
      if (known != size || (rule.is_state && i > 0 && size == 0)) refuse(operand, "shape");
    }
  }

  bool matches_element(ElementRule rule, DType dtype) {
    switch (rule) {
      case ElementRule::of_activation:
        return dtype == DType::i8 || matches_element(ElementRule::of_model, dtype);
      case ElementRule::of_weight:
      case ElementRule::of_model:
        return dtype == model_dtype_.value_or(dtype) && (model_dtype_ = dtype, true);
      case ElementRule::i32:
        return dtype == DType::i32;
      case ElementRule::f32:
        return dtype == DType::f32;
      case ElementRule::eight_bits:
        return is_eight_bits(dtype) && dtype == eight_bits_.value_or(dtype) &&
               (eight_bits_ = dtype, true);
      case ElementRule::of_cache:
        return is_cache_type(dtype) || dtype == model_dtype_.value_or(dtype);
      case ElementRule::of_dtype_attribute:
        return dtype == call_.attributes.type.dtype;
    }
    return false;
  }

  // Checks the sizes that are sums of products. match_type() has run for all operands, so each sum
  // has at most one symbol whose value is still unknown; the sum then gives its value.
  void match_sums(size_t operand) {
    const TypeRule& type = op_.rule.operands[operand].type;
    if (!type.has_sums || !inputs_[operand].defined()) return;
    const std::span<const int64_t> shape = inputs_[operand].shape().sizes().last(type.rank);
    for (size_t i = 0; i < type.rank; ++i) {
      const SizeRule& rule = type.sizes[i];
      if (rule.kind != SizeRule::Kind::symbol && !matches_sum(rule, shape[i])) {
        refuse(operand, "shape");
      }
    }
  }
  bool matches_sum(const SizeRule& rule, int64_t size) {
    if (rule.kind == SizeRule::Kind::sum_or_one && size == 1) return true;
    SizeSymbol unknown = kNoSymbol;
    int64_t factor = 0;
    int64_t rest = 0;
    for (const SizeRule::Product& product : rule.products) {
      const auto [a, b] = product.symbols;
      if (product.constant == 0) continue;
      if (sizes_[a] == kUnknown || sizes_[b] == kUnknown) {
        unknown = sizes_[a] == kUnknown ? a : b;
        factor = product.constant * (sizes_[a] == kUnknown ? sizes_[b] : sizes_[a]);
      } else {
        rest += value_of(product);
      }
    }
    if (unknown == kNoSymbol) {
      return rule.kind == SizeRule::Kind::at_least ? size >= rest : size == rest;
    }
    if (factor <= 0 || size < rest || (size - rest) % factor != 0) return false;
    sizes_[unknown] = (size - rest) / factor;
    return true;
  }

  // Writes into `type`, because copying a TensorType costs as much as the rest of the match.
  void set_type(const TypeRule& rule, TensorType& type) const {
    type.dtype = dtype_of(rule.element);
    const int num_leading = rule.has_leading_sizes ? static_cast<int>(leading_->size()) : 0;
    type.shape.set_rank(num_leading + rule.rank);
    for (int dim = 0; dim < num_leading; ++dim) {
      type.shape[dim] = (*leading_)[static_cast<size_t>(dim)];
    }
    for (int i = 0; i < rule.rank; ++i) {
      type.shape[num_leading + i] = size_of(rule.sizes[static_cast<size_t>(i)]);
    }
  }
  [[nodiscard]] int64_t size_of(const SizeRule& rule) const {
    const SizeRule::Product& first = rule.products[0];
    if (rule.kind == SizeRule::Kind::symbol) return sizes_[first.symbols[0]];
    return value_of(first) + value_of(rule.products[1]);
  }
  [[nodiscard]] int64_t value_of(const SizeRule::Product& product) const {
    return product.constant * sizes_[product.symbols[0]] * sizes_[product.symbols[1]];
  }
  [[nodiscard]] DType dtype_of(ElementRule rule) const {
    switch (rule) {
      case ElementRule::of_model:
      case ElementRule::of_weight:
        return *model_dtype_;
      case ElementRule::i32:
        return DType::i32;
      case ElementRule::f32:
        return DType::f32;
      case ElementRule::eight_bits:
        if (!eight_bits_ && !is_eight_bits(call_.attributes.type.dtype)) {
          refuse("dtype must be int8 or float8");
        }
        return eight_bits_.value_or(call_.attributes.type.dtype);
      case ElementRule::of_activation:  // of operands only
      case ElementRule::of_cache:
      case ElementRule::of_dtype_attribute:
        break;
    }
    return call_.attributes.type.dtype;
  }

  const OpDefinition& op_;
  const OpCall& call_;
  std::span<const Tensor> inputs_;
  std::array<int64_t, kNumSizeSymbols> sizes_;
  std::optional<std::span<const int64_t>> leading_;  // of the first operand with `...`
  std::optional<DType> model_dtype_;
  std::optional<DType> eight_bits_;
};

}  // namespace

void refuse_operands(const OpCall& call, std::span<const Tensor> inputs, std::string_view rule) {
  while (!inputs.empty() && !inputs.back().defined()) inputs = inputs.first(inputs.size() - 1);
  std::vector<std::string> types;
  for (const Tensor& input : inputs) {
    types.push_back(input.defined() ? input.type().to_string() : "none");
  }
  const OpDefinition& op = definition_of(call.code);
  throw ShapeError(fmt::format("{}({}) does not fit {}{}: {}",
                               op.name,
                               fmt::join(types, ", "),
                               op.name,
                               op.signature,
                               rule));
}

size_t infer_output_types(const OpCall& call,
                          std::span<const Tensor> inputs,
                          std::span<TensorType> outputs) {
  const OpDefinition& op = definition_of(call.code);
  if (op.properties.infer != nullptr) {
    if (call.code == OpCode::slice && inputs.size() != 1) {
      refuse_operands(call, inputs, "wrong number of operands");
    }
    return op.properties.infer(call, inputs, outputs);
  }
  return SignatureMatch(op, call, inputs).infer(outputs);
}

}  // namespace reprise
