#include "reprise/attention/write_attention_plan.h"

#include <algorithm>
#include <cstring>

#include "reprise/base/assert.h"

namespace reprise::attention {
namespace {

int32_t ceil_div(int32_t a, int32_t b) { return (a + b - 1) / b; }

int32_t wanted_items_per_head(const AttentionPlanOptions& options, int64_t num_kv_heads) {
  return std::max<int32_t>(
      1, options.wanted_items / static_cast<int32_t>(std::max<int64_t>(1, num_kv_heads)));
}

struct Lengths {
  std::span<const int32_t> query_start_loc;
  std::span<const int32_t> seq_lens;

  [[nodiscard]] size_t num_reqs() const { return seq_lens.size(); }
  [[nodiscard]] int32_t num_tokens(size_t r) const {
    return query_start_loc[r + 1] - query_start_loc[r];
  }
  [[nodiscard]] bool may_have_parts(size_t r) const { return num_tokens(r) == 1; }
};

int32_t num_items(const Lengths& lengths, size_t r, int32_t positions, int32_t tokens_per_item) {
  if (!lengths.may_have_parts(r)) return ceil_div(lengths.num_tokens(r), tokens_per_item);
  return std::max(1, ceil_div(lengths.seq_lens[r], positions));
}

int32_t num_items(const Lengths& lengths, int32_t positions, int32_t tokens_per_item) {
  int32_t items = 0;
  for (size_t r = 0; r < lengths.num_reqs(); ++r) {
    items += num_items(lengths, r, positions, tokens_per_item);
  }
  return items;
}

/// Returns the number of positions per part: the smallest multiple of least_positions that gives at
/// most `wanted` items. If the batch has enough items without parts, the result is at least the
/// longest context, so no context is cut.
int32_t choose_positions(const Lengths& lengths,
                         int32_t wanted,
                         const AttentionPlanOptions& options) {
  int32_t longest = 1;
  for (size_t r = 0; r < lengths.num_reqs(); ++r) {
    if (lengths.may_have_parts(r)) longest = std::max(longest, lengths.seq_lens[r]);
  }
  int32_t low = 1;  // the number of positions, in units of least_positions
  int32_t high = ceil_div(longest, options.least_positions);
  while (low < high) {
    const int32_t middle = (low + high) / 2;
    if (num_items(lengths, middle * options.least_positions, options.tokens_per_item) <= wanted) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low * options.least_positions;
}

}  // namespace

int32_t most_parts(const AttentionPlanOptions& options, int64_t num_kv_heads) {
  return wanted_items_per_head(options, num_kv_heads);
}

void write_attention_plan(std::span<const int32_t> query_start_loc,
                          std::span<const int32_t> seq_lens,
                          int64_t num_kv_heads,
                          const AttentionPlanOptions& options,
                          std::span<int32_t> plan) {
  const Lengths lengths{query_start_loc, seq_lens};
  REPRISE_ASSERT(
      query_start_loc.size() == seq_lens.size() + 1 &&
          plan.size() >= static_cast<size_t>(plan_size(static_cast<int64_t>(seq_lens.size()))),
      "the attention plan has {} values, which do not fit {} requests",
      plan.size(),
      seq_lens.size());
  const int32_t positions =
      choose_positions(lengths, wanted_items_per_head(options, num_kv_heads), options);
  AttentionPlanHeader header{.num_reqs = static_cast<int32_t>(lengths.num_reqs()),
                             .num_tokens = query_start_loc.back(),
                             .num_items = 0,
                             .num_parts = 0,
                             .positions_per_part = positions,
                             .tokens_per_item = options.tokens_per_item,
                             .reserved = {}};
  int32_t* words = plan.data() + sizeof header / sizeof(int32_t);
  for (size_t r = 0; r < lengths.num_reqs(); ++r) {
    const int32_t items = num_items(lengths, r, positions, options.tokens_per_item);
    const bool has_parts = lengths.may_have_parts(r) && items > 1;
    const PlannedRequest request{.first_item = header.num_items,
                                 .first_token = query_start_loc[r],
                                 .num_tokens = lengths.num_tokens(r),
                                 .seq_len = seq_lens[r],
                                 .first_part = has_parts ? header.num_parts : -1,
                                 .reserved = {}};
    std::memcpy(words, &request, sizeof request);
    words += sizeof request / sizeof(int32_t);
    header.num_items += items;
    if (has_parts) header.num_parts += items;
  }
  std::memcpy(plan.data(), &header, sizeof header);
}

}  // namespace reprise::attention
