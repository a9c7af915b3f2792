#include "tests/integration/step_outcome.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace reprise::testing {

Outcome run(TinyEngine& engine,
            const TestBatch& batch,
            const cudagraph::Decision& decision,
            cudagraph::CudagraphRuntimeMode run_as,
            std::span<const std::byte> kv_before) {
  engine.restore_kv(kv_before);
  const runner::StepResult& result = engine.runner().run(batch.requests(), decision, run_as);
  Outcome outcome{engine.logits(result), engine.save_kv()};
  engine.execution().stream().fill(
      result.logits.data(), std::byte{0xFF}, result.logits.type().bytes());
  return outcome;
}

void expect_same_bits(const Outcome& expected, const Outcome& actual, const std::string& what) {
  ASSERT_EQ(expected.logits.size(), actual.logits.size()) << what;
  EXPECT_EQ(
      std::memcmp(
          expected.logits.data(), actual.logits.data(), expected.logits.size() * sizeof(float)),
      0)
      << what << ": logits differ";
  EXPECT_TRUE(expected.kv == actual.kv) << what << ": cache bytes differ";
  for (float logit : actual.logits) ASSERT_TRUE(std::isfinite(logit)) << what;
}

std::vector<float> run_mixes(TinyEngine& engine,
                             int rounds,
                             int32_t num_tokens,
                             int32_t most_reqs) {
  std::vector<float> all;
  for (int round = 0; round < rounds; ++round) {
    for (const Mix mix : kMixes) {
      const int32_t tokens = mix == Mix::uniform_decode ? 3 : num_tokens;
      const TestBatch batch(mix, tokens, most_reqs, static_cast<uint32_t>(40 + round));
      const runner::StepResult& result = engine.runner().execute(batch.requests(), batch.facts());
      engine.runner().wait();
      const std::vector<float> logits = engine.logits(result);
      all.insert(all.end(), logits.begin(), logits.end());
    }
  }
  return all;
}

double relative_distance(std::span<const float> a, std::span<const float> b) {
  double square_error = 0;
  double square = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    square_error += std::pow(a[i] - b[i], 2);
    square += std::pow(b[i], 2);
  }
  return std::sqrt(square_error / square);
}

std::string describe(Mix mix, int32_t num_tokens, const cudagraph::Decision& decision) {
  return fmt::format("{} of {} tokens as {} [{}]",
                     to_string(mix),
                     num_tokens,
                     to_string(decision.mode),
                     to_string(decision.descriptor));
}

}  // namespace reprise::testing
