#pragma once

#include "reprise/kernels/cuda/packed_row_kernels.cuh"
#include "reprise/kernels/cuda/quantize_kernels.cuh"
#include "reprise/kernels/cuda/slot_ring.cuh"

// Rows of x that each block of a product norms, quantises, or both, instead of reading what a
// kernel before it wrote. They have the bits of quantize_blocks, rms_norm_quantize_blocks,
// quantize_per_token, rms_norm_quant and rms_norm. The functions here are for the
// kLinearWarps warps that multiply.
namespace reprise::kernels::cuda {

/// Rows of elements of 16 bits, aligned to 16 bytes.
template <typename T>
struct ElementRows {
  const T* x;
  int64_t stride;
  int width;            // a multiple of 32
  const T* norm;        // the weight of a norm, or nullptr
  const float* scales;  // of the norm of each row

  /// Eight elements as the quantisation sees them: a norm is rounded as if it were stored.
  REPRISE_DEVICE void find_values(const Words4& of_x,
                                  const Words4& of_norm,
                                  int row,
                                  float (&values)[kColumns]) const {
    const float scale = norm == nullptr ? 0 : scales[row];
    REPRISE_UNROLL
    for (int j = 0; j < kColumns; ++j) {
      values[j] = element_of<T>(of_x, j);
      if (norm != nullptr) values[j] = rounded<T>(values[j] * scale * element_of<T>(of_norm, j));
    }
  }
};

/// Where quantised rows are in shared memory.
struct OwnRowMemory {
  char* rows;
  int stride;     // bytes from one row to the next
  float* scales;  // of int8 rows
  float* parts;   // for what the warps find: kMostNormedRows * kLinearWarps floats
};

/// Calls act(row, column, values, is_there) for eight columns after the other of all rows below
/// `limit`, and of some that are not there. All lanes of a warp call act() together, and four
/// neighbours have neighbouring columns.
template <typename T, typename Act>
REPRISE_DEVICE void for_each_eight(const ElementRows<T>& rows, int limit, const Act& act) {
  constexpr int kAhead = 4;  // loads that are waited for together
  const int pieces = rows.width / kColumns;
  int row = 0;
  int piece = thread_index();
  while (true) {
    int row_of[kAhead];
    int column_of[kAhead];
    Words4 x[kAhead];
    Words4 norm[kAhead];
    REPRISE_UNROLL
    for (int i = 0; i < kAhead; ++i) {
      for (; piece >= pieces; piece -= pieces) ++row;
      row_of[i] = row;
      column_of[i] = piece * kColumns;
      x[i] = norm[i] = {{0, 0, 0, 0}};
      if (row < limit) {
        x[i] = load_words(rows.x + (row * rows.stride + column_of[i]));
        if (rows.norm != nullptr) norm[i] = load_words(rows.norm + column_of[i]);
      }
      piece += MultiplyingWarps::kThreads;
    }
    REPRISE_UNROLL
    for (int i = 0; i < kAhead; ++i) {
      if (shuffle_from(row_of[i], 0) >= limit) return;  // lane 0 has the first piece of a warp
      const bool is_there = row_of[i] < limit;
      float values[kColumns];
      rows.find_values(x[i], norm[i], is_there ? row_of[i] : 0, values);
      act(row_of[i], column_of[i], values, is_there);
    }
  }
}

template <typename T>
REPRISE_DEVICE void quantize_rows_in_blocks(const ElementRows<T>& rows,
                                            int limit,
                                            const OwnRowMemory& memory) {
  for_each_eight(
      rows, limit, [&](int row, int column, const float (&values)[kColumns], bool is_there) {
        auto* blocks = reinterpret_cast<ActivationBlock*>(memory.rows + row * memory.stride);
        quantize_eight(values, blocks + column / kPanelBlock, is_there);
      });
}

/// Rows that stay elements.
template <typename T>
REPRISE_DEVICE void norm_rows(const ElementRows<T>& rows, int limit, const OwnRowMemory& memory) {
  for_each_eight(
      rows, limit, [&](int row, int column, const float (&values)[kColumns], bool is_there) {
        auto* out = reinterpret_cast<T*>(memory.rows + row * memory.stride) + column;
        if (is_there) store_columns(out, kColumns, values);
      });
}

/// The largest magnitude of each row, as its bits, of which each warp finds a part.
template <typename T>
REPRISE_DEVICE void find_largest(const ElementRows<T>& rows, int limit, uint32_t* parts) {
  for (int row = 0; row < limit; ++row) {
    uint32_t largest = 0;
    const ElementRows<T> one = {rows.x + row * rows.stride,
                                rows.stride,
                                rows.width,
                                rows.norm,
                                rows.norm == nullptr ? nullptr : rows.scales + row};
    for_each_eight(one, 1, [&](int, int, const float (&values)[kColumns], bool is_there) {
      if (!is_there) return;
      for (float value : values) {
        const uint32_t magnitude = bits_of(value) & 0x7fffffffU;
        largest = magnitude > largest ? magnitude : largest;
      }
    });
    largest = largest_of_team(largest, Team{lane_index(), kWarpSize});
    if (lane_index() == 0) parts[row * kLinearWarps + warp_index()] = largest;
  }
}

template <typename T>
REPRISE_DEVICE void quantize_whole_rows(const ElementRows<T>& rows,
                                        int limit,
                                        const OwnRowMemory& memory) {
  auto* parts = reinterpret_cast<uint32_t*>(memory.parts);
  find_largest(rows, limit, parts);
  MultiplyingWarps::sync();
  if (thread_index() < limit) {
    uint32_t largest = 0;
    for (int warp = 0; warp < kLinearWarps; ++warp) {
      const uint32_t part = parts[thread_index() * kLinearWarps + warp];
      largest = part > largest ? part : largest;
    }
    memory.scales[thread_index()] =
        scale_of_largest(float_of(largest), static_cast<const int8_t*>(nullptr));
  }
  MultiplyingWarps::sync();
  for_each_eight(
      rows, limit, [&](int row, int column, const float (&values)[kColumns], bool is_there) {
        if (!is_there) return;
        auto* codes = reinterpret_cast<int8_t*>(memory.rows + row * memory.stride) + column;
        store_codes(codes, kColumns, values, memory.scales[row]);
      });
}

/// Quantises the first `limit` rows of a product, for Form. All warps that multiply may read them
/// afterwards. `shared`: room for 18 floats per row.
template <typename T, typename Form>
REPRISE_DEVICE void quantize_own_rows(const CudaLinearArguments& arguments,
                                      int limit,
                                      float* shared,
                                      OwnRowMemory memory) {
  const LinearArguments& a = arguments.product;
  if (arguments.norm != nullptr) (void)row_scale<T, MultiplyingWarps>(arguments, limit, shared);
  const float* of_norm = shared + kMostNormedRows * kLinearWarps;
  memory.parts = shared + kMostNormedRows * (kLinearWarps + 1);
  Form::quantize(ElementRows<T>{static_cast<const T*>(a.x),
                                a.x_stride,
                                static_cast<int>(a.depth),
                                static_cast<const T*>(arguments.norm),
                                of_norm},
                 limit,
                 memory);
  MultiplyingWarps::sync();
}

}  // namespace reprise::kernels::cuda
