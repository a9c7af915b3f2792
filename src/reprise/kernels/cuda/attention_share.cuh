#pragma once

#include "reprise/kernels/cuda/attention_tile.cuh"

// How a launch divides decode attention. Every block reads the context lengths of the batch and
// finds its own work in them, so a captured launch with a fixed grid fits every batch of its shape.
//
// The number of parts of a request depends on its own context, so a row has the same bits in every
// batch. Only if the parts of all requests do not fit into the workspace, all requests with parts
// get half as many, a quarter as many, and so on.
//
// Fixed parts (fixed_attention_kernels.cuh) begin at the same positions in every request, and tiles
// have sixteen rows. If they do not fit, a block computes all parts of a tile, one after the other.
namespace reprise::kernels::cuda {

/// How many parts a request may have.
enum class PartLimit : int32_t {
  decoding,  // kMostParts
  latents,   // the same, and at most kMostLatentPartRows rows of partial results
};

/// The work for one request: units of one tile and one part each.
struct RequestWork {
  RequestTokens r;
  int64_t rows;  // 0: another launch serves the request, or it has no tokens
  int64_t parts;
  bool has_small_tiles;  // of sixteen rows

  [[nodiscard]] REPRISE_DEVICE int64_t tile_rows() const {
    return has_small_tiles ? kAttentionWarpRows : kAttentionTileRows;
  }
  /// The divisors are constants, because a division of 64 bits is a call that saves registers.
  [[nodiscard]] REPRISE_DEVICE int64_t units() const {
    return parts * (has_small_tiles ? ceil_div(rows, kAttentionWarpRows)
                                    : ceil_div(rows, kAttentionTileRows));
  }
  /// The rows of partial results of one kv head.
  [[nodiscard]] REPRISE_DEVICE int64_t partial_rows() const { return parts > 1 ? rows * parts : 0; }
};

/// \pre rows > 0
template <PartLimit kLimit>
REPRISE_DEVICE int64_t most_parts(int64_t rows) {
  if constexpr (kLimit == PartLimit::decoding) return kMostParts;
  return max_of(1, min_of(kMostParts, divide(kMostLatentPartRows, rows).quotient));
}

template <bool kUniform, PartLimit kLimit>
REPRISE_DEVICE RequestWork request_work(const CudaAttentionArguments& arguments,
                                        int64_t request,
                                        int halvings) {
  const AttentionKernelArguments& a = arguments.call;
  const bool is_fixed = arguments.division == AttentionDivision::fixed_parts;
  RequestWork work = {
      {request, 0, 0, 0}, 0, 0, arguments.division != AttentionDivision::by_context};
  if (request >= a.num_reqs) return work;
  work.r = kUniform ? uniform_request(a, request) : request_tokens(a, request);
  const int64_t tokens = kUniform
                             ? max_of(0, min_of(a.query_len, a.num_tokens - work.r.first_token))
                             : work.r.num_tokens;
  work.rows = serves(arguments, tokens) ? tokens * a.group_size : 0;
  if (work.rows == 0) return work;

  const int64_t first = window_begin_of(a, max_of(0, context_of(work.r, 0))) / kAttentionWarpRows;
  const int64_t end =
      ceil_div(max_of(0, context_of(work.r, tokens - 1)), int64_t{kAttentionWarpRows});
  if (is_fixed) {
    const int64_t count = ceil_div(end, kFixedPartSteps) - first / kFixedPartSteps;
    work.parts = halvings > 0 ? 1 : max_of(1, count);
    return work;
  }
  const int64_t own = ceil_div((end - first) * kAttentionWarpRows, int64_t{kLeastPartPositions});
  work.parts = ((max_of(1, min_of(most_parts<kLimit>(work.rows), own)) - 1) >> halvings) + 1;
  return work;
}

/// Two numbers that are added together: units in the high half, rows of partial results in the low
/// half.
struct WorkSum {
  uint64_t both = 0;

