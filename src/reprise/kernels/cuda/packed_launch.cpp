#include "reprise/kernels/cuda/packed_launch.h"

#include <fmt/format.h>

#include <algorithm>

#include "reprise/base/assert.h"
#include "reprise/base/error.h"
#include "reprise/device/cuda/cuda_stream.h"
#include "reprise/kernels/add/add.h"
#include "reprise/kernels/cuda/cuda_kernels.h"
#include "reprise/kernels/cuda/eight_bit_product.h"
#include "reprise/kernels/cuda/packed_arguments.h"
#include "reprise/kernels/cuda/packed_expand.h"
#include "reprise/kernels/device_executor.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/linear/linear.h"
#include "reprise/kernels/quantize/quantize.h"
#include "reprise/kernels/quantize_blocks/quantize_blocks.h"
#include "reprise/kernels/rms_norm/rms_norm.h"
#include "reprise/kernels/silu_and_mul/silu_and_mul.h"
#include "reprise/tensor/op_table.h"

namespace reprise::kernels::cuda {

PackedType packed_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return PackedType::f32;
    case DType::bf16:
      return PackedType::bf16;
    case DType::f16:
      return PackedType::f16;
    default:
      throw InvalidArgument(
          fmt::format("no CUDA kernel multiplies a packed weight into {}", dtype_name(dtype)));
  }
}

