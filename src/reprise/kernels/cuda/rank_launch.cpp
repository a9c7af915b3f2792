#include "reprise/kernels/cuda/rank_launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "reprise/base/assert.h"
#include "reprise/base/error.h"
#include "reprise/kernels/cuda/cuda_kernels.h"
#include "reprise/kernels/cuda/rank_arguments.h"
#include "reprise/kernels/device_executor.h"
#include "reprise/kernels/launch.h"

namespace reprise::kernels::cuda {
namespace {

// From this size on, each of three or more ranks adds only its part of a sum, and the ranks gather
// the parts: two exchanges that move 2 (ranks - 1) / ranks times the bytes of x to a GPU, instead
// of one that moves ranks - 1 times the bytes. An exchange of few bytes takes about 10 us whatever
// its size, in which NVLink moves about this much. By arithmetic: no card has measured it.
constexpr size_t kLeastBytesOfParts = size_t{512} << 10;
// Elements of a part, so that parts begin at multiples of 16 bytes.
constexpr int64_t kPartMultiple = 8;

DeviceRanks& group_of(const OpRun& run, DeviceRankGroups groups) {
  const int64_t wanted = run.call.attributes.ranks;
  int most = 1;
  for (DeviceRanks* group : groups) {
    if (group == nullptr) continue;
    if (group->size() == wanted) return *group;
    most = std::max(most, group->size());
  }
  throw InvalidArgument(fmt::format("{}: needs a connection between {} GPUs: this engine has {}",
                                    op_name(run.call.code),
                                    wanted,
                                    most));
}

Tensor parts_of_ranks(const OpRun& run, const Tensor& x, int64_t ranks) {
  TensorType type = x.type();
  type.shape = Shape{ranks * num_rows(x), x.size(-1)};
  return run.executor.allocate(type);
}

void require_dense(const OpRun& run, const Tensor& x) {
  REPRISE_ASSERT(
      x.is_dense() && run.out[0].is_dense(), "{}: x and out must be dense", op_name(run.call.code));
}

void launch_sum(const OpRun& run, int64_t ranks, const Tensor& parts, void* out, int64_t count) {
  const DType dtype = parts.dtype();
  launch(run.stream,
         rank_sum_kernel(dtype),
         static_cast<uint32_t>(ceil_div(count, kRankElements)),
         RankSumArguments{.parts = parts.data(), .out = out, .num_ranks = ranks, .count = count},
         std::array{reads(parts),
                    device::BufferUse{out,
                                      static_cast<size_t>(count) * dtype_bytes(dtype),
                                      device::BufferUse::Access::write}});
}

bool launch_all_gather(const OpRun& run, DeviceRanks& ranks) {
  const Tensor& x = run.in[0];
  ranks.all_gather(run.stream, x.data(), run.out[0].data(), x.type().bytes());
  return true;
}

bool launch_reduce_scatter(const OpRun& run, DeviceRanks& ranks) {
  const Tensor& x = run.in[0];
  const Tensor& out = run.out[0];
  const Tensor parts = run.executor.allocate(x.type());
  ranks.all_to_all(run.stream, x.data(), parts.data(), out.type().bytes());
  launch_sum(run, ranks.size(), parts, out.data(), out.num_elements());
  return true;
}

// Each rank adds its part, in its place in `out`; then all gather the parts.
void launch_sum_by_parts(const OpRun& run, DeviceRanks& ranks, const Tensor& x) {
  const Tensor& out = run.out[0];
  const Tensor parts = run.executor.allocate(x.type());
  const Tensor sums = run.executor.allocate(x.type());
  const size_t bytes = x.type().bytes() / static_cast<size_t>(ranks.size());
  ranks.all_to_all(run.stream, x.data(), parts.data(), bytes);
  launch_sum(run, ranks.size(), parts, sums.data(), x.num_elements() / ranks.size());
  ranks.all_gather(run.stream, sums.data(), out.data(), bytes);
}

bool launch_all_reduce(const OpRun& run, DeviceRanks& ranks) {
  const Tensor& x = run.in[0];
  const int64_t count = x.num_elements();
  const size_t bytes = x.type().bytes();
  if (ranks.size() > 2 && bytes >= kLeastBytesOfParts &&
      count % (ranks.size() * kPartMultiple) == 0) {
    launch_sum_by_parts(run, ranks, x);
    return true;
  }
  const Tensor parts = parts_of_ranks(run, x, ranks.size());
  ranks.all_gather(run.stream, x.data(), parts.data(), bytes);
  launch_sum(run, ranks.size(), parts, run.out[0].data(), count);
  return true;
}

bool launch_all_reduce_and_norm(const OpRun& run, DeviceRanks& ranks) {
  const auto in = run.operands<OpCode::fused_all_reduce_add_rms_norm>();
  const Tensor& x = in["x"];
  const Tensor& residual = in["residual"];
  const Tensor& weight = in["weight"];
  const Tensor& normed = run.out[0];
  const Tensor& sum = run.out[1];
  REPRISE_ASSERT(sum.is_dense() && weight.is_dense(), "weight and results must be dense");
  if (residual.defined()) require_dense_rows(residual, "fused_all_reduce_add_rms_norm");
  const Tensor parts = parts_of_ranks(run, x, ranks.size());
  ranks.all_gather(run.stream, x.data(), parts.data(), x.type().bytes());
  const RowTiles tiles = row_tiles(num_rows(x), x.size(-1), RowCut::whole_rows);
  const RowLayout layout = row_layout(residual.defined() ? residual : sum);
  const RankSumNormArguments arguments = {
      .parts = parts.data(),
      .num_ranks = ranks.size(),
      .norm = {.x = nullptr,
               .residual = residual.defined() ? residual.data() : nullptr,
               .weight = weight.data(),
               .normed = normed.data(),
               .sum = sum.data(),
               .x_layout = layout,
               .residual_layout = layout,
               .tiles = tiles,
               .epsilon = run.call.attributes.epsilon}};
  launch(run.stream,
         rank_sum_and_norm_kernel(x.dtype()),
         num_blocks(tiles),
         arguments,
         std::array{writes(normed), writes(sum), reads(parts), reads(residual), reads(weight)});
  return true;
}

// All rows are exchanged, because only the device knows how many are needed.
bool launch_gather_columns(const OpRun& run, DeviceRanks& ranks) {
  const auto in = run.operands<OpCode::gather_columns>();
  const Tensor& x = in["x"];
  const Tensor& num_rows = in["num_rows"];
  const Tensor& out = run.out[0];
  const Tensor parts = parts_of_ranks(run, x, ranks.size());
  ranks.all_gather(run.stream, x.data(), parts.data(), x.type().bytes());
  const auto element_bytes = static_cast<int64_t>(dtype_bytes(x.dtype()));
  const RowTiles tiles = row_tiles(x.size(0), out.size(1) * element_bytes, RowCut::columns);
  launch(run.stream,
         rank_columns_kernel(),
         num_blocks(tiles),
         RankColumnsArguments{.parts = parts.data(),
                              .num_rows = num_rows.data_as<int32_t>(),
                              .out = out.data(),
                              .num_ranks = ranks.size(),
                              .row_bytes = x.size(1) * element_bytes,
                              .tiles = tiles},
         std::array{writes(out), reads(parts), reads(num_rows)});
  return true;
}

}  // namespace

bool launch_local_experts(const OpRun& run) {
  const auto in = run.operands<OpCode::local_experts>();
  const Tensor& weights = in["weights"];
  const Tensor& experts = in["experts"];
  const Tensor& local_weights = run.out[0];
  const Tensor& local_ids = run.out[1];
  REPRISE_ASSERT(
      weights.is_dense() && experts.is_dense() && local_weights.is_dense() && local_ids.is_dense(),
      "local_experts: all operands must be dense");
  const int64_t count = experts.num_elements();
  const int64_t begin = run.call.attributes.begin;
  return launch(
      run.stream,
      rank_experts_kernel(),
      static_cast<uint32_t>(ceil_div(count, kRankElements)),
      RankExpertsArguments{.weights = weights.data_as<float>(),
                           .experts = experts.data_as<int32_t>(),
                           .local_weights = local_weights.data_as<float>(),
                           .local_ids = local_ids.data_as<int32_t>(),
                           .begin = begin,
                           .end = begin + run.call.attributes.length,
                           .count = count},
      std::array{writes(local_weights), writes(local_ids), reads(weights), reads(experts)});
}

bool launch_collective(const OpRun& run, DeviceRankGroups groups) {
  const Tensor& x = run.in[0];
  if (x.type().bytes() == 0) return false;
  switch (run.call.code) {
    case OpCode::linear_reduce_scatter:
    case OpCode::all_gather_linear:
      throw InvalidArgument(
          fmt::format("{}: has no kernel; leave the pass that makes it switched off (pass_config)",
                      op_name(run.call.code)));
    default:
      break;
  }
  DeviceRanks& ranks = group_of(run, groups);
  require_dense(run, x);
  switch (run.call.code) {
    case OpCode::all_gather:
      return launch_all_gather(run, ranks);
    case OpCode::reduce_scatter:
      return launch_reduce_scatter(run, ranks);
    case OpCode::all_reduce:
      return launch_all_reduce(run, ranks);
    case OpCode::fused_all_reduce_add_rms_norm:
      return launch_all_reduce_and_norm(run, ranks);
    default:
      return launch_gather_columns(run, ranks);
  }
}

}  // namespace reprise::kernels::cuda
