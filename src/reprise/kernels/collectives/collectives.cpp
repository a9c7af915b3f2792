#include "reprise/kernels/collectives/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "reprise/base/assert.h"
#include "reprise/base/element.h"
#include "reprise/base/error.h"
#include "reprise/kernels/device_executor.h"
#include "reprise/kernels/fused_add_rms_norm/fused_add_rms_norm_arguments.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/rms_norm/rms_norm_arguments.h"

namespace reprise::kernels {
namespace {

struct alignas(16) GatherArguments {
  parallel::Communicator* ranks;
  const void* mine;
  void* all;
  size_t bytes;
};

struct alignas(16) SumArguments {
  const void* parts;  // [num_ranks, count]
  void* out;          // [count]
  int64_t num_ranks;
  int64_t count;
};

// The arguments of the sum, then the norm's kernel and its arguments. The norm reads the sum.
template <typename NormArguments>
struct alignas(16) SumAndNormArguments {
  SumArguments sum;
  device::CpuKernelFunction norm_kernel;
  NormArguments norm;
};

struct alignas(16) GatherColumnsArguments {
  parallel::Communicator* ranks;
  const std::byte* mine;
  const int32_t* num_rows;
  std::byte* parts;
  std::byte* out;
  size_t row_bytes;      // of a rank
  size_t out_row_bytes;  // of the result
};

// The grid has one block, because only one thread may use the communicator.
void gather_bytes(const void* args, device::BlockRange) noexcept {
  const auto& a = *static_cast<const GatherArguments*>(args);
  (void)a.ranks->try_all_gather(a.mine, a.all, a.bytes);
}

// Part i of `mine` goes to rank i.
void exchange_bytes(const void* args, device::BlockRange) noexcept {
  const auto& a = *static_cast<const GatherArguments*>(args);
  (void)a.ranks->try_all_to_all(a.mine, a.all, a.bytes);
}

// Computes elements `begin` to `end` of the sum.
template <typename T>
void sum_elements(const SumArguments& a, int64_t begin, int64_t end) noexcept {
  const T* parts = static_cast<const T*>(a.parts);
  T* out = static_cast<T*>(a.out);
  for (int64_t i = begin; i < end; ++i) {
    float sum = to_float(parts[i]);
    for (int64_t rank = 1; rank < a.num_ranks; ++rank) sum += to_float(parts[rank * a.count + i]);
    store_element(out + i, sum);
  }
}

template <typename T>
void sum_of_ranks(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const SumArguments*>(args);
  sum_elements<T>(
      a, blocks.begin * kElementsPerBlock, std::min(a.count, blocks.end * kElementsPerBlock));
}

// A block sums some rows and then calls the norm's own kernel for them, so the rows are still in
// the cache, and the bits are those of the separate ops. A block has only whole rows.
template <typename T, typename NormArguments>
void sum_and_norm(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const SumAndNormArguments<NormArguments>*>(args);
  const int64_t width = a.norm.tiles.width;
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const RowTile tile = row_tile(a.norm.tiles, block);
    sum_elements<T>(a.sum, tile.row_begin * width, tile.row_end * width);
    a.norm_kernel(&a.norm, {.begin = block, .end = block + 1});
  }
}

void gather_columns(const void* args, device::BlockRange) noexcept {
  const auto& a = *static_cast<const GatherColumnsArguments*>(args);
  const auto rows = static_cast<size_t>(*a.num_rows);
  const size_t part_bytes = rows * a.row_bytes;
  if (!a.ranks->try_all_gather(a.mine, a.parts, part_bytes)) return;
  for (size_t row = 0; row < rows; ++row) {
    size_t begin = 0;
    for (int rank = 0; rank < a.ranks->size() && begin < a.out_row_bytes; ++rank) {
      // The ranks' columns are padded to equal numbers, and the result ends before the padding.
      const size_t bytes = std::min(a.row_bytes, a.out_row_bytes - begin);
      std::memcpy(a.out + row * a.out_row_bytes + begin,
                  a.parts + static_cast<size_t>(rank) * part_bytes + row * a.row_bytes,
                  bytes);
      begin += bytes;
    }
  }
}

constexpr device::Kernel kGather = {.name = "all_gather", .cpu = gather_bytes};
constexpr device::Kernel kExchange = {.name = "all_to_all", .cpu = exchange_bytes};
constexpr device::Kernel kGatherColumns = {.name = "gather_columns", .cpu = gather_columns};
constexpr FloatKernels kSum = {
    .f32 = {.name = "sum_of_ranks_f32", .cpu = sum_of_ranks<float>},
    .bf16 = {.name = "sum_of_ranks_bf16", .cpu = sum_of_ranks<BFloat16>},
    .f16 = {.name = "sum_of_ranks_f16", .cpu = sum_of_ranks<Float16>},
};

template <typename NormArguments>
constexpr FloatKernels kSumAndNorm = {
    .f32 = {.name = "sum_of_ranks_and_norm_f32", .cpu = sum_and_norm<float, NormArguments>},
    .bf16 = {.name = "sum_of_ranks_and_norm_bf16", .cpu = sum_and_norm<BFloat16, NormArguments>},
    .f16 = {.name = "sum_of_ranks_and_norm_f16", .cpu = sum_and_norm<Float16, NormArguments>},
};

// Makes collective ops run one after the other: see Communicator::order_token().
device::BufferUse in_order(parallel::Communicator& ranks) {
  const std::span<std::byte> token = ranks.order_token();
  return {
      .data = token.data(), .bytes = token.size(), .access = device::BufferUse::Access::read_write};
}

parallel::Communicator& communicator_of(const OpRun& run) {
  const int64_t wanted = run.call.attributes.ranks;
  int most = 1;
  for (parallel::Communicator* ranks : run.executor.rank_groups()) {
    if (ranks == nullptr) continue;
    if (ranks->size() == wanted) return *ranks;
    most = std::max(most, ranks->size());
  }
  throw InvalidArgument(fmt::format("{}: needs a communicator between {} ranks: this engine has {}",
                                    op_name(run.call.code),
                                    wanted,
                                    most));
}

Tensor parts_of_ranks(const OpRun& run, const Tensor& x) {
  TensorType type = x.type();
  type.shape = Shape{run.call.attributes.ranks * num_rows(x), x.size(-1)};
  return run.executor.allocate(type);
}

// out = the sum of its `num_ranks` parts, in this order.
void launch_sum(device::Stream& stream, int64_t num_ranks, const Tensor& parts, const Tensor& out) {
  const int64_t count = num_rows(out) * out.size(-1);
  const SumArguments arguments = {
      .parts = parts.data(), .out = out.data(), .num_ranks = num_ranks, .count = count};
  launch(stream,
         kernel_for(kSum, out.dtype()),
         static_cast<uint32_t>((count + kElementsPerBlock - 1) / kElementsPerBlock),
         arguments,
         std::array{writes(out), reads(parts)});
}

// Adds the ranks' parts and normalises the sum in one launch. `norm` reads the sum from `sum`.
template <typename NormArguments, size_t kUses>
void launch_sum_and_norm(const OpRun& run,
                         const Tensor& parts,
                         const Tensor& sum,
                         const FloatKernels& norm_kernels,
                         const NormArguments& norm,
                         const std::array<device::BufferUse, kUses>& uses) {
  const SumAndNormArguments<NormArguments> arguments = {
      .sum = {.parts = parts.data(),
              .out = sum.data(),
              .num_ranks = run.call.attributes.ranks,
              .count = sum.num_elements()},
      .norm_kernel = kernel_for(norm_kernels, sum.dtype()).cpu,
      .norm = norm};
  launch(run.stream,
         kernel_for(kSumAndNorm<NormArguments>, sum.dtype()),
         num_blocks(norm.tiles),
         arguments,
         uses);
}

[[noreturn]] void refuse_fused_collective(const OpRun& run) {
  throw InvalidArgument(
      fmt::format("{}: has no kernel; leave the pass that makes it switched off (pass_config)",
                  op_name(run.call.code)));
}

}  // namespace

