#pragma once

#include <array>
#include <span>

#include "reprise/device/kernel.h"
#include "reprise/kernels/cuda/attention_arguments.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/weight_layout.h"

namespace reprise::kernels::cuda {

/// Kernels of a matrix product on tensor cores, by the rows of a block's tile. nullptr: there is
/// none.
struct FragmentKernels {
  const device::Kernel* for_8_rows = nullptr;
  const device::Kernel* for_32_rows = nullptr;
};

/// Those of streamed_kernels() for up to 8 rows, by the rows of the weight in a block's tile.
struct StreamedLinearKernels {
  const device::Kernel* of_8_weights = nullptr;
  const device::Kernel* of_16_weights = nullptr;
};

/// The kernels of a matrix product for one type: on tensor cores, with tiles of 8, 16 and 32
/// columns, and `dots` for any depth and alignment.
struct LinearKernels {
  FragmentKernels of_8_columns;
  FragmentKernels of_16_columns;
  FragmentKernels of_32_columns;  // only for_32_rows
  const device::Kernel* dots = nullptr;
  StreamedLinearKernels streamed;
};

/// Kernels on the tensor cores, in the order of kFragmentHeads. nullptr: there is none.
using HeadKernels = std::array<const device::Kernel*, kFragmentHeads.size()>;

struct AttentionKernels {
  HeadKernels of_heads = {};
  HeadKernels of_codes = {};  // over caches of eight bits
  const device::Kernel* by_rows = nullptr;
};

/// The attention kernels of one type, by the path that an attention backend chooses.
struct AttentionPathKernels {
  AttentionKernels any_batch;
  AttentionKernels uniform;
  AttentionKernels planned;
  AttentionKernels prefill;  // any batch whose requests have many tokens; without by_rows
  AttentionKernels fixed;    // any batch, with bits that depend on no batch; without by_rows
  const device::Kernel* merge = nullptr;  // the second launch of planned attention
};

/// The kernels with the arguments and grids of the CPU's kernels of the same names. The other
/// members of the table have no code.
[[nodiscard]] const KernelTable& row_kernels();

/// \throws InvalidArgument when `dtype` is not a float type
[[nodiscard]] LinearKernels linear_kernels(DType dtype);
[[nodiscard]] LinearKernels lm_head_kernels(DType dtype);
[[nodiscard]] LinearKernels linear_silu_and_mul_kernels(DType dtype);
/// Without `dots`: where the tensor-core kernels do not fit, the op takes two launches.
[[nodiscard]] LinearKernels linear_rope_kv_write_kernels(DType dtype);
[[nodiscard]] AttentionPathKernels attention_kernels(DType dtype);

/// Products of heads on the tensor cores. nullptrs for float32.
struct HeadProductKernels {
  const device::Kernel* narrow = nullptr;  // tiles of kNarrowHeadTile
  const device::Kernel* wide = nullptr;    // of kWideHeadTile
};
/// \throws InvalidArgument when `dtype` is not a float type
[[nodiscard]] HeadProductKernels head_product_kernels(DType dtype);

/// Kernels of latent attention for one of kLatentSizes. nullptr: there is none.
struct LatentKernel {
  const device::Kernel* narrow = nullptr;  // tiles of kNarrowLatentRows
  const device::Kernel* wide = nullptr;    // of kWideLatentRows; one of large_kernels()
};
using LatentKernels = std::array<LatentKernel, kLatentSizes.size()>;
/// \throws InvalidArgument when `dtype` is not a float type
[[nodiscard]] LatentKernels latent_kernels(DType dtype);

/// Those of streamed_kernels() for packed weights. nullptr: there is none.
struct StreamedPackedKernels {
  const device::Kernel* linear = nullptr;
  const device::Kernel* silu_and_mul = nullptr;
};
/// The kernels of products with a packed weight. nullptr: there is none.
struct PackedKernels {
  // On the tensor cores, by the rows of a block's tile.
  const device::Kernel* for_8_rows = nullptr;
  const device::Kernel* for_16_rows = nullptr;
  const device::Kernel* silu_and_mul = nullptr;  // for up to eight rows
  // Those of streamed_kernels() for up to four rows, for up to eight, and of experts for tiles of
  // up to eight.
  StreamedPackedKernels streamed_few;
  StreamedPackedKernels streamed_eight;
  // The same for up to kMostOwnRows rows of elements, which each block quantises itself; for
  // smaller floats, rows that it norms.
  StreamedPackedKernels own_rows;
  const device::Kernel* own_rows_rope_kv_write = nullptr;
  const device::Kernel* streamed_experts = nullptr;
  const device::Kernel* experts_of_8_rows = nullptr;
  const device::Kernel* experts_of_16_rows = nullptr;
  const device::Kernel* experts_of_64_rows = nullptr;
  // For rows in any place.
  const device::Kernel* dots = nullptr;
  const device::Kernel* silu_and_mul_dots = nullptr;
  const device::Kernel* expert_dots = nullptr;
};
/// Whether products with weights of a family have kernels.
[[nodiscard]] constexpr bool has_packed_kernels(WeightFamily family) noexcept {
  return family == WeightFamily::block_panels || family == WeightFamily::int8_panels ||
         family == WeightFamily::float_panels;
}
/// A weight in rows has only kernels for experts, and none of float32. \pre has_packed_kernels(),
/// or a weight in rows \throws InvalidArgument when `dtype` is not a float type
[[nodiscard]] PackedKernels packed_kernels(const WeightLayout& layout, DType dtype);
/// What turns packed weights and quantised rows into numbers. \throws InvalidArgument when `dtype`
/// is not a float type
struct ExpandKernels {
  const device::Kernel* panels;
  const device::Kernel* floats;
  const device::Kernel* rows;  // of ActivationBlocks
};
[[nodiscard]] ExpandKernels expand_kernels(DType dtype);

/// Makes tiles of the rows of each expert.
[[nodiscard]] const device::Kernel& group_rows_kernel();

/// What surrounds products of codes of eight bits (eight_bit_arguments.h). \throws InvalidArgument
/// when `dtype` is not a float type
[[nodiscard]] const device::Kernel& panel_codes_kernel();
[[nodiscard]] const device::Kernel& quantize_groups_kernel(DType dtype);
[[nodiscard]] const device::Kernel& finish_sums_kernel();

/// A kernel for prompts of recurrent layers, and the longest keys that it takes.
struct ChunkStateKernel {
  const device::Kernel* kernel;
  int64_t most_key_elements;
};
/// By the length of keys, ascending; empty for float32. The keys of Mamba-2 are rows of its states.
[[nodiscard]] std::span<const ChunkStateKernel> delta_chunk_kernels(DType dtype);
[[nodiscard]] std::span<const ChunkStateKernel> selective_chunk_kernels(DType dtype);

/// One launch after the other; see sampling_kernels.cuh.
struct SamplingKernels {
  const device::Kernel* largest;
  const device::Kernel* weights;       // for rows that are not greedy
  const device::Kernel* candidates;    // for rows with top_k or top_p
  const device::Kernel* write_tokens;  // into the ids of the next step
  const device::Kernel* count_tokens;  // for penalties
  // For rows with log-probabilities; the second one if some row wants the likeliest tokens.
  const device::Kernel* weigh_logprobs;
  const device::Kernel* list_likeliest;
};
[[nodiscard]] SamplingKernels sampling_kernels();

/// Counts the tokens of experts; see CountExpertsArguments.
[[nodiscard]] const device::Kernel& expert_counter();

/// Kernels of the ops of several ranks; see rank_arguments.h.
[[nodiscard]] const device::Kernel& rank_sum_kernel(DType dtype);
[[nodiscard]] const device::Kernel& rank_sum_and_norm_kernel(DType dtype);
[[nodiscard]] const device::Kernel& rank_experts_kernel();
[[nodiscard]] const device::Kernel& rank_columns_kernel();

/// The kernels that run on every GPU. They must be loaded before a capture.
[[nodiscard]] std::span<const device::Kernel* const> usual_kernels();
/// Kernels whose blocks need more shared memory than some GPUs have. Only those that fit may be
/// loaded.
[[nodiscard]] std::span<const device::Kernel* const> large_kernels();
/// Products whose weights arrive by bulk copies. Only code for compute capability 9 has them; GPUs
/// with other code may not even load them.
[[nodiscard]] std::span<const device::Kernel* const> streamed_kernels();

}  // namespace reprise::kernels::cuda
