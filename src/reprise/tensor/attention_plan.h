#pragma once

#include <cstdint>

namespace reprise {

/// How the work of one batch's attention is cut up, as a host writes it and a kernel reads it: a
/// header, and behind it one PlannedRequest for each request, in batch order. Integers only; the
/// same bytes on every device.
///
/// Request r has the items [first_item, first_item of r + 1), of every key/value head. Of a request
/// with parts, an item is `positions_per_part` of its positions; of any other, `tokens_per_item` of
/// its tokens over all of their positions.
///
/// Lengths are stated twice, here and in the batch's own tensors: a kernel compares them and gives
/// NaN to every row of a request whose lengths are others, so that a plan of another batch shows.
struct AttentionPlanHeader {
  int32_t num_reqs;
  int32_t num_tokens;  // of all requests; rows behind them are padding
  int32_t num_items;
  int32_t num_parts;           // of all requests that have parts
  int32_t positions_per_part;  // a multiple of 32
  int32_t tokens_per_item;
  int32_t reserved[2];
};

struct PlannedRequest {
  int32_t first_item;
  int32_t first_token;
  int32_t num_tokens;
  int32_t seq_len;
  int32_t first_part;  // where its partial results lie; -1: it has no parts
  int32_t reserved[3];
};

/// int32 values that a plan for so many requests takes.
[[nodiscard]] constexpr int64_t plan_size(int64_t num_reqs) noexcept {
  return static_cast<int64_t>(
      (sizeof(AttentionPlanHeader) + static_cast<uint64_t>(num_reqs) * sizeof(PlannedRequest)) /
      sizeof(int32_t));
}

}  // namespace reprise
