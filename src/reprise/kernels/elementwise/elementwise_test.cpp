#include "reprise/kernels/elementwise/elementwise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <utility>

#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/oracles/activations.h"

namespace reprise::kernels {
namespace {

struct Function {
  const char* name;
  FloatKernels KernelTable::* kernels;
  float parameter;
  std::function<double(double)> ref;
  float least = 0;
  OpFunction function = OpFunction::none;
};

Function activation(const char* name, OpFunction function, std::function<double(double)> ref) {
  return {.name = name,
          .kernels = &KernelTable::activation,
          .parameter = 0,
          .ref = std::move(ref),
          .function = function};
}

const std::array kFunctions = {
    activation("gelu", OpFunction::gelu, gelu_ref),
    activation("gelu_tanh", OpFunction::gelu_tanh, gelu_tanh_ref),
    activation("relu", OpFunction::relu, [](double x) { return std::max(0.0, x); }),
    activation("relu2", OpFunction::relu2, [](double x) { return x > 0 ? x * x : 0.0; }),
    Function{"scale", &KernelTable::scale, 0.375F, [](double x) { return 0.375 * x; }},
    Function{
        "soft_cap", &KernelTable::soft_cap, 3.0F, [](double x) { return 3 * std::tanh(x / 3); }},
    Function{"clamp",
             &KernelTable::clamp,
             1.5F,
             [](double x) { return std::clamp(x, -0.75, 1.5); },
             -0.75F},
};

class Elementwise : public KernelTest {
 protected:
  Tensor run(const Function& function, const Tensor& x) {
    const Tensor out = make(x.shape());
    launch_elementwise(stream_,
                       kernels().*function.kernels,
                       x,
                       function.parameter,
                       out,
                       function.least,
                       function.function);
    return out;
  }
  void expect_agrees(const Tensor& x) {
    for (const Function& function : kFunctions) {
      SCOPED_TRACE(function.name);
      const Tensor want = make_ref(x.shape());
      for (const RowIndex& row : all_rows(x)) {
        for (int64_t i = 0; i < x.size(-1); ++i) {
          set_row_element(want, function.ref(row_element(x, row, i)), row, i);
        }
      }
      expect_close(run(function, x), want, 1.01 * rounding_error(dtype()) + 1e-6, 1e-6);
    }
  }
};

TEST_P(Elementwise, agrees_with_the_reference_at_edges_of_rows_and_width) {
  for (int64_t rows : {1, 2, 5, 33}) {
    for (int64_t width : {1, 31, 32, 33, 65, 100, 896}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << width);
      expect_agrees(random({rows, width}, 4.0));
    }
  }
}

TEST_P(Elementwise, cuts_wide_rows_and_reads_strided_ones) {
  expect_agrees(random({1, 9728}));
  expect_agrees(random_strided({3, 65}));
  expect_agrees(random_strided({3, 5, 48}));
}

TEST_P(Elementwise, saturates_and_keeps_a_nan) {
  constexpr double kLargestFloat16 = 65504;
  const double inputs[] = {-60000, -1000, -90, -20, 20, 90, 1000, 60000};
  const Tensor x = make({1, 8});
  for (int64_t i = 0; i < 8; ++i) set_element(x, inputs[i], 0, i);
  for (const Function& function : kFunctions) {
    SCOPED_TRACE(function.name);
    const Tensor out = run(function, x);
    for (int64_t i = 0; i < 8; ++i) {
      const double want = function.ref(element(x, 0, i));
      if (dtype() == DType::f16 && want > kLargestFloat16) {  // the square of 1000
        EXPECT_EQ(element(out, 0, i), INFINITY) << inputs[i];
        continue;
      }
      EXPECT_NEAR(element(out, 0, i), want, 1e-6 + 0.01 * std::abs(want)) << inputs[i];
    }
  }
  set_element(x, NAN, 0, 3);
  for (const Function& function : kFunctions) {
    EXPECT_TRUE(std::isnan(element(run(function, x), 0, 3))) << function.name;
  }
}

INSTANTIATE_TEST_SUITE_P(AllKernels, Elementwise, testing::ValuesIn(all_kernel_cases()), case_name);

}  // namespace
}  // namespace reprise::kernels
