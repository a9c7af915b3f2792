#pragma once

#include <cmath>
#include <cstring>
#include <string>

#include "tests/integration/tiny_engine.h"

/// The result of one step of a TinyEngine, for comparisons between modes, levels, backends and
/// devices.
namespace reprise::testing {

inline constexpr std::array kModes = {cudagraph::CudagraphMode::NONE,
                                      cudagraph::CudagraphMode::PIECEWISE,
                                      cudagraph::CudagraphMode::FULL,
                                      cudagraph::CudagraphMode::FULL_DECODE_ONLY,
                                      cudagraph::CudagraphMode::FULL_AND_PIECEWISE};
inline constexpr std::array kLevels = {config::CompilationMode::NONE,
                                       config::CompilationMode::STOCK_TORCH_COMPILE,
                                       config::CompilationMode::DYNAMO_TRACE_ONCE,
                                       config::CompilationMode::VLLM_COMPILE};
inline constexpr std::array kMixes = {Mix::prefill, Mix::uniform_decode, Mix::mixed, Mix::chunked};

/// The requested logits and every byte of the cache.
struct Outcome {
  std::vector<float> logits;
  std::vector<std::byte> kv;
};

/// Runs the batch over a cache with these bytes. Afterwards the engine's logits are set to NaN, so
/// that a logit that the next step does not write becomes visible.
inline Outcome run(TinyEngine& engine,
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

inline void expect_same_bits(const Outcome& expected,
                             const Outcome& actual,
                             const std::string& what) {
  ASSERT_EQ(expected.logits.size(), actual.logits.size()) << what;
  EXPECT_EQ(
      std::memcmp(
          expected.logits.data(), actual.logits.data(), expected.logits.size() * sizeof(float)),
      0)
      << what << ": logits differ";
  EXPECT_TRUE(expected.kv == actual.kv) << what << ": cache bytes differ";
  for (float logit : actual.logits) ASSERT_TRUE(std::isfinite(logit)) << what;
}

/// |a - b| / |b|
inline double relative_distance(std::span<const float> a, std::span<const float> b) {
  double square_error = 0;
  double square = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    square_error += std::pow(a[i] - b[i], 2);
    square += std::pow(b[i], 2);
  }
  return std::sqrt(square_error / square);
}

/// Describes one case: "mixed of 9 tokens as FULL [...]".
inline std::string describe(Mix mix, int32_t num_tokens, const cudagraph::Decision& decision) {
  return fmt::format("{} of {} tokens as {} [{}]",
                     to_string(mix),
                     num_tokens,
                     to_string(decision.mode),
                     to_string(decision.descriptor));
}

}  // namespace reprise::testing
