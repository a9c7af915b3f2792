#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reprise/tensor/attention_plan.h"

namespace reprise::attention {

struct AttentionPlanOptions {
  /// The number of work items, summed over all key/value heads, that keeps the device busy. If a
  /// batch has fewer items, long contexts are cut into parts.
  int32_t wanted_items = 128;
  /// The smallest number of positions in a part. Cutting smaller parts costs more time than it
  /// saves. A multiple of 32.
  int32_t least_positions = 256;
  /// The number of prompt tokens in one work item.
  int32_t tokens_per_item = 16;
};

/// The largest number of parts that a plan can have, over all batches.
[[nodiscard]] int32_t most_parts(const AttentionPlanOptions& options, int64_t num_kv_heads);

/// Divides the attention of one batch into work items and writes the plan to `plan` (see
/// attention_plan.h), which has room for plan_size(requests) values. If the batch has too few
/// items, the contexts of requests with one token are cut into parts. The plan depends only on the
/// lengths and not on padding, so sums are computed in the same order in every mode. Allocates
/// nothing.
void write_attention_plan(std::span<const int32_t> query_start_loc,  // [num_reqs + 1]
                          std::span<const int32_t> seq_lens,         // [num_reqs]
                          int64_t num_kv_heads,
                          const AttentionPlanOptions& options,
                          std::span<int32_t> plan);

}  // namespace reprise::attention
