#include "tests/support/kernels/products.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "reprise/tensor/block_panels.h"
#include "tests/support/kernels/reference.h"

namespace reprise::kernels {
namespace {

using Row = std::vector<double>;

// The first `depth` numbers of a row of activations, which may be quantised in blocks.
Row row_of_x(const Tensor& x, const Tensor& weight, int64_t row) {
  const int64_t depth = weight.size(-1);
  Row numbers(static_cast<size_t>(depth));
  const bool has_blocks = activation_form(weight.layout().family) == ActivationForm::int8_blocks;
  for (int64_t i = 0; i < depth; ++i) {
    double& number = numbers[static_cast<size_t>(i)];
    if (!has_blocks) {
      number = element(x, row, i);
      continue;
    }
    const ActivationBlock& block =
        x.data_as<ActivationBlock>()[row * depth / kPanelBlock + i / kPanelBlock];
    number = block.codes[i % kPanelBlock] * static_cast<double>(block.scale);
  }
  return numbers;
}

std::vector<Row> rows_of_x(const Tensor& x, const Tensor& weight, int64_t num_rows) {
  std::vector<Row> rows;
  for (int64_t row = 0; row < num_rows; ++row) rows.push_back(row_of_x(x, weight, row));
  return rows;
}

// `column` is the index of a weight; for experts it is the index of the expert and that of one of
// its weights. Decoding a packed weight takes long, so callers decode it once for all rows.
template <typename... Index>
Row row_of_weight(const Tensor& weight, Index... column) {
  Row numbers(static_cast<size_t>(weight.size(-1)));
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = element(weight, column..., static_cast<int64_t>(i));
  }
  return numbers;
}

double dot(const Row& a, const Row& b, double first) {
  return std::inner_product(a.begin(), a.end(), b.begin(), first);
}

}  // namespace

void linear_ref(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& out) {
  const std::vector<Row> rows = rows_of_x(x, weight, x.size(0));
  for (int64_t column = 0; column < weight.size(0); ++column) {
    const Row weights = row_of_weight(weight, column);
    const double first = bias.defined() ? element(bias, column) : 0.0;
    for (size_t row = 0; row < rows.size(); ++row) {
      set_element(out, dot(weights, rows[row], first), static_cast<int64_t>(row), column);
    }
  }
}

void lm_head_ref(const Tensor& x, const Tensor& weight, const Tensor& num_rows, const Tensor& out) {
  const std::vector<Row> rows = rows_of_x(x, weight, std::min(x.size(0), int_element(num_rows, 0)));
  for (int64_t column = 0; column < weight.size(0); ++column) {
    const Row weights = row_of_weight(weight, column);
    for (size_t row = 0; row < rows.size(); ++row) {
      set_element(out, dot(rows[row], weights, 0.0), static_cast<int64_t>(row), column);
    }
  }
}

void expert_linear_ref(const Tensor& x,
                       const Tensor& weight,
                       const Tensor& bias,
                       const Tensor& experts,
                       const Tensor& out) {
  const int64_t top_k = experts.size(1);
  const int64_t rows_per_x = x.size(0) == experts.size(0) ? top_k : 1;
  const std::vector<Row> rows = rows_of_x(x, weight, x.size(0));
  for (int64_t column = 0; column < out.size(1); ++column) {
    std::vector<Row> weights;  // of each expert
    for (int64_t expert = 0; expert < weight.size(0); ++expert) {
      weights.push_back(row_of_weight(weight, expert, column));
    }
    for (int64_t row = 0; row < out.size(0); ++row) {
      const int64_t expert = int_element(experts, row / top_k, row % top_k);
      if (expert < 0) {
        set_element(out, 0, row, column);
        continue;
      }
      const double first = bias.defined() ? element(bias, expert, column) : 0.0;
      const Row& numbers = rows[static_cast<size_t>(row / rows_per_x)];
      set_element(out, dot(numbers, weights[static_cast<size_t>(expert)], first), row, column);
    }
  }
}

void head_linear_ref(const Tensor& x, const Tensor& weight, const Tensor& out) {
  for (int64_t token = 0; token < out.size(0); ++token) {
    for (int64_t head = 0; head < out.size(1); ++head) {
      for (int64_t column = 0; column < out.size(2); ++column) {
        double sum = 0;
        for (int64_t i = 0; i < x.size(2); ++i) {
          sum += element(x, token, head, i) * element(weight, head, column, i);
        }
        set_element(out, sum, token, head, column);
      }
    }
  }
}

void scaled_linear_ref(const ScaledLinearCall& call) {
  for (int64_t row = 0; row < call.x.size(0); ++row) {
    const double scale = element(call.scale, call.scale.size(0) == 1 ? 0 : row);
    for (int64_t column = 0; column < call.weight.size(0); ++column) {
      double sum = 0;
      for (int64_t i = 0; i < call.x.size(1); ++i) {
        sum += element(call.x, row, i) * element(call.weight, column, i);
      }
      const double bias = call.bias.defined() ? element(call.bias, column) : 0.0;
      set_element(call.out, sum * scale * element(call.weight_scale, column) + bias, row, column);
    }
  }
}

}  // namespace reprise::kernels
