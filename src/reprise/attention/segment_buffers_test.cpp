#include "reprise/attention/segment_buffers.h"

#include <gtest/gtest.h>

#include "reprise/device/cpu/cpu_device.h"
#include "reprise/tensor/attention_segments.h"
#include "reprise/tensor/op.h"

namespace reprise::attention {
namespace {

class UnusedExecutor final : public OpExecutor {
 public:
  void execute(const OpCall&, std::span<const Tensor>, std::span<Tensor>) override { FAIL(); }
};

class SegmentBuffersTest : public ::testing::Test {
 protected:
  BackendResources resources(int64_t max_context, int64_t heads, int64_t value_dim) {
    return {.device = device_.get(),
            .executor = &executor_,
            .max_num_reqs = 4,
            .num_kv_heads = 2,
            .max_partial_size = heads * (value_dim + 2),
            .max_context = max_context};
  }

  UnusedExecutor executor_;
  std::unique_ptr<device::Device> device_ = device::create_cpu_device({.num_threads = 1});
  std::unique_ptr<device::Stream> stream_ = device_->create_stream();
};

TEST_F(SegmentBuffersTest, need_no_memory_where_no_context_has_two_segments) {
  EXPECT_EQ(most_segments(resources(kAttentionSegment, 14, 64)), 0);
  SegmentBuffers buffers(resources(kAttentionSegment, 14, 64));
  AttentionPath path;
  buffers.add_to(path, *stream_);
  EXPECT_FALSE(path.segment_sums.defined());
}

TEST_F(SegmentBuffersTest, have_room_for_the_longest_context_however_large_its_heads_are) {
  EXPECT_EQ(most_segments(resources(kAttentionSegment + 1, 14, 64)), 64)
      << "128 items for two key/value heads";
  EXPECT_EQ(most_segments(resources(100 * kAttentionSegment, 14, 64)), 100);
  EXPECT_EQ(most_segments(resources(20 * kAttentionSegment, 128, 512)), 31) << "8 MiB";
  EXPECT_EQ(most_segments(resources(40 * kAttentionSegment - 1, 128, 512)), 40);
}

TEST_F(SegmentBuffersTest, begin_with_counters_of_zero_and_stay_where_they_are) {
  SegmentBuffers buffers(resources(3 * kAttentionSegment, 14, 64));
  AttentionPath path;
  buffers.add_to(path, *stream_);
  stream_->synchronize();
  ASSERT_EQ(path.segment_sums.num_elements(), 64 * 14 * 66);
  ASSERT_GE(path.segment_counters.num_elements(), 64 * 2);
  for (int64_t i = 0; i < path.segment_counters.num_elements(); ++i) {
    EXPECT_EQ(path.segment_counters.data_as<int32_t>()[i], 0);
  }
  AttentionPath again;
  buffers.add_to(again, *stream_);
  EXPECT_EQ(again.segment_sums.data(), path.segment_sums.data());
  EXPECT_EQ(again.segment_counters.data(), path.segment_counters.data());
}

}  // namespace
}  // namespace reprise::attention
