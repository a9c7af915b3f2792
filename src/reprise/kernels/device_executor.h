#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/device/device.h"
#include "reprise/device/memory_pool.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/kernels/op_run.h"
#include "reprise/tensor/attention_path.h"
#include "reprise/tensor/op.h"
#include "reprise/tensor/weight_families.h"

namespace reprise::parallel {
class Communicator;
}

namespace reprise::kernels {

class TunableProducts;

/// Memory that an executor owns and that captured kernels refer to.
struct ScratchMemory {
  std::string_view name;
  device::BufferView memory;
  /// Whether each launch reads what the previous launch left, such as counters that are zero.
  bool keeps_content = false;
};

/// Runs each op at once: checks types, takes memory for the results from the current pool and
/// launches kernels on its stream by the launch table of its device. While that stream captures,
/// the same calls are recorded. Views only change metadata, and an op on zero rows launches
/// nothing. Results that are defined before the call are written where they are, which may be the
/// memory of an operand where can_alias (tensor/aliasing.h) allows it.
///
/// An executor belongs to one thread. Stream, pools, kernels and table are borrowed and must
/// outlive the executor and its tensors. In a steady state execute() allocates nothing on the host.
class DeviceExecutor : public OpExecutor {
 public:
  /// \throws ShapeError, InvalidArgument for an op or a type without a kernel on this device,
  /// OutOfMemory, DeviceError
  void execute(const OpCall& call,
               std::span<const Tensor> inputs,
               std::span<Tensor> outputs) override;

  [[nodiscard]] device::Stream& stream() const noexcept { return *stream_; }
  [[nodiscard]] device::MemoryPool& pool() const noexcept { return *pool_; }
  /// Later results come from `pool`. See PoolScope.
  void set_pool(device::MemoryPool& pool) noexcept { pool_ = &pool; }
  [[nodiscard]] const KernelTable& kernels() const noexcept { return *kernels_; }
  /// The largest number of rows for which a norm or a quantisation in front of a matrix product
  /// needs no launch of its own. 0: it always needs one.
  [[nodiscard]] virtual int64_t norm_prologue_max_token_num() const noexcept { return 0; }
  /// The layouts of weights that its products and tables take, so that a loader packs for them.
  [[nodiscard]] virtual WeightFamilies weight_families() const noexcept { return {}; }
  /// The memory that this executor owns for itself. The addresses never change.
  [[nodiscard]] virtual std::vector<ScratchMemory> scratch() const { return {}; }
  /// States of recurrent layers of this type are computed in chunks of this many tokens, so prompts
  /// may be cut only at its multiples. 1: one token after the other.
  [[nodiscard]] virtual int state_chunk_tokens(DType /*dtype*/) const noexcept { return 1; }
  /// Keeps the activations of products with float8 weights as they are, from now on. Without this
  /// call a device may quantise them to float8 where it multiplies float8 faster than elements.
  void keep_activations() noexcept { may_quantize_activations_ = false; }
  [[nodiscard]] bool may_quantize_activations() const noexcept { return may_quantize_activations_; }
  /// A sentence about products of many rows with weights of a codec of float8, where they take
  /// longer on this device than others like it; empty if there is nothing to say. \pre nothing is
  /// being captured
  [[nodiscard]] virtual std::string remark_on(PanelFormat /*codec*/, DType /*dtype*/) { return {}; }
  /// The products whose kernels can be chosen by measurement. nullptr: rules choose all of them.
  [[nodiscard]] virtual TunableProducts* tunable_products() noexcept { return nullptr; }
  /// Later attention ops use these kernels: the choice of an attention backend for a step.
  void set_attention(const AttentionPath& path) { attention_ = path; }
  [[nodiscard]] const AttentionPath& attention() const noexcept { return attention_; }
  /// The groups of ranks among which collective ops exchange data: the ranks of an engine, and
  /// possibly a smaller group of these. Groups have different sizes, so the size in an op
  /// determines the group. nullptr: there is no such group. The communicators must outlive the
  /// graphs that this executor records.
  using RankGroups = std::array<parallel::Communicator*, 2>;
  void set_rank_groups(const RankGroups& groups) noexcept { rank_groups_ = groups; }
  [[nodiscard]] const RankGroups& rank_groups() const noexcept { return rank_groups_; }

  /// Memory of the current pool.
  [[nodiscard]] Tensor allocate(const TensorType& type);
  /// Launches a call whose types are checked and whose results have memory. Returns whether
  /// anything was launched.
  bool launch_checked(const OpCall& call,
                      std::span<const Tensor> inputs,
                      std::span<const Tensor> outputs);

  /// The number of ops executed since construction: of all, or of one kind.
  [[nodiscard]] uint64_t num_ops() const noexcept;
  [[nodiscard]] uint64_t num_ops(OpCode code) const noexcept {
    return num_ops_[static_cast<size_t>(code)];
  }
  /// The number of ops that launched or recorded work since construction. Each op is one launch,
  /// except planned attention and ops that a device launches in several parts.
  [[nodiscard]] uint64_t num_launches() const noexcept;
  [[nodiscard]] uint64_t num_launches(OpCode code) const noexcept {
    return num_launches_[static_cast<size_t>(code)];
  }

 protected:
  DeviceExecutor(device::Stream& stream,
                 device::MemoryPool& pool,
                 const KernelTable& kernels,
                 const LaunchTable& launches) noexcept
      : stream_(&stream), pool_(&pool), kernels_(&kernels), launches_(&launches) {}

 private:
  device::Stream* stream_;
  device::MemoryPool* pool_;
  const KernelTable* kernels_;
  const LaunchTable* launches_;
  AttentionPath attention_;
  RankGroups rank_groups_{};
  bool may_quantize_activations_ = true;
  std::array<uint64_t, kNumOpCodes> num_ops_{};
  std::array<uint64_t, kNumOpCodes> num_launches_{};
};

/// Runs a product whose last operand is a norm of its first operand as two launches: the norm, then
/// the same op without a norm.
bool launch_norm_apart(const OpRun& run);

/// While this object exists, the results of an executor come from another pool. A capture uses this
/// for the graph pool.
class PoolScope {
 public:
  PoolScope(DeviceExecutor& executor, device::MemoryPool& pool) noexcept
      : executor_(executor), previous_(executor.pool()) {
    executor.set_pool(pool);
  }
  PoolScope(const PoolScope&) = delete;
  PoolScope& operator=(const PoolScope&) = delete;
  ~PoolScope() { executor_.set_pool(previous_); }

 private:
  DeviceExecutor& executor_;
  device::MemoryPool& previous_;
};

}  // namespace reprise::kernels
