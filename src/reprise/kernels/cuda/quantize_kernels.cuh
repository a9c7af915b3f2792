#pragma once

#include "reprise/kernels/cuda/row_kernels.cuh"
#include "reprise/kernels/embedding/embedding_arguments.h"
#include "reprise/kernels/quantize/quantize_arguments.h"
#include "reprise/tensor/int8_panels.h"

// Rows of eight bits with one scale, and rows of a table of int8, with the arguments and the bits
// of the CPU kernels of the same names.
namespace reprise::kernels::cuda {

REPRISE_DEVICE float largest_of(const int8_t*) { return 127.0F; }
REPRISE_DEVICE float largest_of(const Float8E4M3*) { return 448.0F; }

/// The largest of the values of a row's threads.
REPRISE_DEVICE uint32_t largest_of_team(uint32_t value, const Team& team) {
  const auto larger_of = [](uint32_t a, uint32_t b) { return a > b ? a : b; };
  for (int mask = 1; mask < kWarpSize; mask *= 2) {
    value = larger_of(value, static_cast<uint32_t>(shuffle_xor(uint64_t{value}, mask)));
  }
  if (team.size == kWarpSize) return value;
  auto* parts = reinterpret_cast<uint32_t*>(shared_memory());
  if (lane_index() == 0) parts[warp_index()] = value;
  sync_block();
  for (int warp = 0; warp < num_warps(); ++warp) value = larger_of(value, parts[warp]);
  sync_block();
  return value;
}

/// The codes of two numbers, the first one in the low bits.
REPRISE_DEVICE uint32_t two_codes(const int8_t*, float first, float second) {
  int8_t codes[2];
  store_element(codes, first);
  store_element(codes + 1, second);
  return static_cast<uint8_t>(codes[0]) | uint32_t{static_cast<uint8_t>(codes[1])} << 8;
}
REPRISE_DEVICE uint32_t two_codes(const Float8E4M3*, float first, float second) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  uint16_t codes;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(second), "f"(first));
  return codes;
#else
  Float8E4M3 codes[2];
  store_element(codes, first);
  store_element(codes + 1, second);
  return codes[0].bits | uint32_t{codes[1].bits} << 8;
#endif
}

/// Stores up to eight quantised numbers.
template <typename Q>
REPRISE_DEVICE void store_codes(Q* q, int64_t count, const float (&values)[kColumns], float scale) {
  uint32_t words[2] = {};
  REPRISE_UNROLL
  for (int i = 0; i < kColumns; i += 2) {
    words[i / 4] |= two_codes(q, values[i] / scale, values[i + 1] / scale) << (i % 4 * 8);
  }
  if (count >= kColumns && reinterpret_cast<uintptr_t>(q) % 4 == 0) {
    auto* out = reinterpret_cast<uint32_t*>(q);
    out[0] = words[0];
    out[1] = words[1];
    return;
  }
  auto* out = reinterpret_cast<uint8_t*>(q);
  for (int i = 0; i < kColumns && i < count; ++i) {
    out[i] = static_cast<uint8_t>(words[i / 4] >> (i % 4 * 8));
  }
}

/// The scale of numbers whose largest magnitude is given, for codes of Q.
template <typename Q>
REPRISE_DEVICE float scale_of_largest(float magnitude, const Q* q) {
  const bool is_tiny = magnitude < kSmallestQuantizedMagnitude;  // false for a NaN
  return (is_tiny ? kSmallestQuantizedMagnitude : magnitude) / largest_of(q);
}

/// Quantises a row, by all threads of a team. `values_of(column, count, values)` gives up to eight
/// elements, and zeros after them. It is called twice, because the scale depends on the whole row.
template <typename Q, typename ValuesOf>
REPRISE_DEVICE void quantize_whole_row(
    int64_t width, Q* q, float* scale_of_row, const Team& team, const ValuesOf& values_of) {
  // The bits of magnitudes have the order of the magnitudes, and a NaN is larger than all.
  uint32_t largest = 0;
  for_each_columns(team, 0, width, [&](int64_t column, int64_t count) {
    float values[kColumns];
    values_of(column, count, values);
    for (float value : values) {
      const uint32_t magnitude = bits_of(value) & 0x7fffffffU;
      largest = magnitude > largest ? magnitude : largest;
    }
  });
  const float scale = scale_of_largest(float_of(largest_of_team(largest, team)), q);
  for_each_columns(team, 0, width, [&](int64_t column, int64_t count) {
    float values[kColumns];
    values_of(column, count, values);
    store_codes(q + column, count, values, scale);
  });
  if (team.rank == 0) *scale_of_row = scale;
}

/// Calls act(row, team) for each row of the calling block.
template <typename Act>
REPRISE_DEVICE void for_each_quantized_row(const QuantizeRowsArguments& a, const Act& act) {
  for_each_row(row_tile(a.tiles, block_index()), a.tiles.width, act);
}

