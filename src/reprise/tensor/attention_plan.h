#pragma once

#include <cstdint>

namespace reprise {

/// The attention plan of one batch: a header, then one PlannedRequest for each request, in batch
/// order. The host writes it and kernels read it. It has only integers, so its bytes are the same
/// on every device.
///
/// For each key/value head, the plan divides the attention of the batch into work items. Request r
/// owns the items from its first_item up to the first_item of request r + 1. If the context of a
/// request is long enough to have parts, one item computes `positions_per_part` positions of that
/// context. Otherwise one item computes `tokens_per_item` tokens of the request over all of their
/// positions.
///
/// The plan repeats the lengths that are also in the batch's tensors. A kernel compares them, and
/// it writes NaN to every row of a request whose lengths differ. So a plan of another batch cannot
/// go unnoticed.
struct AttentionPlanHeader {
  int32_t num_reqs;
  int32_t num_tokens;  // the sum over all requests; later rows are padding
  int32_t num_items;
  int32_t num_parts;           // the sum over all requests that have parts
  int32_t positions_per_part;  // a multiple of 32
  int32_t tokens_per_item;
  int32_t reserved[2];
};

struct PlannedRequest {
  int32_t first_item;
  int32_t first_token;
  int32_t num_tokens;
  int32_t seq_len;
  int32_t first_part;  // number of the request's first partial result; -1: the request has no parts
  int32_t reserved[3];
};

/// The number of int32 values in an attention plan for `num_reqs` requests.
[[nodiscard]] constexpr int64_t plan_size(int64_t num_reqs) noexcept {
  return static_cast<int64_t>(
      (sizeof(AttentionPlanHeader) + static_cast<uint64_t>(num_reqs) * sizeof(PlannedRequest)) /
      sizeof(int32_t));
}

}  // namespace reprise
