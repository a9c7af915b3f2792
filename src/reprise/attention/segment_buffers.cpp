#include "reprise/attention/segment_buffers.h"

#include <algorithm>

#include "reprise/tensor/attention_segments.h"

namespace reprise::attention {
namespace {

/// Memory up to this size may have room for more segments than the longest context needs.
constexpr int64_t kSmallBytes = int64_t{8} << 20;
/// The largest number of groups of heads that share latents. A segment has a counter for each
/// group, so with more groups there would be counters for fewer segments.
constexpr int64_t kMostLatentGroups = 64;

}  // namespace

int64_t most_segments(const BackendResources& resources) noexcept {
  // Kernels of other devices divide contexts in their own way.
  const bool is_cpu = resources.device != nullptr && resources.device->is_host_accessible();
  if (!is_cpu || resources.max_context <= kAttentionSegment) return 0;
  const int64_t longest = (resources.max_context + kAttentionSegment - 1) / kAttentionSegment;
  const auto bytes_per_segment = resources.max_partial_size * static_cast<int64_t>(sizeof(float));
  const int64_t wanted = std::min<int64_t>(most_parts(resources.plan, resources.num_kv_heads),
                                           kSmallBytes / std::max<int64_t>(1, bytes_per_segment));
  return std::max(longest, wanted);
}

SegmentBuffers::SegmentBuffers(const BackendResources& resources) {
  const int64_t segments = most_segments(resources);
  if (segments == 0) return;
  const int64_t num_sums = segments * resources.max_partial_size;
  const int64_t num_counters = segments * std::max(resources.num_kv_heads, kMostLatentGroups);
  sums_buffer_ = resources.device->allocate(static_cast<size_t>(num_sums) * sizeof(float));
  counters_buffer_ =
      resources.device->allocate(static_cast<size_t>(num_counters) * sizeof(int32_t));
  sums_ = Tensor::borrow({DType::f32, {num_sums}}, sums_buffer_.data(), *resources.executor);
  counters_ =
      Tensor::borrow({DType::i32, {num_counters}}, counters_buffer_.data(), *resources.executor);
}

void SegmentBuffers::add_to(AttentionPath& path, device::Stream& stream) {
  if (!sums_.defined()) return;
  // Kernels leave zeros in the counters after use, so one fill is enough.
  if (!is_zeroed_) stream.fill(counters_buffer_.data(), std::byte{0}, counters_buffer_.bytes());
  is_zeroed_ = true;
  path.segment_sums = sums_;
  path.segment_counters = counters_;
}

}  // namespace reprise::attention
