#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "reprise/attention/attention_metadata.h"
#include "reprise/attention/write_attention_plan.h"
#include "reprise/cudagraph/attention_support.h"
#include "reprise/cudagraph/batch_descriptor.h"
#include "reprise/device/device.h"
#include "reprise/tensor/attention_path.h"
#include "reprise/tensor/tensor.h"

namespace reprise::attention {

/// Chooses, before each step, the attention kernels of the step, and updates the data that they
/// read. The kernels themselves belong to the executor, so a backend is the same on every device.
///
/// Belongs to one model runner and one thread; owns its workspace, at addresses that never change.
class AttentionBackend {
 public:
  virtual ~AttentionBackend() = default;

  /// Prepares one step and returns its path, whose tensors are owned by this backend and live as
  /// long as it does. A descriptor with a number of requests belongs to a FULL graph: all its steps
  /// get the path that was recorded, and only the content of memory may differ. In other steps
  /// attention runs outside graphs. Work that the backend submits to `stream` comes before the
  /// step's work. Allocates nothing for a descriptor that it has seen.
  /// \throws Error when the declared support excludes the FULL graph: see planned_backend.cpp
  [[nodiscard]] virtual AttentionPath prepare_step(const AttentionMetadata& metadata,
                                                   const cudagraph::BatchDescriptor& descriptor,
                                                   device::Stream& stream) = 0;

 protected:
  AttentionBackend() = default;
  AttentionBackend(const AttentionBackend&) = delete;
  AttentionBackend& operator=(const AttentionBackend&) = delete;
};

/// The resources of a backend: the device and executor, which outlive it, and the largest step.
struct BackendResources {
  device::Device* device = nullptr;
  OpExecutor* executor = nullptr;
  int32_t max_num_reqs = 0;
  int64_t num_kv_heads = 0;
  int64_t max_partial_size = 0;  // float32 values of the widest part: heads * (head_dim + 2)
  AttentionPlanOptions plan;
};

/// One line of the list of backends.
struct BackendInfo {
  std::string_view name;  // the name that users type
  int version = 0;        // the version of FLASH_ATTN, 2 or 3; 0 for the others
  std::string_view role;  // description for the log
  /// The support of the backend's kernels. A level that is too high corrupts results silently.
  cudagraph::AttentionCGSupport support = cudagraph::AttentionCGSupport::NEVER;
  std::unique_ptr<AttentionBackend> (*create)(const BackendResources& resources) = nullptr;
};

/// All backends; "auto" means the first one.
[[nodiscard]] std::span<const BackendInfo> attention_backends();

/// Finds a backend by the name that users type (--attention-backend, VLLM_ATTENTION_BACKEND):
/// "auto", a name in the list, or another name of vLLM that means the unified backend.
/// `flash_attn_version` chooses between the two versions of FLASH_ATTN; 0 is the newer one.
/// \throws InvalidArgument that lists the known names
[[nodiscard]] const BackendInfo& find_attention_backend(std::string_view name,
                                                        int flash_attn_version = 0);

/// One path for every batch: each token finds its request and its position on the device.
[[nodiscard]] std::unique_ptr<AttentionBackend> create_unified_backend(const BackendResources&);
/// One path for batches whose requests all have the same number of tokens, another for all other
/// batches. The descriptor of a FULL graph decides which path the graph holds.
[[nodiscard]] std::unique_ptr<AttentionBackend> create_separate_backend(const BackendResources&);
/// The host divides the attention of each step into items, long contexts into parts, and writes
/// this plan into a persistent buffer. There is one buffer for each captured batch size, and one
/// for steps without a FULL graph.
[[nodiscard]] std::unique_ptr<AttentionBackend> create_planned_backend(const BackendResources&);

}  // namespace reprise::attention
