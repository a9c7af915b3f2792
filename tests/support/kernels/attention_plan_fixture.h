#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "reprise/tensor/attention_plan.h"

/// For tests of attention kernels only: attention plans that do not come from a batch.
namespace reprise::kernels {

struct PlannedLengths {
  int32_t query;    // tokens of the step
  int32_t context;  // positions in the cache, with the tokens of this step
};

struct PlanOptions {
  int32_t positions_per_part = 32;
  int32_t tokens_per_item = 4;
  bool parts = true;  // whether contexts of requests with one token are divided into parts
};

struct TestPlan {
  std::vector<int32_t> words;
  int32_t num_parts = 0;
};

inline TestPlan make_test_plan(std::span<const PlannedLengths> requests,
                               const PlanOptions& options) {
  AttentionPlanHeader header{};
  header.num_reqs = static_cast<int32_t>(requests.size());
  header.positions_per_part = options.positions_per_part;
  header.tokens_per_item = options.tokens_per_item;
  const auto ceil_div = [](int32_t a, int32_t b) { return (a + b - 1) / b; };
  std::vector<PlannedRequest> planned;
  for (const PlannedLengths& request : requests) {
    const bool has_parts =
        options.parts && request.query == 1 && request.context > options.positions_per_part;
    planned.push_back({.first_item = header.num_items,
                       .first_token = header.num_tokens,
                       .num_tokens = request.query,
                       .seq_len = request.context,
                       .first_part = has_parts ? header.num_parts : -1,
                       .reserved = {}});
    const int32_t items = has_parts ? ceil_div(request.context, options.positions_per_part)
                                    : ceil_div(request.query, options.tokens_per_item);
    header.num_items += items;
    header.num_tokens += request.query;
    if (has_parts) header.num_parts += items;
  }
  TestPlan plan{std::vector<int32_t>(static_cast<size_t>(plan_size(header.num_reqs))),
                header.num_parts};
  std::memcpy(plan.words.data(), &header, sizeof header);
  std::ranges::copy(std::as_bytes(std::span(planned)),
                    std::as_writable_bytes(std::span(plan.words)).begin() + sizeof header);
  return plan;
}

}  // namespace reprise::kernels