namespace {

/// The most panels that a weight of so many outputs can have: parts of a weight in blocks may end
/// within a panel.
int64_t most_panels(const Tensor& weight, int64_t outputs) {
  const bool has_parts = weight.layout().family == WeightFamily::block_panels;
  return num_panels(outputs) + (has_parts ? PanelHeader::kMaxParts - 1 : 0);
}

void require_rows_in_blocks(const Tensor& x, int64_t depth) {
  REPRISE_ASSERT(x.is_dense() && x.size(1) == depth / kPanelBlock *
                                                  static_cast<int64_t>(sizeof(ActivationBlock)),
                 "linear: rows of {} do not fit a weight in blocks of depth {}",
                 x.type().to_string(),
                 depth);
}

PackedLinearArguments arguments_of(const PackedCall& call) {
  const WeightLayout& layout = call.weight.layout();
  const int64_t depth = call.weight.size(-1);
  REPRISE_ASSERT(call.weight.is_dense() && (!call.out.defined() || call.out.is_dense()),
                 "linear: weight and out must be dense");
  if (layout.family == WeightFamily::block_panels && !call.has_elements()) {
    require_rows_in_blocks(call.x, depth);
  } else {
    require_dense_rows(call.x, "linear");
  }
  const int64_t outputs = call.weight.num_elements() / depth;  // of all experts
  PackedLinearArguments arguments = {
      .of = {.product = {.x = call.x.data(),
                         .weight = call.weight.data(),
                         .bias = call.bias.data(),
                         .out = call.out.data(),
                         .num_rows = call.num_rows.data_as<int32_t>(),
                         .x_stride = call.x.stride(0),
                         .rows = call.x.size(0),
                         .columns = call.out.defined() ? call.out.size(1) : outputs,
                         .depth = depth,
                         .rows_per_block = 0,
                         .columns_per_block = 0,
                         .x_scale = call.scale.data_as<float>(),
                         .x_scale_stride = call.scale.defined() && call.scale.size(0) == 1 ? 0 : 1,
                         .residual = call.residual.data(),
                         .residual_stride = call.residual.defined() ? call.residual.stride(0) : 0},
             .to = {},
             .norm = call.norm.weight.data(),
             .epsilon = call.norm.epsilon},
      .type = packed_type(call.weight.dtype()),
      .out = packed_type(call.out.defined() ? call.out.dtype() : call.weight.dtype()),
      .panels = num_panels(outputs)};
  set_weight_layout(call.weight, arguments.of.product);
  return arguments;
}

bool is_vector_aligned(const Tensor& x) {
  const auto row_bytes = x.stride(0) * static_cast<int64_t>(dtype_bytes(x.dtype()));
  return reinterpret_cast<uintptr_t>(x.data()) % 16 == 0 && row_bytes % 16 == 0;
}

/// Whether bulk copies can bring rows of x.
bool has_bulk_rows(const Tensor& x) {
  return is_vector_aligned(x) && x.size(1) * dtype_bytes(x.dtype()) % 16 == 0;
}

/// Whether the kernels on the tensor cores serve a product.
bool fits_tensor_cores(const PackedCall& call, const PackedKernels& kernels) {
  return kernels.for_8_rows != nullptr &&
         (call.weight.layout().family == WeightFamily::block_panels || is_vector_aligned(call.x));
}

/// Two blocks fit on a multiprocessor of a GPU for servers, by the shared memory that they need.
uint32_t blocks_of(int64_t items, const PackedMachine& machine) {
  return static_cast<uint32_t>(
      std::min(items, int64_t{kBlocksOfProducts} * machine.num_multiprocessors));
}

bool launch_kernel(const OpRun& run,
                   const device::Kernel& kernel,
                   uint32_t num_blocks,
                   const PackedCall& call) {
  if (call.residual.defined()) require_dense_rows(call.residual, "linear");
  if (call.x.size(0) == 0) return false;
  return launch(run.stream,
                kernel,
                num_blocks,
                arguments_of(call),
                std::array{writes(call.out),
                           reads(call.x),
                           reads(call.norm.weight),
                           reads(call.scale),
                           reads(call.weight),
                           reads(call.bias),
                           reads(call.residual),
                           reads(call.num_rows)});
}

bool launch_rows(const OpRun& run,
                 const device::Kernel& kernel,
                 int64_t rows_of_tile,
                 const PackedCall& call,
                 const PackedMachine& machine) {
  const int64_t items =
      most_panels(call.weight, call.out.size(1)) * ceil_div(call.x.size(0), rows_of_tile);
  return launch_kernel(run, kernel, blocks_of(items, machine), call);
}

bool launch_dots(const OpRun& run, const device::Kernel& kernel, const PackedCall& call) {
  const int64_t blocks =
      ceil_div(call.x.size(0), kDotRows) * ceil_div(call.out.size(1), kDotColumns);
  return launch_kernel(run, kernel, static_cast<uint32_t>(blocks), call);
}

const ChunkSizes& chunk_of(const WeightLayout& layout) {
  if (layout.family == WeightFamily::block_panels) return kBlockChunk;
  if (layout.family == WeightFamily::int8_panels) return kInt8Chunk;
  return layout.codec == PanelFormat::f4_g64 ? kFloat4Chunk : kFloat8Chunk;
}

/// Whether each block of a streamed kernel can norm and quantise the rows itself.
bool fits_own_rows(const PackedCall& call, int parts) {
  const int64_t rows = call.x.size(0);
  if (rows < 1 || rows > kMostOwnRows || dtype_bytes(call.x.dtype()) != 2) return false;
  const int stride = own_row_stride(chunk_of(call.weight.layout()), call.x.size(1));
  return rows * stride <= most_own_row_bytes(parts) && is_vector_aligned(call.x) &&
         reinterpret_cast<uintptr_t>(call.norm.weight.data()) % 16 == 0;
}

/// Launches the streamed kernel, if the product is to take one. One block runs on a multiprocessor,
/// so that a block of the next kernel has room beside it. `panels_of_item`: 2 with silu_and_mul.
bool launch_streamed(const OpRun& run,
                     const StreamedPackedKernels& kernels,
                     int panels_of_item,
                     const PackedCall& call,
                     const PackedMachine& machine) {
  const device::Kernel* kernel = panels_of_item == 2 ? kernels.silu_and_mul : kernels.linear;
  if (!machine.is_streamed || kernel == nullptr) return false;
  const bool fits =
      call.prepares_rows() ? fits_own_rows(call, panels_of_item) : can_stream(call.x, call.weight);
  if (!fits) return false;
  const int64_t items = most_panels(call.weight, call.weight.size(0)) / panels_of_item;
  const auto blocks = std::clamp<int64_t>(items, 1, machine.num_multiprocessors);
  launch_kernel(run, *kernel, static_cast<uint32_t>(blocks), call);
  return true;
}

const StreamedPackedKernels& streamed_for(const PackedKernels& kernels, const PackedCall& call) {
  const bool is_few = call.x.size(0) <= kFragmentRows / 2;
  if (call.prepares_rows()) return kernels.own_rows;
  return is_few ? kernels.streamed_few : kernels.streamed_eight;
}

/// Norms and quantises the rows of a call in memory of the pool, in a launch of their own, and
/// returns product(the same call with these rows).
template <typename Product>
bool prepare_first(const OpRun& run, const PackedCall& call, const Product& product) {
  const int64_t rows = call.x.size(0);
  const int64_t depth = call.x.size(1);
  const NormCall& norm = call.norm;
  if (!call.has_elements()) {
    const Tensor normed = run.executor.allocate(call.x.type());
    launch_rms_norm(run.stream, run.kernels, call.x, norm.weight, norm.epsilon, normed);
    return product(call.with_rows(normed, PackedCall::kLeftOut));
  }
  if (activation_form(call.weight.layout().family) == ActivationForm::int8_rows) {
    const Tensor codes = run.executor.allocate({DType::i8, {rows, depth}});
    const Tensor scales = run.executor.allocate({DType::f32, {rows}});
    if (norm.weight.defined()) {
      launch_rms_norm_quant(
          run.stream, run.kernels, call.x, norm.weight, norm.epsilon, codes, scales);
    } else {
      launch_quantize_per_token(run.stream, run.kernels, call.x, codes, scales);
    }
    return product(call.with_rows(codes, scales));
  }
  const int64_t row_bytes = depth / kPanelBlock * static_cast<int64_t>(sizeof(ActivationBlock));
  const Tensor blocks = run.executor.allocate({DType::i8, {rows, row_bytes}});
  if (norm.weight.defined()) {
    launch_rms_norm_quantize_blocks(
        run.stream, run.kernels, call.x, norm.weight, norm.epsilon, blocks);
  } else {
    launch_quantize_blocks(run.stream, run.kernels, call.x, blocks);
  }
  return product(call.with_rows(blocks, PackedCall::kLeftOut));
}

bool launch_own(const OpRun& run, const PackedCall& call, const PackedMachine& machine) {
  const PackedKernels kernels = packed_kernels(call.weight.layout(), call.weight.dtype());
  if (launch_streamed(run, streamed_for(kernels, call), 1, call, machine)) return true;
  if (!fits_tensor_cores(call, kernels)) {
    REPRISE_ASSERT(kernels.dots != nullptr, "linear: int8 rows must be aligned to 16 bytes");
    return launch_dots(run, *kernels.dots, call);
  }
  const bool is_few = call.x.size(0) <= kFragmentRows;
  return launch_rows(run,
                     is_few ? *kernels.for_8_rows : *kernels.for_16_rows,
                     (is_few ? int64_t{1} : int64_t{2}) * kFragmentRows,
                     call,
                     machine);
}

bool has_many_rows(const PackedCall& call, const PackedMachine& machine) {
  return machine.library != nullptr && call.x.size(0) >= kFewestExpandedRows;
}

/// Many rows by the library, in eight bits if it can.
bool multiply_by_library(const OpRun& run, const PackedCall& call, const PackedMachine& machine) {
  return has_many_rows(call, machine) &&
         (multiply_in_eight_bits(run.executor, *machine.library, call) ||
          multiply_expanded(run.executor, *machine.library, call));
}

/// A product of many rows by the library; undefined where it does not compute it.
Tensor product_by_library(const OpRun& run, const PackedCall& call, const PackedMachine& machine) {
  if (!has_many_rows(call, machine)) return {};
  const int64_t rows = call.x.size(0);
  const int64_t outputs = call.weight.size(0);
  const Tensor product =
      run.executor.allocate({call.weight.dtype(), {rows_with_room(rows), outputs}});
  const bool is_done = multiply_by_library(
      run,
      {.x = call.x, .weight = call.weight, .out = product, .bias = call.bias, .scale = call.scale},
      machine);
  return is_done ? product.with_layout({rows, outputs}, {outputs, 1}, 0) : Tensor{};
}

/// With more rows than a tile has, the product of gates and ups is stored in memory of the pool.
bool launch_silu_and_mul(const OpRun& run, const PackedCall& call, const PackedMachine& machine) {
  const int64_t rows = call.x.size(0);
  const PackedKernels kernels = packed_kernels(call.weight.layout(), call.weight.dtype());
  if (launch_streamed(run, streamed_for(kernels, call), 2, call, machine)) return true;
  if (call.prepares_rows()) {
    return prepare_first(run, call, [&](const PackedCall& quantised) {
      return launch_silu_and_mul(run, quantised, machine);
    });
  }
  const bool fits = fits_tensor_cores(call, kernels);
  if (fits && rows <= kFragmentRows) {
    return launch_rows(run, *kernels.silu_and_mul, kFragmentRows, call, machine);
  }
  Tensor product = product_by_library(run, call, machine);
  if (!product.defined() && !fits) return launch_dots(run, *kernels.silu_and_mul_dots, call);
  if (!product.defined()) {
    product = run.executor.allocate({call.weight.dtype(), {rows, call.weight.size(0)}});
    launch_own(run,
               {.x = call.x,
                .weight = call.weight,
                .out = product,
                .bias = call.bias,
                .scale = call.scale},
               machine);
  }
  return kernels::launch_silu_and_mul(run.stream, run.kernels, product, call.out);
}

/// Two launches: the result of the product is stored in memory of the pool.
bool launch_silu_and_mul_quantize_blocks(const OpRun& run, const PackedMachine& machine) {
  const auto in = run.operands<OpCode::linear_silu_and_mul_quantize_blocks>();
  const Tensor& weight = in["weight"];
  const Tensor product =
      run.executor.allocate({weight.dtype(), {in["x"].size(0), weight.size(0) / 2}});
  launch_silu_and_mul(
      run, {.x = in["x"], .weight = weight, .out = product, .bias = in["bias"]}, machine);
  return launch_quantize_blocks(run.stream, run.kernels, product, run.out[0]);
}

/// Rows of a product of experts in tiles, in memory of the pool. Undefined: each row is a tile.
struct ExpertTiles {
  Tensor order;
  Tensor tiles;
  Tensor num_tiles;
};

/// With more rows for each expert, larger tiles read weights less often. No choice changes a
/// result.
int64_t rows_of_expert_tile(int64_t rows, int64_t num_experts) {
  if (rows > kWideRows / 2 * num_experts) return kWideRows;
  return rows > kFragmentRows * num_experts ? 2 * kFragmentRows : kFragmentRows;
}

/// The experts of one token differ, so their rows are tiles of their own.
ExpertTiles make_tiles(const OpRun& run, const Tensor& experts, int64_t num_experts) {
  const int64_t rows = experts.num_elements();
  if (experts.size(0) == 1) return {};
  const int64_t tile_rows = rows_of_expert_tile(rows, num_experts);
  const int64_t most = most_expert_tiles(rows, num_experts, tile_rows);
  const ExpertTiles tiles = {.order = run.executor.allocate({DType::i32, {rows}}),
                             .tiles = run.executor.allocate({DType::i32, {most, 4}}),
                             .num_tiles = run.executor.allocate({DType::i32, {1}})};
  const GroupRowsArguments arguments = {.experts = experts.data_as<int32_t>(),
                                        .order = tiles.order.data_as<int32_t>(),
                                        .tiles = tiles.tiles.data_as<ExpertTile>(),
                                        .num_tiles = tiles.num_tiles.data_as<int32_t>(),
                                        .rows = static_cast<int32_t>(rows),
                                        .num_experts = static_cast<int32_t>(num_experts),
                                        .tile_rows = static_cast<int32_t>(tile_rows)};
  launch(run.stream,
         group_rows_kernel(),
         1,
         arguments,
         std::array{
             writes(tiles.order), writes(tiles.tiles), writes(tiles.num_tiles), reads(experts)});
  return tiles;
}

/// Whether a kernel that begins early may read the chosen experts before it waits.
bool knows_experts_early(const OpRun& run, const Tensor& experts, const ExpertTiles& tiles) {
  const auto& stream = dynamic_cast<device::cuda::CudaStream&>(run.stream);
  return !tiles.tiles.defined() && stream.is_settled_early(experts.data(), experts.type().bytes());
}

bool launch_expert_kernel(const OpRun& run,
                          const device::Kernel& kernel,
                          uint32_t num_blocks,
                          const ExpertTiles& tiles) {
  const auto in = run.operands<OpCode::expert_linear>();
  const Tensor& experts = in["experts"];
  const Tensor& out = run.out[0];
  PackedExpertArguments arguments = {
      .linear =
          arguments_of({.x = in["x"], .weight = in["weight"], .out = out, .bias = in["bias"]}),
      .experts = experts.data_as<int32_t>(),
      .rows_per_x = in["x"].size(0) == experts.size(0) ? experts.size(1) : 1,
      .order = tiles.order.data_as<int32_t>(),
      .tiles = tiles.tiles.data_as<ExpertTile>(),
      .num_tiles = tiles.num_tiles.data_as<int32_t>(),
      .knows_experts_early = knows_experts_early(run, experts, tiles)};
  arguments.linear.of.product.rows = out.size(0);
  return launch(run.stream,
                kernel,
                num_blocks,
                arguments,
                std::array{writes(out),
                           reads(in["x"]),
                           reads(in["weight"]),
                           reads(in["bias"]),
                           reads(experts),
                           reads(tiles.order),
                           reads(tiles.tiles),
                           reads(tiles.num_tiles)});
}

bool launch_experts(const OpRun& run, const PackedMachine& machine) {
  const auto in = run.operands<OpCode::expert_linear>();
  const Tensor& weight = in["weight"];
  const Tensor& out = run.out[0];
  const int64_t rows = out.size(0);
  REPRISE_ASSERT(
      in["experts"].is_dense() && (weight.layout().is_rows() || out.size(1) % kPanelColumns == 0),
      "expert_linear: {} outputs of an expert are not whole panels",
      out.size(1));
  if (rows == 0) return false;
  const PackedKernels kernels = packed_kernels(weight.layout(), weight.dtype());
  const int64_t panels = num_panels(out.size(1));
  const bool is_aligned =
      weight.layout().family == WeightFamily::block_panels || is_vector_aligned(in["x"]);
  if (kernels.experts_of_8_rows == nullptr || !is_aligned) {
    const int64_t blocks = rows * ceil_div(out.size(1), kDotColumns);
    return launch_expert_kernel(run, *kernels.expert_dots, static_cast<uint32_t>(blocks), {});
  }
  const int64_t num_experts = weight.size(0);
  const ExpertTiles tiles = make_tiles(run, in["experts"], num_experts);
  const int64_t tile_rows =
      tiles.tiles.defined() ? rows_of_expert_tile(rows, num_experts) : kFragmentRows;
  if (machine.is_streamed && can_stream_experts(in["x"], weight, rows)) {
    const int64_t items =
        panels * (tiles.tiles.defined() ? most_expert_tiles(rows, num_experts, tile_rows) : rows);
    const auto blocks = std::min<int64_t>(items, machine.num_multiprocessors);
    return launch_expert_kernel(
        run, *kernels.streamed_experts, static_cast<uint32_t>(blocks), tiles);
  }
  const bool is_wide = tile_rows == kWideRows;
  const device::Kernel& kernel = is_wide                      ? *kernels.experts_of_64_rows
                                 : tile_rows == kFragmentRows ? *kernels.experts_of_8_rows
                                                              : *kernels.experts_of_16_rows;
  const int64_t items =
      ceil_div(panels, is_wide ? kWidePanels : 1) * most_expert_tiles(rows, num_experts, tile_rows);
  return launch_expert_kernel(run, kernel, blocks_of(items, machine), tiles);
}

[[noreturn]] void refuse(const OpRun& run) {
  throw InvalidArgument(fmt::format("{}: {} has no kernel for a weight of {}",
                                    op_name(run.call.code),
                                    run.stream.device().name(),
                                    run.in[1].type().to_string()));
}

}  // namespace

