#include "tests/integration/test_batch.h"

#include <algorithm>
#include <utility>

#include "tests/integration/tiny_engine.h"

namespace reprise::testing {

const char* to_string(Mix mix) {
  switch (mix) {
    case Mix::prefill:
      return "prefill";
    case Mix::uniform_decode:
      return "uniform decode";
    case Mix::mixed:
      return "mixed";
    case Mix::chunked:
      return "chunked";
  }
  return "?";
}

TestBatch::TestBatch(Mix mix, int32_t num_tokens, int32_t max_num_reqs, uint32_t seed)
    : random_(seed) {
  if (mix == Mix::uniform_decode) {
    for (int32_t i = 0; i < num_tokens; ++i) add_request(1, pick(1, 60), true);
  } else if (mix == Mix::prefill) {
    const int32_t reqs = std::min(max_num_reqs, std::max(1, num_tokens / 7));
    add_split(num_tokens, reqs, [](int32_t) { return 0; }, [](int32_t) { return true; });
  } else if (mix == Mix::chunked) {
    const int32_t reqs = std::min(max_num_reqs, std::max(1, num_tokens / 5));
    add_split(
        num_tokens,
        reqs,
        [this](int32_t) { return pick(1, 40); },
        [](int32_t row) { return row % 2 == 0; });
  } else {
    const int32_t decodes = std::min(max_num_reqs - 1, num_tokens / 2);
    for (int32_t i = 0; i < decodes; ++i) add_request(1, pick(1, 60), true);
    add_request(num_tokens - decodes, pick(0, 20), true);
  }
  uniform_ = mix == Mix::uniform_decode;
  requests_.reserve(tokens_.size());
  for (size_t i = 0; i < tokens_.size(); ++i) {
    requests_.push_back(
        {.token_ids = tokens_[i],
         .num_computed_tokens = computed_[i],
         .block_ids = blocks_[i],
         // Not the place in the batch, and within the smallest limits of tests.
         .state_slot = kv_cache::StateSlot{static_cast<int32_t>(tokens_.size() - i)},
         .samples = samples_[i]});
  }
}

cudagraph::BatchFacts TestBatch::facts() const {
  int32_t tokens = 0;
  for (const auto& row : tokens_) tokens += static_cast<int32_t>(row.size());
  return {.num_tokens = tokens,
          .num_reqs = static_cast<int32_t>(requests_.size()),
          .uniform = uniform_};
}

void TestBatch::add_request(int32_t query_len, int32_t computed, bool samples) {
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < query_len; ++i) ids.push_back(pick(0, 96));
  std::vector<kv_cache::BlockId> blocks;
  for (int32_t i = 0; i * TinyEngine::kBlockSize < computed + query_len; ++i) {
    blocks.push_back(kv_cache::BlockId{next_block_++});
  }
  tokens_.push_back(std::move(ids));
  blocks_.push_back(std::move(blocks));
  computed_.push_back(computed);
  samples_.push_back(samples);
}

}  // namespace reprise::testing
