#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "reprise/attention/attention_metadata.h"
#include "reprise/attention/write_attention_plan.h"
#include "reprise/cudagraph/attention_support.h"
#include "reprise/cudagraph/batch_descriptor.h"
#include "reprise/device/device.h"
#include "reprise/kv_cache/tensors/cache_dtype.h"
#include "reprise/tensor/attention_path.h"
#include "reprise/tensor/tensor.h"

namespace reprise::attention {

/// Chooses the attention path of each step, and updates the data that the attention kernels read.
/// The executor has the kernels, so the same backends work on every device.
///
/// Belongs to one model runner and one thread. Owns its workspace, whose addresses never change.
class AttentionBackend {
 public:
  virtual ~AttentionBackend() = default;
  AttentionBackend(const AttentionBackend&) = delete;
  AttentionBackend& operator=(const AttentionBackend&) = delete;

  /// Prepares one step and returns its attention path. This backend owns the tensors of the path;
  /// they live as long as the backend. If the descriptor has num_reqs, the step runs a FULL graph:
  /// every step with this descriptor gets the path that was captured, and only the contents of its
  /// tensors change. Otherwise attention runs outside of graphs. What the backend submits to
  /// `stream` runs before the step. Allocates nothing for a descriptor that it has seen before.
  /// \throws Error if the backend's declared support excludes this FULL graph, see
  /// planned_backend.cpp
  [[nodiscard]] virtual AttentionPath prepare_step(const AttentionMetadata& metadata,
                                                   const cudagraph::BatchDescriptor& descriptor,
                                                   device::Stream& stream) = 0;

 protected:
  AttentionBackend() = default;
};

/// What a backend is created with: a device and an executor, which must outlive it, and the sizes
/// of the largest step.
struct BackendResources {
  device::Device* device = nullptr;
  OpExecutor* executor = nullptr;
  int32_t max_num_reqs = 0;
  int64_t num_kv_heads = 0;
  // Number of float32 values of the largest part: heads * (value_dim + 2).
  int64_t max_partial_size = 0;
  int64_t max_context = 0;  // positions of a request
  AttentionPlanOptions plan;
};

/// What the layers of a model cache. A backend serves layers of one kind.
enum class AttentionKind : uint8_t {
  key_value,  // keys and values of each head
  latent,     // one latent for all heads (MLA)
  // Recurrent layers keep states; the kinds differ in the recurrence.
  mamba1,
  mamba2,
  gated_delta_net,
  short_conv,
};

[[nodiscard]] constexpr bool is_recurrent(AttentionKind kind) noexcept {
  return kind >= AttentionKind::mamba1;
}

/// One entry in the list of backends.
struct BackendInfo {
  std::string_view name;  // the name that users type
  int version = 0;        // the version of FLASH_ATTN, 2 or 3; 0 for other backends
  std::string_view role;  // description for the log
  AttentionKind kind = AttentionKind::key_value;
  /// Which FULL graphs can hold this backend's kernels. A level that is too high gives wrong
  /// results without an error.
  cudagraph::AttentionCGSupport support = cudagraph::AttentionCGSupport::NEVER;
  /// The values of --kv-cache-dtype that vLLM's backend of this name refuses.
  std::span<const std::string_view> refused_cache_dtypes;
  std::unique_ptr<AttentionBackend> (*create)(const BackendResources& resources) = nullptr;
  /// See FullGraphSets. \pre more than one: `create` makes a backend with a path for each set
  cudagraph::FullGraphSets full_graph_sets = cudagraph::FullGraphSets::one;
};

/// The backend for one kind of a model's layers. The weakest backend decides for the model.
struct LayerBackend {
  const BackendInfo* backend = nullptr;  // in the list of backends
  std::vector<int64_t> layers;
};

/// All backends. "auto" stands for the first one of a kind.
[[nodiscard]] std::span<const BackendInfo> attention_backends();

/// Finds a backend by the name that a user gives (--attention-backend, VLLM_ATTENTION_BACKEND):
/// "auto", a name in the list, or a vLLM name that stands for the unified backend.
/// `flash_attn_version` selects version 2 or 3 of FLASH_ATTN; 0 selects the newer one. `kind`: what
/// the model's layers cache; not given: the model is not known yet.
/// \throws InvalidArgument that lists the known names, also for a backend of another kind
[[nodiscard]] const BackendInfo& find_attention_backend(
    std::string_view name,
    int flash_attn_version = 0,
    std::optional<AttentionKind> kind = std::nullopt);

[[nodiscard]] bool takes_cache_dtype(const BackendInfo& backend, const kv_cache::CacheDType& dtype);
/// \throws InvalidArgument that names the backends which take this type of cache
void require_cache_dtype(const BackendInfo& backend, const kv_cache::CacheDType& dtype);

/// Uses one path for every batch: kernels find the request and the position of each token on the
/// device.
[[nodiscard]] std::unique_ptr<AttentionBackend> create_unified_backend(const BackendResources&);
/// Uses one path for uniform batches and another path for all other batches. For a FULL graph, the
/// descriptor decides which of the two is captured.
[[nodiscard]] std::unique_ptr<AttentionBackend> create_separate_backend(const BackendResources&);
/// The same, but without a path for FULL graphs of batches that are not uniform: it refuses such
/// graphs.
[[nodiscard]] std::unique_ptr<AttentionBackend> create_uniform_graph_backend(
    const BackendResources&);
/// The backend of recurrent layers, whose kernels need no plan. It refuses all FULL graphs but
/// those of batches with the same number of tokens for each request.
[[nodiscard]] std::unique_ptr<AttentionBackend> create_recurrent_backend(const BackendResources&);
/// Uses one path for every batch and refuses every FULL graph. It stands for backends whose kernels
/// cannot be captured, and serves any kind of layers.
[[nodiscard]] std::unique_ptr<AttentionBackend> create_reference_backend(const BackendResources&);
/// Uses attention plans. The host divides the attention of each step into work items, cuts long
/// contexts into parts, and writes the plan into a persistent buffer. Each captured batch size has
/// its own buffer, and all steps without a FULL graph share one.
[[nodiscard]] std::unique_ptr<AttentionBackend> create_planned_backend(const BackendResources&);

}  // namespace reprise::attention
