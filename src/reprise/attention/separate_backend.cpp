#include <fmt/format.h>

#include "reprise/attention/attention_backend.h"
#include "reprise/attention/segment_buffers.h"
#include "reprise/base/error.h"

namespace reprise::attention {
namespace {

// Requests with more tokens are prompts. The path for any batch divides prompts better.
constexpr int32_t kLongestUniformQuery = 16;

AttentionPath path_of(int32_t uniform_query_len) {
  if (uniform_query_len < 1 || uniform_query_len > kLongestUniformQuery) return {};
  return {.kind = AttentionPath::Kind::uniform, .query_len = uniform_query_len};
}

/// The number of tokens that every request has; 0 if the numbers differ or there are no requests.
int32_t common_query_len(std::span<const int32_t> query_start_loc) {
  if (query_start_loc.size() < 2) return 0;
  const int32_t first = query_start_loc[1] - query_start_loc[0];
  for (size_t r = 2; r < query_start_loc.size(); ++r) {
    if (query_start_loc[r] - query_start_loc[r - 1] != first) return 0;
  }
  return first;
}

enum class FullGraphs : uint8_t { of_any_batch, of_uniform_batches };

class SeparateBackend final : public AttentionBackend {
 public:
  SeparateBackend(const BackendResources& resources, FullGraphs graphs)
      : graphs_(graphs), segments_(resources) {}

  AttentionPath prepare_step(const AttentionMetadata& metadata,
                             const cudagraph::BatchDescriptor& descriptor,
                             device::Stream& stream) override {
    AttentionPath path = choose_path(metadata, descriptor);
    segments_.add_to(path, stream);
    return path;
  }

 private:
  [[nodiscard]] AttentionPath choose_path(const AttentionMetadata& metadata,
                                          const cudagraph::BatchDescriptor& descriptor) const {
    // For a FULL graph the descriptor decides, and not the batch of this step: uniform batches also
    // occur in captures and replays of graphs for mixed batches.
    if (descriptor.num_reqs) {
      if (!descriptor.uniform && graphs_ == FullGraphs::of_uniform_batches) {
        throw Error(
            fmt::format("an attention backend for uniform batches was given the FULL graph [{}]: "
                        "it declares UNIFORM_BATCH, so the resolver must not plan this graph",
                        to_string(descriptor)));
      }
      return descriptor.uniform ? path_of(descriptor.num_tokens / *descriptor.num_reqs)
                                : AttentionPath{};
    }
    return path_of(common_query_len(metadata.host_query_start_loc));
  }

  FullGraphs graphs_;
  SegmentBuffers segments_;
};

}  // namespace

std::unique_ptr<AttentionBackend> create_separate_backend(const BackendResources& resources) {
  return std::make_unique<SeparateBackend>(resources, FullGraphs::of_any_batch);
}

std::unique_ptr<AttentionBackend> create_uniform_graph_backend(const BackendResources& resources) {
  return std::make_unique<SeparateBackend>(resources, FullGraphs::of_uniform_batches);
}

}  // namespace reprise::attention