bool can_stream(const Tensor& x, const Tensor& weight) {
  const int64_t rows = x.size(0);
  const ActivationForm form = activation_form(weight.layout().family);
  // Elements are quantised before. Then the bytes of a row decide, which lie one after the other.
  const bool is_quantised = form == ActivationForm::elements || x.dtype() == DType::i8;
  const int64_t whole = form == ActivationForm::int8_blocks ? 2 * kPanelBlock : 16;
  return rows >= 1 && rows <= kFragmentRows && !weight.layout().is_rows() &&
         (is_quantised ? has_bulk_rows(x) : weight.size(-1) % whole == 0) &&
         packed_kernels(weight.layout(), weight.dtype()).streamed_eight.linear != nullptr;
}

bool can_stream_experts(const Tensor& x, const Tensor& weight, int64_t rows) {
  const bool fits_stretches =
      !weight.layout().is_rows() ||
      (weight.size(2) % 32 == 0 && reinterpret_cast<uintptr_t>(weight.data()) % 16 == 0);
  return rows >= 1 && rows_of_expert_tile(rows, weight.size(0)) == kFragmentRows &&
         fits_stretches && has_bulk_rows(x) &&
         packed_kernels(weight.layout(), weight.dtype()).streamed_experts != nullptr;
}

bool can_multiply_experts(const Tensor& x, const Tensor& weight) {
  const bool has_kernels =
      packed_kernels(weight.layout(), weight.dtype()).experts_of_8_rows != nullptr;
  const bool is_aligned = reinterpret_cast<uintptr_t>(weight.data()) % 16 == 0 &&
                          weight.size(2) % 8 == 0 && is_vector_aligned(x);
  return !weight.layout().is_rows() || (has_kernels && is_aligned);
}

