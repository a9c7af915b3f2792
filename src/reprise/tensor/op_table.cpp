#include "reprise/tensor/op_table.h"

#include <array>

#include "reprise/tensor/aliasing.h"
#include "reprise/tensor/block_panels.h"
#include "reprise/tensor/custom_op.h"

namespace reprise {
namespace {

size_t infer_empty(const OpCall& call, std::span<const Tensor>, std::span<TensorType> outputs) {
  outputs[0] = call.attributes.type;
  return 1;
}

size_t infer_slice(const OpCall& call,
                   std::span<const Tensor> inputs,
                   std::span<TensorType> outputs) {
  const OpAttributes& attributes = call.attributes;
  const Tensor& x = inputs[0];
  const bool fits = attributes.dim >= 0 && attributes.dim < x.rank() && attributes.begin >= 0 &&
                    attributes.length >= 0 &&
                    attributes.begin + attributes.length <= x.size(attributes.dim);
  if (!fits) refuse_operands(call, inputs, "the slice leaves the tensor");
  if (!x.layout().is_rows()) {
    refuse_operands(call, inputs, "a slice of a packed matrix is not a packed matrix");
  }
  outputs[0] = x.type();
  outputs[0].shape[attributes.dim] = attributes.length;
  return 1;
}

size_t infer_row_group(const OpCall& call,
                       std::span<const Tensor> inputs,
                       std::span<TensorType> outputs) {
  const RowGroup& group = *call.attributes.row_group;
  if (group.rows_of >= inputs.size()) {
    refuse_operands(call, inputs, "the group has no operand to count rows of");
  }
  for (size_t i = 0; i < group.results.size(); ++i) {
    outputs[i] = {group.results[i].dtype, group.results[i].shape};
    outputs[i].shape[0] = inputs[group.rows_of].size(0);
  }
  return group.results.size();
}

size_t infer_custom(const OpCall& call,
                    std::span<const Tensor> inputs,
                    std::span<TensorType> outputs) {
  const CustomOp& op = *call.attributes.custom;
  if (inputs.size() != op.num_inputs) {
    refuse_operands(call, inputs, "another number of operands is registered");
  }
  op.infer_types(inputs, outputs.first(op.num_outputs));
  return op.num_outputs;
}

const char* check_adjacent_heads(OpCode, std::span<const Tensor> inputs) {
  return inputs[0].stride(1) == inputs[0].size(2) ? nullptr : "needs adjacent heads";
}

// Caches of the model's element type have rows of `head_dim` elements. Rows of eight bits may end
// with a float32 scale, and those of int8 must.
const char* check_cache_rows(const OpRule& rule, std::span<const Tensor> inputs, int64_t head_dim) {
  const Tensor& keys = inputs[operand_index(rule, "key_cache")];
  if (keys.type() != inputs[operand_index(rule, "value_cache")].type()) return "the caches differ";
  const int64_t scale_bytes = keys.size(3) - head_dim;
  if (head_dim == 0) return "a row of the cache is empty";
  if (dtype_bytes(keys.dtype()) > 1) {
    return scale_bytes == 0 ? nullptr : "a row of the cache is not a head";
  }
  const bool has_scale = scale_bytes == static_cast<int64_t>(sizeof(float));
  return has_scale || (scale_bytes == 0 && keys.dtype() != DType::i8)
             ? nullptr
             : "a row of the cache is neither a head nor a head and its scale";
}

const char* check_caches(OpCode code, std::span<const Tensor> inputs) {
  return check_cache_rows(definition_of(code).rule, inputs, inputs[0].size(2));
}

// The operand with that name, or nullptr if the op has none or the call leaves it out.
const Tensor* find_operand(const OpRule& rule,
                           std::span<const Tensor> inputs,
                           std::string_view name) {
  for (size_t i = 0; i < rule.operands.size; ++i) {
    if (rule.operands[i].name == name) return inputs[i].defined() ? &inputs[i] : nullptr;
  }
  return nullptr;
}

// Activations must have the form that the layout of the weight requires. \pre they are quantised,
// or the layout requires elements
const char* check_activations(OpCode code, std::span<const Tensor> inputs) {
  const OpRule& rule = definition_of(code).rule;
  const Tensor& x = inputs[0];
  const Tensor& weight = *find_operand(rule, inputs, "weight");
  const int64_t depth = weight.size(-1);
  const bool has_scale = find_operand(rule, inputs, "scale") != nullptr;
  const bool is_quantised = x.dtype() == DType::i8;
  switch (activation_form(weight.layout().family)) {
    case ActivationForm::elements:
      return is_quantised || has_scale ? "the weight is not multiplied with quantised rows"
                                       : nullptr;
    case ActivationForm::int8_rows:
      return is_quantised && has_scale && x.size(1) == depth
                 ? nullptr
                 : "the weight is multiplied with int8 rows and their scales";
    case ActivationForm::int8_blocks:
      return is_quantised && !has_scale && depth % kPanelBlock == 0 &&
                     x.size(1) ==
                         depth / kPanelBlock * static_cast<int64_t>(sizeof(ActivationBlock))
                 ? nullptr
                 : "the weight is multiplied with rows quantised in blocks";
  }
  return nullptr;
}

// A norm before a product reads unquantised rows. A product may get elements where the layout of
// the weight requires quantised rows: then it quantises them itself.
const char* check_product(OpCode code, std::span<const Tensor> inputs) {
  const OpRule& rule = definition_of(code).rule;
  const bool is_quantised = inputs[0].dtype() == DType::i8;
  const bool has_norm = find_operand(rule, inputs, "norm") != nullptr;
  if (has_norm && is_quantised) return "quantised rows have no norm";
  const Tensor& weight = *find_operand(rule, inputs, "weight");
  const ActivationForm form = activation_form(weight.layout().family);
  if (is_quantised || form == ActivationForm::elements) return check_activations(code, inputs);
  if (find_operand(rule, inputs, "scale") != nullptr)
    return "a product that quantises has no scale";
  const bool fits = form != ActivationForm::int8_blocks || weight.size(-1) % kPanelBlock == 0;
  return fits ? nullptr : "rows of another size than blocks of 32 elements cannot be quantised";
}

const char* check_blocks_product(OpCode code, std::span<const Tensor> inputs) {
  return inputs[1].layout().family == WeightFamily::block_panels
             ? check_activations(code, inputs)
             : "the weight is not stored in blocks";
}

const char* check_rotation(OpCode code, std::span<const Tensor> inputs) {
  const OpRule& rule = definition_of(code).rule;
  const int64_t head_dim = inputs[operand_index(rule, "cos_sin")].size(1);
  if (head_dim % 2 != 0) return "the head size must be even";
  if (code == OpCode::rope) return nullptr;
  if (const char* broken = check_cache_rows(rule, inputs, head_dim)) return broken;
  const bool has_q_norm = inputs[operand_index(rule, "q_norm")].defined();
  return has_q_norm == inputs[operand_index(rule, "k_norm")].defined()
             ? nullptr
             : "the norms of q and k come together";
}

const char* check_latent(OpCode, std::span<const Tensor> inputs) {
  const Operands<OpCode::mla_attention> in(inputs);
  const Tensor& index_q = in["index_q"];
  if (index_q.defined() != in["index_weights"].defined()) return "an index has queries and weights";
  const int64_t row_size = in["q"].size(2) + (index_q.defined() ? index_q.size(2) : 0);
  if (in["kv_cache"].size(3) != row_size) return "a row of the cache is not a key";
  return in["out"].size(2) <= in["q"].size(2) ? nullptr : "the value is longer than the key";
}

// Heads are divided into equal groups, which have rows of `group_size` in `shared`.
bool has_equal_groups(const Tensor& shared, int64_t group_size, int64_t heads) {
  const int64_t groups = shared.size(1) / group_size;
  return groups > 0 && heads % groups == 0;
}

const char* check_selective_state(OpCode, std::span<const Tensor> inputs) {
  const Operands<OpCode::selective_state_update> in(inputs);
  const Tensor& state = in["ssm_state"];
  const Tensor& a_log = in["a_log"];
  if (!has_equal_groups(in["b"], state.size(3), state.size(1))) {
    return "the groups of b and c do not divide the heads";
  }
  const bool has_one = a_log.rank() == 1 && a_log.size(0) == state.size(1);
  const bool has_each =
      a_log.rank() == 2 && a_log.size(0) == state.size(1) && a_log.size(1) == state.size(3);
  return has_one || has_each ? nullptr : "a_log is neither [heads] nor [heads, state size]";
}

const char* check_delta_groups(OpCode, std::span<const Tensor> inputs) {
  const Operands<OpCode::gated_delta_rule> in(inputs);
  const Tensor& state = in["delta_state"];
  const int64_t num_steps = in["dt"].size(1);
  if (num_steps != state.size(1) && num_steps != state.size(1) * state.size(2)) {
    return "dt has a step neither for each head nor for each element of its key";
  }
  return has_equal_groups(in["k"], state.size(2), state.size(1))
             ? nullptr
             : "the groups of q and k do not divide the heads";
}

const char* check_rows_of_experts(const Tensor& x, const Tensor& experts) {
  const int64_t rows = x.size(0);
  return rows == experts.size(0) || rows == experts.size(0) * experts.size(1)
             ? nullptr
             : "x needs a row for each token, or for each expert of each token";
}

const char* check_experts(OpCode code, std::span<const Tensor> inputs) {
  const Operands<OpCode::expert_linear> in(inputs);
  const WeightFamily family = in["weight"].layout().family;
  if (family == WeightFamily::column_panels || family == WeightFamily::int8_panels) {
    return "experts are stored in rows, in blocks or in panels of smaller floats";
  }
  const char* mistake = check_activations(code, inputs);
  return mistake == nullptr ? check_rows_of_experts(in["x"], in["experts"]) : mistake;
}

const char* check_heads_product(OpCode code, std::span<const Tensor> inputs) {
  const char* mistake = check_product(code, inputs);
  return mistake == nullptr ? check_rotation(code, inputs) : mistake;
}

constexpr std::array<OpDefinition, kNumOpCodes> kDefinitions = {
#define X(op, text, ...) \
  OpDefinition{          \
      .name = #op, .signature = text, .rule = kRuleOf<OpCode::op>, .properties = {__VA_ARGS__}},
#include "reprise/tensor/op_list.inl"
#undef X
};

}  // namespace

const OpDefinition& definition_of(OpCode code) noexcept {
  return kDefinitions[static_cast<size_t>(code)];
}

std::string_view op_name(OpCode code) noexcept { return definition_of(code).name; }

bool can_alias(OpCode code, size_t operand, size_t result) noexcept {
  const auto& results = definition_of(code).rule.results;
  return result < results.size && ((results[result].may_lie_over >> operand) & 1U) != 0;
}

}  // namespace reprise