  WorkSum() = default;
  explicit REPRISE_DEVICE WorkSum(const RequestWork& work)
      : both((static_cast<uint64_t>(work.units()) << 32) |
             static_cast<uint64_t>(work.partial_rows())) {}
  [[nodiscard]] REPRISE_DEVICE int64_t units() const { return static_cast<int64_t>(both >> 32); }
  [[nodiscard]] REPRISE_DEVICE int64_t partial_rows() const {
    return static_cast<int64_t>(both & 0xffffffffU);
  }
};

/// The sums of the lanes before the calling lane, and of all lanes.
struct WorkScan {
  WorkSum before;
  WorkSum all;

  explicit REPRISE_DEVICE WorkScan(const WorkSum& mine) : all(mine) {
    for (int mask = 1; mask < kWarpSize; mask *= 2) {
      const uint64_t other = shuffle_xor(all.both, mask);
      if ((lane_index() & mask) != 0) before.both += other;
      all.both += other;
    }
  }
};

/// The work of the whole batch for one kv head.
struct BatchWork {
  int units;
  int halvings;  // of the number of parts
};

/// All lanes of a warp work together.
template <bool kUniform, PartLimit kLimit = PartLimit::decoding>
REPRISE_DEVICE BatchWork batch_work(const CudaAttentionArguments& arguments) {
  const AttentionKernelArguments& a = arguments.call;
  for (int halvings = 0;; ++halvings) {
    WorkSum sum;
    for (int64_t base = 0; base < a.num_reqs; base += kWarpSize) {
      sum.both +=
          WorkSum(request_work<kUniform, kLimit>(arguments, base + lane_index(), halvings)).both;
    }
    const WorkSum all = WorkScan(sum).all;
    // With one part per request there are no partial results.
    if (all.partial_rows() * a.kv_heads <= arguments.most_partial_rows)
      return {static_cast<int>(all.units()), halvings};
  }
}

/// A unit of work: one part of the positions of one tile. The integers are small, because they are
/// alive through the whole unit.
struct AttentionShare {
  AttentionTile tile;
  int part;
  int num_parts;
  int first_partial_row;  // of the tile's parts, for one kv head
};

/// Finds the unit with the number `unit`; all lanes of a warp work together.
template <bool kUniform, PartLimit kLimit = PartLimit::decoding>
REPRISE_DEVICE AttentionShare find_share(const CudaAttentionArguments& arguments,
                                         int64_t unit,
                                         int halvings) {
  const AttentionKernelArguments& a = arguments.call;
  WorkSum before;
  for (int64_t base = 0; base < a.num_reqs; base += kWarpSize) {
    const RequestWork mine =
        request_work<kUniform, kLimit>(arguments, base + lane_index(), halvings);
    const WorkScan scan{WorkSum(mine)};
    if (unit >= before.units() + scan.all.units()) {
      before.both += scan.all.both;
      continue;
    }
    // The lane whose request has the unit: as many lanes as lie wholly before the unit precede it.
    const int64_t end = before.units() + scan.before.units() + mine.units();
    const int lane = static_cast<int>(warp_sum(unit >= end ? 1.0F : 0.0F));
    const int64_t first_unit =
        before.units() + shuffle_from(static_cast<int>(scan.before.units()), lane);
    const int64_t first_row =
        before.partial_rows() + shuffle_from(static_cast<int>(scan.before.partial_rows()), lane);
    const RequestWork work = request_work<kUniform, kLimit>(arguments, base + lane, halvings);
    const Divided place = divide(unit - first_unit, work.parts);  // tile, part
    const int64_t tile_row = place.quotient * work.tile_rows();
    return {{work.r,
             tile_row,
             min_of(work.tile_rows(), work.rows - tile_row),
             work.rows <= kAttentionWarpRows || work.has_small_tiles},
            static_cast<int>(place.rest),
            static_cast<int>(work.parts),
            static_cast<int>(first_row + tile_row * work.parts)};
  }
  return {{{0, 0, 0, 0}, 0, 0, false}, 0, 1, 0};
}

}  // namespace reprise::kernels::cuda
