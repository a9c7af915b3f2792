#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tests/integration/tiny_engine.h"

/// One request at a time through a tiny engine, for comparisons with golden logits.
namespace reprise::testing {

inline int32_t argmax(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

inline double largest_abs_error(std::span<const float> a, std::span<const float> b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    // std::max would lose a NaN.
    const double error = std::abs(static_cast<double>(a[i]) - b[i]);
    if (!(error <= largest)) largest = error;
  }
  return largest;
}

// Runs steps of one request at a time through the dispatcher, the same as the engine core does.
class GoldenRunner {
 public:
  GoldenRunner(const std::filesystem::path& model, DType dtype, kernels::Isa isa)
      : engine_({.mode = cudagraph::CudagraphMode::FULL_AND_PIECEWISE,
                 .num_blocks = kBlocks + 1,
                 .dtype = dtype,
                 .model = model,
                 .isa = isa}) {
    // This order of blocks makes errors in address arithmetic visible.
    for (int32_t i = 0; i < kBlocks; ++i)
      blocks_.push_back(kv_cache::BlockId{1 + (i * 5 + 3) % kBlocks});

    for (const auto& record : engine_.runner().capture({}).records) EXPECT_EQ(record.failure, "");
  }

  // Logits after the last of `tokens`, computed in chunks of `chunk` tokens.
  std::vector<float> last_logits(std::span<const int32_t> tokens, size_t chunk) {
    size_t begin = 0;
    std::vector<float> logits;
    while (begin < tokens.size()) {
      const size_t rest = (tokens.size() - begin) % chunk;
      const size_t end = begin + (rest == 0 ? chunk : rest);
      logits = step(tokens.subspan(begin, end - begin), begin, /*uniform=*/false);
      begin = end;
    }
    return logits;
  }

  // Logits after each token, one token per step, so that every step replays a FULL decode graph.
  std::vector<std::vector<float>> decoded_logits(std::span<const int32_t> tokens) {
    std::vector<std::vector<float>> all;
    for (size_t i = 0; i < tokens.size(); ++i) all.push_back(step(tokens.subspan(i, 1), i, true));
    return all;
  }

  TinyEngine& engine() { return engine_; }

 private:
  std::vector<float> step(std::span<const int32_t> tokens, size_t computed, bool uniform) {
    const scheduler::StepEntry row{.token_ids = tokens,
                                   .num_computed_tokens = static_cast<int32_t>(computed),
                                   .block_ids = blocks_,
                                   .state_slot = kv_cache::StateSlot{2},
                                   .samples = true};
    const runner::StepResult& result = engine_.runner().execute(
        {&row, 1},
        {.num_tokens = static_cast<int32_t>(tokens.size()), .num_reqs = 1, .uniform = uniform});
    if (tokens.size() <= 32) {  // the largest size this engine captures
      EXPECT_EQ(result.decision.mode,
                uniform ? cudagraph::CudagraphRuntimeMode::FULL
                        : cudagraph::CudagraphRuntimeMode::PIECEWISE);
    }
    return engine_.logits(result);
  }

  TinyEngine engine_;
  static constexpr int32_t kBlocks = 16;
  std::vector<kv_cache::BlockId> blocks_;
};

inline std::string test_name(std::string name) {
  std::replace_if(name.begin(), name.end(), [](char c) { return c == '-' || c == '/'; }, '_');
  return name;
}

}  // namespace reprise::testing