bool launch_packed_linear(const OpRun& run, const PackedCall& call, const PackedMachine& machine) {
  if (call.prepares_rows()) {
    const PackedKernels kernels = packed_kernels(call.weight.layout(), call.weight.dtype());
    if (launch_streamed(run, streamed_for(kernels, call), 1, call, machine)) return true;
    return prepare_first(run, call, [&](const PackedCall& quantised) {
      return launch_packed_linear(run, quantised, machine);
    });
  }
  if (call.residual.defined()) {
    const Tensor product = product_by_library(run, call, machine);
    if (product.defined()) {
      return launch_add(run.stream, run.kernels, call.residual, product, call.out);
    }
  } else if (multiply_by_library(run, call, machine)) {
    return true;
  }
  return launch_own(run, call, machine);
}

bool launch_packed_rope_kv_write(const OpRun& run,
                                 const PackedCall& call,
                                 const RopeAndCacheCall& heads,
                                 const PackedMachine& machine) {
  constexpr int kParts = 2;  // the panels of an item are half a head apart
  const Tensor& weight = call.weight;
  const PackedKernels kernels = packed_kernels(weight.layout(), weight.dtype());
  const bool fits = heads.key_cache.dtype() == call.x.dtype() && !heads.q_norm.defined() &&
                    !heads.k_norm.defined() && heads.q_out.size(2) % (kParts * kPanelColumns) == 0;
  if (!machine.is_streamed || kernels.own_rows_rope_kv_write == nullptr || !fits ||
      !call.prepares_rows() || !fits_own_rows(call, kParts)) {
    return false;
  }
  PackedLinearArguments arguments = arguments_of(call);
  arguments.of.to = rope_and_cache(heads);
  const int64_t items = num_panels(weight.size(0)) / kParts;
  const auto blocks = std::clamp<int64_t>(items, 1, machine.num_multiprocessors);
  // Only the device knows which slots are written.
  launch(run.stream,
         *kernels.own_rows_rope_kv_write,
         static_cast<uint32_t>(blocks),
         arguments,
         std::array{writes(heads.q_out),
                    writes(heads.key_cache),
                    writes(heads.value_cache),
                    reads(call.x),
                    reads(weight),
                    reads(call.bias),
                    reads(call.norm.weight),
                    reads(heads.positions),
                    reads(heads.cos_sin),
                    reads(heads.slot_mapping)});
  return true;
}

