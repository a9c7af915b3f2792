#include "reprise/kernels/vector/exp_arguments.h"

#include <cmath>
#include <limits>

#include "reprise/device/cpu/cpu_features.h"
#include "reprise/kernels/kernel_table.h"
#include "tests/support/kernels/kernel_test_fixture.h"

namespace reprise::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class Exp : public testing::TestWithParam<Isa> {
 protected:
  static std::vector<float> run(const std::vector<float>& x) {
    std::vector<float> out(x.size());
    const ExpArguments arguments = {x.data(), out.data(), static_cast<int64_t>(x.size())};
    kernel_table(GetParam()).exp.cpu(&arguments, {0, 1});
    return out;
  }
};

TEST_P(Exp, is_within_two_ulps_wherever_the_result_is_normal) {
  std::vector<float> x;
  for (float value = -87.3F; value < 88.7F; value += 0.00017F) x.push_back(value);
  for (float value = 1e-30F; value < 1.0F; value *= 1.37F) {
    x.push_back(value);
    x.push_back(-value);
  }
  const std::vector<float> out = run(x);
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double want = std::exp(static_cast<double>(x[i]));
    const auto nearest = static_cast<float>(want);
    const double ulp = std::nextafter(nearest, kInfinity) - nearest;
    worst = std::max(worst, std::abs(out[i] - want) / ulp);
  }
  EXPECT_LT(worst, 2.0);
  RecordProperty("worst_ulps", std::to_string(worst));
}

TEST_P(Exp, underflows_gradually_to_zero) {
  std::vector<float> x;
  for (float value = -87.3F; value > -103.9F; value -= 0.1F) x.push_back(value);
  const std::vector<float> out = run(x);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(out[i], std::exp(static_cast<double>(x[i])), 2e-45 + 2.4e-7 * out[i]) << x[i];
  }
  for (float result : run({-104.0F, -105.0F, -1e30F, -kInfinity})) EXPECT_EQ(result, 0.0F);
}

TEST_P(Exp, knows_its_special_values) {
  const std::vector<float> out = run({0.0F, -0.0F, 89.0F, 1e30F, kInfinity, NAN, -NAN});
  EXPECT_EQ(out[0], 1.0F);
  EXPECT_EQ(out[1], 1.0F);
  EXPECT_EQ(out[2], kInfinity);
  EXPECT_EQ(out[3], kInfinity);
  EXPECT_EQ(out[4], kInfinity);
  EXPECT_TRUE(std::isnan(out[5]));
  EXPECT_TRUE(std::isnan(out[6]));
}

TEST_P(Exp, gives_a_value_the_same_bits_in_every_lane) {
  for (size_t size : {1, 7, 8, 9, 15, 16, 17, 33}) {
    const std::vector<float> out = run(std::vector<float>(size, -3.3F));
    for (float result : out) EXPECT_EQ(result, out[0]);
  }
}

INSTANTIATE_TEST_SUITE_P(AllIsas,
                         Exp,
                         testing::ValuesIn(supported_isas(device::detect_cpu_features())),
                         [](const auto& test) { return std::string(isa_name(test.param)); });

}  // namespace
}  // namespace reprise::kernels
