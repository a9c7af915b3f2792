#pragma once

#include <cstdint>

namespace reprise {

/// The plan of one batch's attention, which a host writes and a kernel reads: a header, then one
/// PlannedRequest for each request, in batch order. A plan has only integers, and its bytes are the
/// same on every device.
///
/// A plan divides attention into items, separately for every key/value head. Request r has the
/// items [first_item, first_item of r + 1). If the request has parts, an item is
/// `positions_per_part` of its positions. Otherwise an item is `tokens_per_item` of its tokens over
/// all of their positions.
///
/// The plan repeats the lengths that the batch's own tensors hold. A kernel compares the two and
/// writes NaN to every row of a request whose lengths differ, so that the use of a wrong plan
/// shows.
struct AttentionPlanHeader {
  int32_t num_reqs;
  int32_t num_tokens;  // of all requests; later rows are padding
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
  int32_t first_part;  // number of its first partial result; -1: the request has no parts
  int32_t reserved[3];
};

/// The number of int32 values in a plan for so many requests.
[[nodiscard]] constexpr int64_t plan_size(int64_t num_reqs) noexcept {
  return static_cast<int64_t>(
      (sizeof(AttentionPlanHeader) + static_cast<uint64_t>(num_reqs) * sizeof(PlannedRequest)) /
      sizeof(int32_t));
}

}  // namespace reprise