bool launch_packed_product(const OpRun& run, const PackedMachine& machine) {
  const bool are_experts_in_rows =
      run.call.code == OpCode::expert_linear && run.in[1].layout().is_rows();
  if (!are_experts_in_rows && !has_packed_kernels(run.in[1].layout().family)) refuse(run);
  switch (run.call.code) {
    case OpCode::linear: {
      const auto in = run.operands<OpCode::linear>();
      return launch_packed_linear(run,
                                  {.x = in["x"],
                                   .weight = in["weight"],
                                   .out = run.out[0],
                                   .bias = in["bias"],
                                   .scale = in["scale"]},
                                  machine);
    }
    case OpCode::linear_add: {
      const auto in = run.operands<OpCode::linear_add>();
      return launch_packed_linear(run,
                                  {.x = in["x"],
                                   .weight = in["weight"],
                                   .out = run.out[0],
                                   .bias = in["bias"],
                                   .scale = in["scale"],
                                   .residual = in["residual"]},
                                  machine);
    }
    case OpCode::linear_silu_and_mul: {
      const auto in = run.operands<OpCode::linear_silu_and_mul>();
      return launch_silu_and_mul(run,
                                 {.x = in["x"],
                                  .weight = in["weight"],
                                  .out = run.out[0],
                                  .bias = in["bias"],
                                  .scale = in["scale"],
                                  .norm = {in["norm"], run.call.attributes.epsilon}},
                                 machine);
    }
    case OpCode::linear_silu_and_mul_quantize_blocks:
      return launch_silu_and_mul_quantize_blocks(run, machine);
    case OpCode::lm_head: {
      const auto in = run.operands<OpCode::lm_head>();
      return launch_packed_linear(run,
                                  {.x = in["x"],
                                   .weight = in["weight"],
                                   .out = run.out[0],
                                   .scale = in["scale"],
                                   .num_rows = in["num_rows"],
                                   .norm = {in["norm"], run.call.attributes.epsilon}},
                                  machine);
    }
    case OpCode::expert_linear:
      return launch_experts(run, machine);
    default:
      refuse(run);
  }
}

}  // namespace reprise::kernels::cuda
