#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reprise/tensor/attention_plan.h"

namespace reprise::attention {

struct SplitPlanOptions {
  /// Items of work, over all key/value heads, that keep a device busy: with fewer, contexts are
  /// cut.
  int32_t wanted_items = 128;
  /// Positions that a part has at least: below, cutting costs more than it hides. Multiple of 32.
  int32_t least_positions = 256;
  /// Tokens of a prompt that are one item.
  int32_t tokens_per_item = 16;
};

/// Most parts that a plan has, whatever the batch.
[[nodiscard]] int32_t most_parts(const SplitPlanOptions& options, int64_t num_kv_heads);

/// Cuts up the attention of one batch and writes that down (see attention_plan.h) in `plan`, which
/// holds plan_size(requests) values. Requests with one token have parts where the batch has too few
/// items without them. Depends on the lengths alone, not on padding, so that a batch is computed in
/// the same order in every mode. Allocates nothing.
void write_split_plan(std::span<const int32_t> query_start_loc,  // [num_reqs + 1]
                      std::span<const int32_t> seq_lens,         // [num_reqs]
                      int64_t num_kv_heads,
                      const SplitPlanOptions& options,
                      std::span<int32_t> plan);

}  // namespace reprise::attention
