#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "reprise/attention/attention_metadata.h"
#include "reprise/attention/split_plan.h"
#include "reprise/cudagraph/attention_support.h"
#include "reprise/cudagraph/batch_descriptor.h"
#include "reprise/device/device.h"
#include "reprise/tensor/attention_routine.h"
#include "reprise/tensor/tensor.h"

namespace reprise::attention {

/// Chooses, before each step, the kernels that attend in it, and keeps what they read up to date.
/// The kernels themselves are the executor's: a backend is the same on every device.
///
/// Belongs to one model runner and one thread; owns its workspace, at addresses that never change.
class AttentionBackend {
 public:
  virtual ~AttentionBackend() = default;

  /// The routine of a step, whose tensors are this backend's and stay until it goes. A descriptor
  /// with a number of requests is that of a FULL graph, and all its steps get the routine that was
  /// recorded: only the content of memory may differ. Of other steps attention is outside graphs.
  /// Work on `stream` that it submits comes before the step's. Allocates nothing for a descriptor
  /// that it has seen. \throws Error if what it declared cannot hold: see planned_backend.cpp
  [[nodiscard]] virtual AttentionRoutine plan(const AttentionMetadata& metadata,
                                              const cudagraph::BatchDescriptor& descriptor,
                                              device::Stream& stream) = 0;

 protected:
  AttentionBackend() = default;
  AttentionBackend(const AttentionBackend&) = delete;
  AttentionBackend& operator=(const AttentionBackend&) = delete;
};

/// What a backend may need: the device and executor, which outlive it, and the largest step.
struct BackendResources {
  device::Device* device = nullptr;
  OpExecutor* executor = nullptr;
  int32_t max_num_reqs = 0;
  int64_t num_kv_heads = 0;
  int64_t max_partial_size = 0;  // float32 values of one part: heads * (head_dim + 2), the widest
  SplitPlanOptions split;
};

/// One line of the list of backends.
struct BackendInfo {
  std::string_view name;  // as people type it
  int version = 0;        // of FLASH_ATTN: 2 or 3; else 0
  std::string_view role;  // for the log
  /// Declared for what its kernels really do: a support level that is too high corrupts silently.
  cudagraph::AttentionCGSupport support = cudagraph::AttentionCGSupport::NEVER;
  std::unique_ptr<AttentionBackend> (*create)(const BackendResources& resources) = nullptr;
};

/// All of them; the first one is what "auto" means.
[[nodiscard]] std::span<const BackendInfo> attention_backends();

/// The one for a name as it is typed (--attention-backend, VLLM_ATTENTION_BACKEND): "auto", one of
/// the list, or one of vLLM's others that have the same role here. `flash_attn_version` tells the
/// two of FLASH_ATTN apart; 0 is the newer. \throws InvalidArgument naming what there is
[[nodiscard]] const BackendInfo& find_attention_backend(std::string_view name,
                                                        int flash_attn_version = 0);

/// One routine for every batch: each token finds its request and its position on the device.
[[nodiscard]] std::unique_ptr<AttentionBackend> create_unified_backend(const BackendResources&);
/// One routine for batches whose requests have equally many tokens, another for all others. Which
/// of them a FULL graph holds, its descriptor says.
[[nodiscard]] std::unique_ptr<AttentionBackend> create_separate_backend(const BackendResources&);
/// The host cuts up the work of each step, long contexts into parts, and writes that down in a
/// persistent buffer: one for each captured batch size, one for what is not captured.
[[nodiscard]] std::unique_ptr<AttentionBackend> create_planned_backend(const BackendResources&);

}  // namespace reprise::attention
