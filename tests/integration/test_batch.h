#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "reprise/cudagraph/cudagraph_dispatcher.h"
#include "reprise/scheduler/step_entry.h"

namespace reprise::testing {

/// The kinds of requests in a batch.
enum class Mix { prefill, uniform_decode, mixed, chunked };

[[nodiscard]] const char* to_string(Mix mix);

/// A batch of `num_tokens` tokens with different tokens in every row, contexts of different
/// lengths, and separate blocks for every request.
class TestBatch {
 public:
  /// \pre num_tokens >= 1; a mixed batch needs room for at most `max_num_reqs` requests
  TestBatch(Mix mix, int32_t num_tokens, int32_t max_num_reqs, uint32_t seed);

  [[nodiscard]] std::span<const scheduler::StepEntry> requests() const { return requests_; }
  [[nodiscard]] cudagraph::BatchFacts facts() const;
  [[nodiscard]] int32_t num_blocks_used() const { return next_block_ - 1; }

 private:
  int32_t pick(int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(random_);
  }
  template <typename Computed, typename Samples>
  void add_split(int32_t num_tokens, int32_t reqs, Computed computed, Samples samples) {
    for (int32_t row = 0; row < reqs; ++row) {
      const int32_t begin = num_tokens * row / reqs;
      const int32_t end = num_tokens * (row + 1) / reqs;
      add_request(end - begin, computed(row), samples(row));
    }
  }
  void add_request(int32_t query_len, int32_t computed, bool samples);

  std::mt19937 random_;
  int32_t next_block_ = 1;  // 0 is the null block
  bool uniform_ = false;
  std::vector<std::vector<int32_t>> tokens_;
  std::vector<std::vector<kv_cache::BlockId>> blocks_;
  std::vector<int32_t> computed_;
  std::vector<bool> samples_;
  std::vector<scheduler::StepEntry> requests_;
};

}  // namespace reprise::testing
