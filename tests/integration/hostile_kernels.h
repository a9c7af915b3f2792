#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "reprise/device/cpu/cpu_features.h"
#include "reprise/kernels/attention/attention_arguments.h"
#include "reprise/kernels/causal_conv1d/causal_conv1d_arguments.h"
#include "reprise/kernels/cpu_executor.h"
#include "reprise/kernels/gather_rows/gather_rows_arguments.h"
#include "reprise/kernels/rms_norm/rms_norm_arguments.h"
#include "reprise/kernels/rope/rope_arguments.h"
#include "reprise/kernels/silu_and_mul/silu_and_mul_arguments.h"
#include "reprise/runner/execution.h"

/// Kernels that are right in eager launches and wrong in replays, like the failures of real
/// engines: only a comparison of results can detect them.
namespace reprise::testing {

/// Whether a kernel runs in a replay: a graph holds its own copy of the arguments, while an eager
/// launch has them on the stack. \pre the device has one thread
inline bool is_replayed(const void* args) noexcept {
  const std::byte here{};
  const auto distance = reinterpret_cast<intptr_t>(args) - reinterpret_cast<intptr_t>(&here);
  return std::abs(distance) > (intptr_t{1} << 20);
}

/// A kernel that runs in place of another one: in replays it first changes the arguments. There is
/// one for each type of arguments, so that a kernel needs no further state.
template <typename Arguments>
struct HostileKernel {
  static inline device::CpuKernelFunction native = nullptr;
  /// Returns false to skip the launch.
  static inline bool (*change)(Arguments&) = nullptr;

  static void run(const void* args, device::BlockRange blocks) noexcept {
    if (!is_replayed(args)) return native(args, blocks);
    Arguments changed = *static_cast<const Arguments*>(args);
    if (change(changed)) native(&changed, blocks);
  }

  static void plant(device::Kernel& kernel, bool (*how)(Arguments&)) {
    native = kernel.cpu;
    change = how;
    kernel.cpu = run;
  }
};

/// Executors over a table in which `plant` has replaced kernels.
inline runner::Execution::MakeExecutor hostile_executor(void (*plant)(kernels::KernelTable&)) {
  static std::vector<std::unique_ptr<kernels::KernelTable>> tables;  // launches refer to kernels
  tables.push_back(std::make_unique<kernels::KernelTable>(
      kernels::kernel_table(kernels::best_isa(device::detect_cpu_features()))));
  kernels::KernelTable& table = *tables.back();
  plant(table);
  return [&table](device::Stream& stream, device::MemoryPool& pool) {
    return std::make_unique<kernels::CpuExecutor>(stream, pool, table);
  };
}

// The planted failures. Each is an example of a kind of bug that engines have had.

/// A graph writes to the place that a buffer had when the graph was captured.
inline void plant_stale_address(kernels::KernelTable& table) {
  HostileKernel<kernels::RmsNormArguments>::plant(table.rms_norm.bf16,
                                                  [](kernels::RmsNormArguments& args) {
                                                    static std::vector<std::byte> freed(1 << 20);
                                                    args.out = freed.data();
                                                    return true;
                                                  });
}

/// A launch that eager runs make is missing in the graph.
inline void plant_missing_node(kernels::KernelTable& table) {
  HostileKernel<kernels::SiluAndMulArguments>::plant(
      table.silu_and_mul.bf16, [](kernels::SiluAndMulArguments&) { return false; });
}

/// A graph reads the tokens of the batch with which it was captured, which are zeros.
inline void plant_baked_tokens(kernels::KernelTable& table) {
  HostileKernel<kernels::GatherRowsArguments>::plant(
      table.gather_rows, [](kernels::GatherRowsArguments& args) {
        static const std::vector<int32_t> captured(1 << 12, 0);
        args.indices = captured.data();
        return true;
      });
}

/// A graph writes over its last input, the token of a padding row, so the results are right.
inline void plant_written_input(kernels::KernelTable& table) {
  HostileKernel<kernels::GatherRowsArguments>::plant(
      table.gather_rows, [](kernels::GatherRowsArguments& args) {
        const_cast<int32_t*>(args.indices)[args.tiles.rows - 1] = 1;
        return true;
      });
}

/// All requests of a replay update the state of the first one.
inline void plant_aliased_state(kernels::KernelTable& table) {
  HostileKernel<kernels::CausalConv1dArguments>::plant(
      table.causal_conv1d.bf16, [](kernels::CausalConv1dArguments& args) {
        static std::vector<int32_t> aliased;
        aliased.assign(static_cast<size_t>(args.states.num_reqs * args.states.slots_per_req),
                       args.states.state_indices[0]);
        args.states.state_indices = aliased.data();
        return true;
      });
}

/// A replay reads the plan of an earlier step.
inline void plant_stale_plan(kernels::KernelTable& table) {
  HostileKernel<kernels::PlannedAttentionArguments>::plant(
      table.planned_attention.bf16, [](kernels::PlannedAttentionArguments& args) {
        static std::vector<int32_t> earlier;
        if (earlier.empty()) earlier.assign(args.plan, args.plan + 64);
        args.plan = earlier.data();
        return true;
      });
}

/// A replay rotates by the positions of the captured batch.
inline void plant_stale_positions(kernels::KernelTable& table) {
  HostileKernel<kernels::RopeArguments>::plant(table.rope.bf16, [](kernels::RopeArguments& args) {
    static const std::vector<int32_t> captured(1 << 12, 0);
    args.positions = captured.data();
    return true;
  });
}

}  // namespace reprise::testing
