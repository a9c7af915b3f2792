#include "reprise/kernels/cuda/product_choices.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "reprise/tensor/op_table.h"

namespace reprise::kernels::cuda {
namespace {

static_assert(sizeof(ProductChoice::algorithm) == sizeof(cublasLtMatmulAlgo_t));

/// A chain of more calls would not make its time more certain.
constexpr size_t kMostNotedCalls = 16;

ProductShape shape_of(const OpRun& run, bool has_norm) {
  const Tensor& weight = run.in[1];
  // The third operand of lm_head is a number of rows.
  const bool has_bias = run.call.code != OpCode::lm_head && run.in[2].defined();
  // The rows of a packed weight may be quantised. Its own type is that of the model.
  const DType type = weight.dtype();
  const DType out = run.out[0].dtype();
  const bool is_quantized = run.call.code == OpCode::linear_silu_and_mul_quantize_blocks;
  return {.op = run.call.code,
          .has_norm = has_norm,
          .has_bias = has_bias,
          .type = type,
          .out_type = is_quantized ? type : out,
          .columns = weight.num_elements() / weight.size(-1),  // of all experts
          .depth = weight.size(-1),
          .x_stride = run.in[0].stride(0),
          .weight = PackedForm(weight.layout())};
}

/// Whether each layer has an operand of its own, which a step reads once.
bool is_of_layer(const OperandRule& operand) {
  return operand.name == "weight" || operand.name == "bias" || operand.name == "norm";
}

}  // namespace

cublasLtMatmulAlgo_t algorithm_of(const ProductChoice& choice) noexcept {
  cublasLtMatmulAlgo_t algorithm;
  std::memcpy(&algorithm, choice.algorithm.data(), sizeof algorithm);
  return algorithm;
}

ProductChoice librarys_choice(const cublasLtMatmulAlgo_t& algorithm) noexcept {
  ProductChoice choice{.kernel = ProductChoice::Kernel::library};
  std::memcpy(choice.algorithm.data(), &algorithm, sizeof algorithm);
  return choice;
}

const ProductChoice* ProductChoices::of(const OpRun& run, bool has_norm) {
  if (forced_ != nullptr) return forced_;
  if (table_.is_empty() && !noted_) return nullptr;
  const ProductShape shape = shape_of(run, has_norm);
  if (noted_) note(run, shape);
  return table_.find(shape, run.in[0].size(0));
}

void ProductChoices::watch() { noted_.emplace(); }

std::vector<NotedProduct> ProductChoices::take_noted() {
  return std::exchange(noted_, std::nullopt).value_or(std::vector<NotedProduct>());
}

void ProductChoices::note(const OpRun& run, const ProductShape& shape) {
  const int64_t rows = run.in[0].size(0);
  if (rows == 0) return;
  const auto found = std::ranges::find_if(*noted_, [&](const NotedProduct& noted) {
    return noted.shape == shape && noted.rows == rows;
  });
  if (found == noted_->end()) {
    noted_->push_back({.shape = shape,
                       .rows = rows,
                       .call = run.call,
                       .in = {{run.in.begin(), run.in.end()}},
                       .out = {run.out.begin(), run.out.end()}});
    return;
  }
  if (found->in.size() >= kMostNotedCalls) return;
  const OpRule& rule = definition_of(run.call.code).rule;
  std::vector<Tensor> in = found->in.front();
  for (size_t i = 0; i < in.size(); ++i) {
    if (is_of_layer(rule.operands[i])) in[i] = run.in[i];
  }
  found->in.push_back(std::move(in));
}

}  // namespace reprise::kernels::cuda
