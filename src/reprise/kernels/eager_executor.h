#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "reprise/device/device.h"
#include "reprise/device/memory_pool.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/attention_routine.h"
#include "reprise/tensor/op.h"

namespace reprise::kernels {

/// Runs each op at once: checks shapes, takes the results' memory from the current pool and
/// launches kernels on its stream. While that stream captures, the same calls are recorded. Views
/// are metadata; an op on zero rows launches nothing. Results that are defined already are written
/// where they are, which may be on an operand as can_alias (tensor/aliasing.h) says.
///
/// Belongs to one thread. Stream, pools and kernels are borrowed and must outlive the executor and
/// its tensors. In a steady state execute() allocates nothing on the host.
class EagerExecutor : public OpExecutor {
 public:
  EagerExecutor(device::Stream& stream,
                device::MemoryPool& pool,
                const KernelTable& kernels) noexcept
      : stream_(&stream), pool_(&pool), kernels_(&kernels) {}

  /// \throws ShapeError, InvalidArgument for a type without a kernel and for collectives,
  /// OutOfMemory, DeviceError
  void execute(const OpCall& call,
               std::span<const Tensor> inputs,
               std::span<Tensor> outputs) override;

  [[nodiscard]] device::Stream& stream() const noexcept { return *stream_; }
  [[nodiscard]] device::MemoryPool& pool() const noexcept { return *pool_; }
  /// Later results come from `pool`; see PoolScope.
  void set_pool(device::MemoryPool& pool) noexcept { pool_ = &pool; }
  [[nodiscard]] const KernelTable& kernels() const noexcept { return *kernels_; }
  /// Rows up to which the norm before a product costs no launch of its own; 0: it always does.
  [[nodiscard]] virtual int64_t norm_prologue_max_token_num() const noexcept { return 0; }
  /// Later attention ops are launched as this says: an attention backend's choice for a step.
  void set_attention(const AttentionRoutine& routine) { attention_ = routine; }
  [[nodiscard]] const AttentionRoutine& attention() const noexcept { return attention_; }

  /// Ops executed since construction: all, or those of one kind.
  [[nodiscard]] uint64_t num_ops() const noexcept;
  [[nodiscard]] uint64_t num_ops(OpCode code) const noexcept {
    return num_ops_[static_cast<size_t>(code)];
  }
  /// Ops that launched or recorded work since construction; all but planned attention are one
  /// launch.
  [[nodiscard]] uint64_t num_launches() const noexcept;
  [[nodiscard]] uint64_t num_launches(OpCode code) const noexcept {
    return num_launches_[static_cast<size_t>(code)];
  }

 protected:
  /// Memory of the current pool.
  [[nodiscard]] Tensor allocate(const TensorType& type);
  /// Performs a call whose results have memory; for devices with kernels of their own. Whether a
  /// kernel was launched.
  [[nodiscard]] virtual bool run(const OpCall& call,
                                 std::span<const Tensor> inputs,
                                 std::span<Tensor> outputs);

 private:
  /// The norm, and what stands behind it, in a launch each.
  bool run_behind_norm(const OpCall& call,
                       std::span<const Tensor> inputs,
                       std::span<Tensor> outputs);
  bool run_custom(const CustomOp& op,
                  std::span<const Tensor> inputs,
                  std::span<const Tensor> outputs);

  device::Stream* stream_;
  device::MemoryPool* pool_;
  const KernelTable* kernels_;
  AttentionRoutine attention_;
  std::array<uint64_t, kNumOpCodes> num_ops_{};
  std::array<uint64_t, kNumOpCodes> num_launches_{};
};

/// Results come from another pool for a while: a capture's from the graph pool.
class PoolScope {
 public:
  PoolScope(EagerExecutor& executor, device::MemoryPool& pool) noexcept
      : executor_(executor), previous_(executor.pool()) {
    executor.set_pool(pool);
  }
  PoolScope(const PoolScope&) = delete;
  PoolScope& operator=(const PoolScope&) = delete;
  ~PoolScope() { executor_.set_pool(previous_); }

 private:
  EagerExecutor& executor_;
  device::MemoryPool& previous_;
};

}  // namespace reprise::kernels