void launch_all_gather(device::Stream& stream,
                       parallel::Communicator& ranks,
                       const Tensor& x,
                       const Tensor& out) {
  REPRISE_ASSERT(x.is_dense() && out.is_dense(), "all_gather: x and out must be dense");
  const GatherArguments arguments = {
      .ranks = &ranks, .mine = x.data(), .all = out.data(), .bytes = x.type().bytes()};
  launch(stream, kGather, 1, arguments, std::array{in_order(ranks), reads(x), writes(out)});
}

void launch_all_reduce(device::Stream& stream,
                       parallel::Communicator& ranks,
                       const Tensor& x,
                       const Tensor& parts,
                       const Tensor& out) {
  launch_all_gather(stream, ranks, x, parts);
  launch_sum(stream, ranks.size(), parts, out);
}

void launch_reduce_scatter(device::Stream& stream,
                           parallel::Communicator& ranks,
                           const Tensor& x,
                           const Tensor& parts,
                           const Tensor& out) {
  REPRISE_ASSERT(x.is_dense() && out.is_dense(), "reduce_scatter: x and out must be dense");
  const GatherArguments arguments = {
      .ranks = &ranks, .mine = x.data(), .all = parts.data(), .bytes = out.type().bytes()};
  launch(stream, kExchange, 1, arguments, std::array{in_order(ranks), reads(x), writes(parts)});
  launch_sum(stream, ranks.size(), parts, out);
}

