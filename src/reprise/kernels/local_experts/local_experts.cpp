#include "reprise/kernels/local_experts/local_experts.h"

#include <algorithm>
#include <array>

#include "reprise/base/assert.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"

namespace reprise::kernels {
namespace {

struct alignas(16) LocalExpertsArguments {
  const float* weights;
  const int32_t* experts;
  float* local_weights;
  int32_t* local_ids;
  int64_t begin;
  int64_t end;
  int64_t count;  // of entries
};

// The work for one entry is a few instructions, so a block computes many entries.
constexpr int64_t kEntriesPerBlock = 4096;

void find_local_experts(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const LocalExpertsArguments*>(args);
  const int64_t end = std::min(a.count, blocks.end * kEntriesPerBlock);
  for (int64_t i = blocks.begin * kEntriesPerBlock; i < end; ++i) {
    const bool is_mine = a.experts[i] >= a.begin && a.experts[i] < a.end;
    a.local_weights[i] = is_mine ? a.weights[i] : 0.0F;
    a.local_ids[i] = is_mine ? a.experts[i] - static_cast<int32_t>(a.begin) : -1;
  }
}

constexpr device::Kernel kLocalExperts = {.name = "local_experts", .cpu = find_local_experts};

}  // namespace

bool launch_local_experts(device::Stream& stream,
                          LocalExperts mine,
                          const Tensor& weights,
                          const Tensor& experts,
                          const Tensor& local_weights,
                          const Tensor& local_ids) {
  REPRISE_ASSERT(
      weights.is_dense() && experts.is_dense() && local_weights.is_dense() && local_ids.is_dense(),
      "local_experts: all operands must be dense");
  const int64_t count = experts.size(0) * experts.size(1);
  const LocalExpertsArguments arguments = {.weights = weights.data_as<float>(),
                                           .experts = experts.data_as<int32_t>(),
                                           .local_weights = local_weights.data_as<float>(),
                                           .local_ids = local_ids.data_as<int32_t>(),
                                           .begin = mine.begin,
                                           .end = mine.begin + mine.count,
                                           .count = count};
  return launch(
      stream,
      kLocalExperts,
      static_cast<uint32_t>((count + kEntriesPerBlock - 1) / kEntriesPerBlock),
      arguments,
      std::array{writes(local_weights), writes(local_ids), reads(weights), reads(experts)});
}

bool launch_local_experts(const OpRun& run) {
  const auto in = run.operands<OpCode::local_experts>();
  return launch_local_experts(
      run.stream,
      {.begin = run.call.attributes.begin, .count = run.call.attributes.length},
      in["weights"],
      in["experts"],
      run.out[0],
      run.out[1]);
}

}  // namespace reprise::kernels
