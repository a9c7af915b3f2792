#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reprise/tensor/attention_plan.h"

namespace reprise::attention {

struct AttentionPlanOptions {
  /// The number of work items, over all key/value heads, that keeps a device busy. With fewer
  /// items, contexts are cut into parts.
  int32_t wanted_items = 128;
  /// The fewest positions of a part: cutting smaller parts costs more time than it saves. Multiple
  /// of 32.
  int32_t least_positions = 256;
  /// The number of tokens of a prompt that form one item.
  int32_t tokens_per_item = 16;
};

/// The most parts that the plan of any batch can have.
[[nodiscard]] int32_t most_parts(const AttentionPlanOptions& options, int64_t num_kv_heads);

/// Divides the attention of one batch into items and writes the result to `plan` (see
/// attention_plan.h), which holds plan_size(requests) values. Requests with one token get parts
/// when the batch has too few items without them. The plan depends only on the lengths, not on
/// padding, so a batch is computed in the same order in every mode. Allocates nothing.
void write_attention_plan(std::span<const int32_t> query_start_loc,  // [num_reqs + 1]
                          std::span<const int32_t> seq_lens,         // [num_reqs]
                          int64_t num_kv_heads,
                          const AttentionPlanOptions& options,
                          std::span<int32_t> plan);

}  // namespace reprise::attention