void launch_gather_columns(device::Stream& stream,
                           parallel::Communicator& ranks,
                           const Tensor& x,
                           const Tensor& num_rows,
                           const Tensor& parts,
                           const Tensor& out) {
  REPRISE_ASSERT(x.is_dense() && out.is_dense(), "gather_columns: x and out must be dense");
  const size_t element_bytes = dtype_bytes(x.dtype());
  const GatherColumnsArguments arguments = {
      .ranks = &ranks,
      .mine = x.data_as<std::byte>(),
      .num_rows = num_rows.data_as<int32_t>(),
      .parts = parts.data_as<std::byte>(),
      .out = out.data_as<std::byte>(),
      .row_bytes = static_cast<size_t>(x.size(1)) * element_bytes,
      .out_row_bytes = static_cast<size_t>(out.size(1)) * element_bytes};
  launch(stream,
         kGatherColumns,
         1,
         arguments,
         std::array{in_order(ranks), reads(x), reads(num_rows), writes(parts), writes(out)});
}

bool launch_all_reduce(const OpRun& run) {
  const Tensor& x = run.in[0];
  if (x.type().bytes() == 0) return false;
  launch_all_reduce(run.stream, communicator_of(run), x, parts_of_ranks(run, x), run.out[0]);
  return true;
}

bool launch_all_gather(const OpRun& run) {
  if (run.in[0].type().bytes() == 0) return false;
  launch_all_gather(run.stream, communicator_of(run), run.in[0], run.out[0]);
  return true;
}

bool launch_gather_columns(const OpRun& run) {
  const auto in = run.operands<OpCode::gather_columns>();
  if (in["x"].type().bytes() == 0) return false;
  launch_gather_columns(run.stream,
                        communicator_of(run),
                        in["x"],
                        in["num_rows"],
                        parts_of_ranks(run, in["x"]),
                        run.out[0]);
  return true;
}

bool launch_reduce_scatter(const OpRun& run) {
  const Tensor& x = run.in[0];
  if (x.type().bytes() == 0) return false;
  const Tensor parts = run.executor.allocate(x.type());
  launch_reduce_scatter(run.stream, communicator_of(run), x, parts, run.out[0]);
  return true;
}

// This function takes two launches: one for the exchange and one for everything else. all_reduce,
// add and rms_norm together take four.
bool launch_fused_all_reduce_add_rms_norm(const OpRun& run) {
  const auto in = run.operands<OpCode::fused_all_reduce_add_rms_norm>();
  const Tensor& x = in["x"];
  const Tensor& weight = in["weight"];
  const Tensor& normed = run.out[0];
  const Tensor& sum = run.out[1];
  if (x.type().bytes() == 0) return false;
  REPRISE_ASSERT(x.is_dense() && normed.is_dense() && sum.is_dense() && weight.is_dense(),
                 "fused_all_reduce_add_rms_norm: x, weight and results must be dense");
  const Tensor parts = parts_of_ranks(run, x);
  launch_all_gather(run.stream, communicator_of(run), x, parts);
  const RowTiles tiles = row_tiles(num_rows(x), x.size(-1), RowCut::whole_rows);
  const float epsilon = run.call.attributes.epsilon;
  const Tensor& residual = in["residual"];
  if (!residual.defined()) {
    launch_sum_and_norm(run,
                        parts,
                        sum,
                        run.kernels.rms_norm,
                        RmsNormArguments{.x = sum.data(),
                                         .weight = weight.data(),
                                         .out = normed.data(),
                                         .x_layout = row_layout(sum),
                                         .tiles = tiles,
                                         .epsilon = epsilon},
                        std::array{writes(normed), changes(sum), reads(parts), reads(weight)});
    return true;
  }
  require_dense_rows(residual, "fused_all_reduce_add_rms_norm");
  // The sum over the ranks is not a result here: it is written over the part of the first rank.
  launch_sum_and_norm(
      run,
      parts,
      parts.with_layout(x.shape(), x.shape().dense_strides(), 0),
      run.kernels.fused_add_rms_norm,
      FusedAddRmsNormArguments{.x = parts.data(),
                               .residual = residual.data(),
                               .weight = weight.data(),
                               .normed = normed.data(),
                               .sum = sum.data(),
                               .x_layout = row_layout(x),
                               .residual_layout = row_layout(residual),
                               .tiles = tiles,
                               .epsilon = epsilon},
      std::array{writes(normed), writes(sum), changes(parts), reads(residual), reads(weight)});
  return true;
}

bool launch_linear_reduce_scatter(const OpRun& run) { refuse_fused_collective(run); }
bool launch_all_gather_linear(const OpRun& run) { refuse_fused_collective(run); }

}  // namespace reprise::kernels
