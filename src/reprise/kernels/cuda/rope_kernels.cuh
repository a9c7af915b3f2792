#pragma once

#include "reprise/kernels/cuda/block.cuh"
#include "reprise/kernels/cuda/cache_codes.cuh"
#include "reprise/kernels/cuda/row_kernels.cuh"
#include "reprise/kernels/kv_write/kv_write_arguments.h"
#include "reprise/kernels/rope/rope_arguments.h"
#include "reprise/kernels/rope_kv_write/rope_kv_write_arguments.h"

// Works on heads of q, k and v: a warp computes one head of one token.
namespace reprise::kernels::cuda {

/// Clamped, so that a stale position of a padding row cannot read outside the table.
REPRISE_DEVICE const float* rope_row(const float* table,
                                     int64_t position,
                                     int64_t max_position,
                                     int64_t stride) {
  return table + max_of(0, min_of(position, max_position - 1)) * stride;
}

/// The element of a head after its norm, rounded the same as by a store of the norm.
template <typename T>
REPRISE_DEVICE float normed(const T* x, const T* weight, int64_t i, float scale) {
  const float value = as_float(x[i]);
  return weight == nullptr ? value : rounded<T>(value * scale * as_float(weight[i]));
}

template <typename T>
REPRISE_DEVICE void rotate_pair(float x1, float x2, float cosine, float sine, T* out1, T* out2) {
  put(out1, x1 * cosine - x2 * sine);
  put(out2, x2 * cosine + x1 * sine);
}

enum class HeadSide : int { q, k, v };

/// The place where a head of q, k or v is stored; heads are numbered q first, then k, then v.
template <typename T>
struct HeadPlace {
  HeadSide side;
  T* out;  // nullptr: the token has no slot, and the head is k's or v's
};

template <typename T>
REPRISE_DEVICE HeadPlace<T> head_place(const RopeAndCache& to, int64_t token, int64_t head) {
  if (head < to.heads) {
    return {HeadSide::q, static_cast<T*>(to.q_out) + (token * to.heads + head) * to.head_dim};
  }
  const bool is_value = head >= to.heads + to.kv_heads;
  const HeadSide side = is_value ? HeadSide::v : HeadSide::k;
  const int64_t slot = to.slot_mapping[token];
  // A write to a slot beyond the cache would overwrite other memory.
  if (slot < 0 || slot >= to.num_slots) return {side, nullptr};
  const int64_t h = (head - to.heads) % to.kv_heads;
  const int64_t row =
      (slot / to.block_size * to.kv_heads + h) * to.block_size + slot % to.block_size;
  return {side, static_cast<T*>(is_value ? to.value_cache : to.key_cache) + row * to.head_dim};
}

template <typename T>
REPRISE_DEVICE void rope_head(
    const T* x, const T* norm, float epsilon, T* out, const float* table, int64_t head_dim) {
  const Team team{lane_index(), kWarpSize};
  const float scale = norm == nullptr ? 1.0F : rms_norm_scale(x, head_dim, epsilon, team);
  const int64_t half = head_dim / 2;
  for (int64_t i = lane_index(); i < half; i += kWarpSize) {
    const float x1 = normed(x, norm, i, scale);
    const float x2 = normed(x, norm, half + i, scale);
    rotate_pair(x1, x2, table[i], table[half + i], out + i, out + half + i);
  }
}

/// Calls act(token, head) for the block's tokens and their heads; all lanes of a warp take part.
template <typename Act>
REPRISE_DEVICE void for_each_head(int64_t tokens_per_block,
                                  int64_t num_tokens,
                                  int64_t heads,
                                  const Act& act) {
  const int64_t first = block_index() * tokens_per_block;
  const int64_t last = min_of(first + tokens_per_block, num_tokens);
  for (int64_t i = warp_index(); i < (last - first) * heads; i += num_warps()) {
    act(first + i / heads, i % heads);
  }
}

template <typename T>
REPRISE_DEVICE void rope(const RopeArguments& a) {
  for_each_head(
      a.tokens_per_block, a.num_tokens, a.q.heads + a.k.heads, [&](int64_t token, int64_t head) {
        const RopeSide& side = head < a.q.heads ? a.q : a.k;
        const int64_t h = head < a.q.heads ? head : head - a.q.heads;
        rope_head<T>(
            static_cast<const T*>(side.x) + token * side.token_stride + h * side.head_stride,
            nullptr,
            0,
            static_cast<T*>(side.out) + (token * side.heads + h) * a.head_dim,
            rope_row(a.cos_sin, a.positions[token], a.max_position, a.table_stride),
            a.head_dim);
      });
}

/// The row of a cache of eight bits for a head of k or v. nullptr: the token has no slot.
REPRISE_DEVICE char* codes_place(const RopeAndCache& to, int64_t token, int64_t head) {
  const int64_t slot = to.slot_mapping[token];
  if (slot < 0 || slot >= to.num_slots) return nullptr;
  const int64_t h = (head - to.heads) % to.kv_heads;
  const int64_t row =
      (slot / to.block_size * to.kv_heads + h) * to.block_size + slot % to.block_size;
  const bool is_value = head >= to.heads + to.kv_heads;
  return static_cast<char*>(is_value ? to.value_cache : to.key_cache) + row * to.rows.row_bytes;
}

/// Writes a head of k, after norm and rotation, or of v to a cache of eight bits. The bits are
/// those of the head that a cache of the model's type gets, quantised.
template <typename T>
REPRISE_DEVICE void write_head_of_codes(const RopeAndCache& to,
                                        int64_t token,
                                        int64_t head,
                                        const T* x) {
  char* place = codes_place(to, token, head);
  if (place == nullptr) return;
  if (head >= to.heads + to.kv_heads) {
    write_codes(
        to.rows, to.head_dim, to.rows.v_scale, place, [&](int64_t i) { return as_float(x[i]); });
    return;
  }
  const auto* norm = static_cast<const T*>(to.k_norm);
  const Team team{lane_index(), kWarpSize};
  const float scale = norm == nullptr ? 1.0F : rms_norm_scale(x, to.head_dim, to.epsilon, team);
  const float* table = rope_row(to.cos_sin, to.positions[token], to.max_position, to.table_stride);
  const int64_t half = to.head_dim / 2;
  write_codes(to.rows, to.head_dim, to.rows.k_scale, place, [&](int64_t i) {
    const int64_t pair = i < half ? i : i - half;
    T rotated[2];
    rotate_pair(normed(x, norm, pair, scale),
                normed(x, norm, half + pair, scale),
                table[pair],
                table[half + pair],
                rotated,
                rotated + 1);
    return as_float(i < half ? rotated[0] : rotated[1]);
  });
}

template <typename T>
REPRISE_DEVICE void rope_kv_write(const RopeKvWriteArguments& a) {
  const RopeAndCache& to = a.to;
  const int64_t all_heads = to.heads + 2 * to.kv_heads;
  for_each_head(a.tokens_per_block, a.num_tokens, all_heads, [&](int64_t token, int64_t head) {
    const HeadPlace<T> place = head_place<T>(to, token, head);
    if (place.out == nullptr) return;
    const bool is_query = place.side == HeadSide::q;
    const StridedHeads& from = is_query ? a.q : (place.side == HeadSide::v ? a.v : a.k);
    const int64_t h = is_query ? head : (head - to.heads) % to.kv_heads;
    const T* x = static_cast<const T*>(from.x) + token * from.token_stride + h * from.head_stride;
    if (!is_query && to.rows.type != CacheType::like_model) {
      write_head_of_codes(to, token, head, x);
      return;
    }
    if (place.side == HeadSide::v) {
      for (int64_t i = lane_index(); i < to.head_dim; i += kWarpSize) place.out[i] = x[i];
      return;
    }
    rope_head<T>(x,
                 static_cast<const T*>(is_query ? to.q_norm : to.k_norm),
                 to.epsilon,
                 place.out,
                 rope_row(to.cos_sin, to.positions[token], to.max_position, to.table_stride),
                 to.head_dim);
  });
}

REPRISE_DEVICE void kv_write(const KvWriteArguments& a) {
  for_each_head(a.tokens_per_block, a.num_tokens, 2 * a.kv_heads, [&](int64_t token, int64_t head) {
    const int64_t slot = a.slot_mapping[token];
    if (slot < 0 || slot >= a.num_slots) return;
    const bool is_value = head >= a.kv_heads;
    const int64_t h = head % a.kv_heads;
    const int64_t row = (slot / a.block_size * a.kv_heads + h) * a.block_size + slot % a.block_size;
    const char* from =
        is_value ? static_cast<const char*>(a.v) + token * a.v_token_stride + h * a.v_head_stride
                 : static_cast<const char*>(a.k) + token * a.k_token_stride + h * a.k_head_stride;
    char* cache = static_cast<char*>(is_value ? a.value_cache : a.key_cache);
    copy_bytes(from, cache + row * a.head_bytes, a.head_bytes, lane_index(), kWarpSize);
  });
}

/// The same for caches of eight bits. Strides are in elements of type T.
template <typename T>
REPRISE_DEVICE void kv_write_quant(const KvWriteQuantArguments& a) {
  for_each_head(a.tokens_per_block, a.num_tokens, 2 * a.kv_heads, [&](int64_t token, int64_t head) {
    const int64_t slot = a.slot_mapping[token];
    if (slot < 0 || slot >= a.num_slots) return;
    const bool is_value = head >= a.kv_heads;
    const int64_t h = head % a.kv_heads;
    const int64_t row = (slot / a.block_size * a.kv_heads + h) * a.block_size + slot % a.block_size;
    const T* x = is_value
                     ? static_cast<const T*>(a.v) + token * a.v_token_stride + h * a.v_head_stride
                     : static_cast<const T*>(a.k) + token * a.k_token_stride + h * a.k_head_stride;
    char* cache = static_cast<char*>(is_value ? a.value_cache : a.key_cache);
    write_codes(a.rows,
                a.head_dim,
                is_value ? a.rows.v_scale : a.rows.k_scale,
                cache + row * a.rows.row_bytes,
                [&](int64_t i) { return as_float(x[i]); });
  });
}

}  // namespace reprise::kernels::cuda
