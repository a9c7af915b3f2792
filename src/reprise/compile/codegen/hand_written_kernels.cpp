#include "reprise/compile/codegen/hand_written_kernels.h"

#include <immintrin.h>

#include "reprise/kernels/isa/headers.inl"
#include "reprise/kernels/row_group/row_group_arguments.h"

namespace reprise::kernels {
namespace {

#include "reprise/kernels/vector/avx512.inl"
// defined on the vectors above
#include "reprise/kernels/vector/exp.inl"

#include "reprise/kernels/add/add.inl"
#include "reprise/kernels/rms_norm/rms_norm.inl"
#include "reprise/kernels/rope/rope.inl"
#include "reprise/kernels/silu_and_mul/silu_and_mul.inl"

using compile::HandWrittenArguments;
using T = BFloat16;

struct Group {
  explicit Group(const void* args, device::BlockRange blocks)
      : hand(*static_cast<const HandWrittenArguments*>(args)),
        group(*static_cast<const RowGroupArguments*>(hand.group)),
        begin(blocks.begin * group.rows_per_block),
        end(min_of(blocks.end * group.rows_per_block, group.rows)) {}

  template <typename Element = T>
  Element* row(int operand, int64_t index) const {
    const RowGroupOperand& o = group.operands[operand];
    return static_cast<Element*>(o.data) + index * o.row_stride;
  }

  const HandWrittenArguments& hand;
  const RowGroupArguments& group;
  int64_t begin;
  int64_t end;
};

constexpr float kEpsilon = 1e-6F;

// x, residual, weight -> norm, sum
void add_rms_norm(const void* args, device::BlockRange blocks) noexcept {
  const Group g(args, blocks);
  for (int64_t r = g.begin; r < g.end; ++r) {
    add_row(g.row(1, r), g.row(0, r), g.row(4, r), g.hand.width);
    rms_norm_row(g.row(4, r), g.row(2, 0), g.row(3, r), g.hand.width, kEpsilon);
  }
}

// x, weight -> norm
void rms_norm(const void* args, device::BlockRange blocks) noexcept {
  const Group g(args, blocks);
  for (int64_t r = g.begin; r < g.end; ++r) {
    rms_norm_row(g.row(0, r), g.row(1, 0), g.row(2, r), g.hand.width, kEpsilon);
  }
}

// ids, table, weight -> row, norm
void embedding_rms_norm(const void* args, device::BlockRange blocks) noexcept {
  const Group g(args, blocks);
  for (int64_t r = g.begin; r < g.end; ++r) {
    const int64_t id = *g.row<const int32_t>(0, r);
    T* row = g.row(3, r);
    const auto bytes = static_cast<size_t>(g.hand.width) * sizeof(T);
    if (id >= 0 && id < g.group.operands[1].rows) {
      __builtin_memcpy(row, g.row(1, id), bytes);
    } else {
      __builtin_memset(row, 0, bytes);
    }
    rms_norm_row(row, g.row(2, 0), g.row(4, r), g.hand.width, kEpsilon);
  }
}

// gate | up -> product
void silu_and_mul(const void* args, device::BlockRange blocks) noexcept {
  const Group g(args, blocks);
  const int64_t width = g.hand.width;
  for (int64_t r = g.begin; r < g.end; ++r) {
    const T* gate = g.row(0, r);
    const T* up = gate + width;
    T* out = g.row(1, r);
    for (int64_t i = 0; i + kLanes <= width; i += kLanes) {
      store(out + i, mul(silu(load(gate + i)), load(up + i)));
    }
  }
}

// a, b, c -> a + b + c
void add_add(const void* args, device::BlockRange blocks) noexcept {
  const Group g(args, blocks);
  for (int64_t r = g.begin; r < g.end; ++r) {
    add_row(g.row(0, r), g.row(1, r), g.row(3, r), g.hand.width);
    add_row(g.row(3, r), g.row(2, r), g.row(3, r), g.hand.width);
  }
}

// qkv, q_weight, k_weight, positions, cos_sin -> q, k
void qk_norm_rope(const void* args, device::BlockRange blocks) noexcept {
  const Group g(args, blocks);
  const int64_t width = g.hand.width;
  alignas(64) T normed[256];
  for (int64_t r = g.begin; r < g.end; ++r) {
    const RowGroupOperand& table = g.group.operands[4];
    const int64_t position = max_of(0, min_of(*g.row<const int32_t>(3, r), table.rows - 1));
    const float* cosines = g.row<const float>(4, position);
    const T* head = g.row(0, r);
    for (int side = 0; side < 2; ++side) {
      T* out = g.row(5 + side, r);
      const T* weight = g.row(1 + side, 0);
      const int64_t heads = side == 0 ? g.hand.heads : g.hand.kv_heads;
      for (int64_t h = 0; h < heads; ++h, head += width, out += width) {
        rms_norm_row(head, weight, normed, width, kEpsilon);
        rope_head(normed, out, cosines, cosines + width / 2, width / 2);
      }
    }
  }
}

}  // namespace
}  // namespace reprise::kernels

namespace reprise::compile {

device::CpuKernelFunction find_hand_written_kernel(std::string_view body) {
  if (body == "add_rms_norm") return kernels::add_rms_norm;
  if (body == "rms_norm") return kernels::rms_norm;
  if (body == "embedding_rms_norm") return kernels::embedding_rms_norm;
  if (body == "silu_and_mul") return kernels::silu_and_mul;
  if (body == "add_add") return kernels::add_add;
  if (body == "qk_norm_rope") return kernels::qk_norm_rope;
  return nullptr;
}

}  // namespace reprise::compile