template <typename T, typename Q>
REPRISE_DEVICE void quantize_per_token(const QuantizeRowsArguments& a) {
  const int64_t width = a.tiles.width;
  for_each_quantized_row(a, [&](int64_t row, const Team& team) {
    const T* x = static_cast<const T*>(a.x) + row_offset(a.x_layout, row);
    quantize_whole_row(width,
                       static_cast<Q*>(a.q) + row * width,
                       a.scales + row,
                       team,
                       [&](int64_t column, int64_t count, float (&values)[kColumns]) {
                         load_columns(x + column, count, values);
                       });
  });
}

/// Quantises the norm of a row, rounded as if the norm were stored.
template <typename T, typename Q>
REPRISE_DEVICE void quantize_norm(const QuantizeRowsArguments& a,
                                  int64_t row,
                                  const T* x,
                                  const Team& team) {
  const int64_t width = a.tiles.width;
  const T* weight = static_cast<const T*>(a.weight);
  const float norm = rms_norm_scale(x, width, a.epsilon, team);
  quantize_whole_row(width,
                     static_cast<Q*>(a.q) + row * width,
                     a.scales + row,
                     team,
                     [&](int64_t column, int64_t count, float (&values)[kColumns]) {
                       float weights[kColumns];
                       load_columns(x + column, count, values);
                       load_columns(weight + column, count, weights);
                       for (int i = 0; i < kColumns; ++i) {
                         values[i] = rounded<T>(values[i] * norm * weights[i]);
                       }
                     });
}

template <typename T, typename Q>
REPRISE_DEVICE void rms_norm_quant(const QuantizeRowsArguments& a) {
  for_each_quantized_row(a, [&](int64_t row, const Team& team) {
    const T* x = static_cast<const T*>(a.x) + row_offset(a.x_layout, row);
    quantize_norm<T, Q>(a, row, x, team);
  });
}

template <typename T, typename Q>
REPRISE_DEVICE void fused_add_rms_norm_quant(const QuantizeRowsArguments& a) {
  const int64_t width = a.tiles.width;
  for_each_quantized_row(a, [&](int64_t row, const Team& team) {
    T* sum = static_cast<T*>(a.sum) + row * width;
    add_to_row(static_cast<const T*>(a.residual) + row_offset(a.residual_layout, row),
               static_cast<const T*>(a.x) + row_offset(a.x_layout, row),
               sum,
               width,
               team);
    quantize_norm<T, Q>(a, row, sum, team);
  });
}

template <typename T, typename Q>
REPRISE_DEVICE void silu_and_mul_quant(const QuantizeRowsArguments& a) {
  const int64_t width = a.tiles.width;
  for_each_quantized_row(a, [&](int64_t row, const Team& team) {
    const T* gate = static_cast<const T*>(a.x) + row_offset(a.x_layout, row);
    quantize_whole_row(width,
                       static_cast<Q*>(a.q) + row * width,
                       a.scales + row,
                       team,
                       [&](int64_t column, int64_t count, float (&values)[kColumns]) {
                         float ups[kColumns];
                         load_columns(gate + column, count, values);
                         load_columns(gate + width + column, count, ups);
                         for (int i = 0; i < kColumns; ++i) {
                           values[i] = rounded<T>(silu(values[i]) * ups[i]);
                         }
                       });
  });
}

template <typename T, typename Q>
REPRISE_DEVICE void quantize_static(const QuantizeStaticArguments& a) {
  for_each_tile_columns(a.tiles, [&](int64_t row, int64_t column, int64_t count) {
    float values[kColumns];
    load_columns(static_cast<const T*>(a.x) + row_offset(a.x_layout, row) + column, count, values);
    store_codes(static_cast<Q*>(a.q) + row * a.tiles.width + column, count, values, *a.scale);
  });
}

/// Rows of a table in int8 panels.
template <typename T>
REPRISE_DEVICE void int8_embedding(const EmbeddingArguments& a) {
  constexpr int kFour = 4;
  const int64_t width = a.tiles.width;
  const RowTile tile = row_tile(a.tiles, block_index());
  for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
    T* out = static_cast<T*>(a.out) + row * width;
    const int64_t id = a.ids[row];
    const bool is_there = id >= 0 && id < a.table_rows;
    const float scale =
        is_there ? float_of(load_word(a.table + int8_scale_offset(id, width))) : 0.0F;
    for (int64_t i = int64_t{thread_index()} * kFour; i < width; i += num_threads() * kFour) {
      const uint32_t codes = is_there ? load_word(a.table + int8_panel_offset(id, i, width)) : 0;
      for (int j = 0; j < kFour; ++j) {
        put(out + i + j, scale * static_cast<float>(static_cast<int8_t>(codes >> (8 * j))));
      }
    }
  }
}

}  // namespace reprise::kernels::cuda
