#include "reprise/device/poisoning_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "reprise/device/cpu/cpu_device.h"

namespace reprise::device {
namespace {

class PoisoningPoolTest : public testing::Test {
 protected:
  static bool is_poisoned(const void* data, size_t bytes) {
    const auto* begin = static_cast<const uint8_t*>(data);
    return std::all_of(begin, begin + bytes, [](uint8_t byte) { return byte == 0xFF; });
  }

  std::unique_ptr<Device> device_ = create_cpu_device({.num_threads = 1});
  std::unique_ptr<Stream> stream_ = device_->create_stream();
  PoisoningPool pool_{device_->create_pool(), *stream_};
};

TEST_F(PoisoningPoolTest, overwrites_what_comes_back) {
  const void* data = nullptr;
  {
    const PoolReference block(pool_.allocate(1000));
    data = block.get()->data;
    stream_->fill(block.get()->data, std::byte{0}, 1000);
    EXPECT_EQ(pool_.live_bytes(), 1024u);
  }
  EXPECT_TRUE(is_poisoned(data, 1000));
  EXPECT_EQ(pool_.live_bytes(), 0u);
  EXPECT_EQ(PoolReference(pool_.allocate(1000)).get()->data, data);
}

TEST_F(PoisoningPoolTest, poisons_on_every_replay_of_a_capture) {
  void* data = nullptr;
  CaptureScope capture(*stream_);
  {
    const PoolReference block(pool_.allocate(1000));
    data = block.get()->data;
    stream_->fill(data, std::byte{1}, 1000);
  }
  const auto exec = device_->instantiate(*std::move(capture).finish());
  EXPECT_EQ(exec->num_nodes(), 2u);
  EXPECT_FALSE(is_poisoned(data, 1000));
  exec->launch(*stream_);
  EXPECT_TRUE(is_poisoned(data, 1000));
}

TEST_F(PoisoningPoolTest, takes_blocks_back_in_an_invalid_capture) {
  stream_->begin_capture();
  {
    const PoolReference block(pool_.allocate(10));
    EXPECT_THROW(stream_->synchronize(), CaptureError);
  }
  stream_->abort_capture();
  EXPECT_EQ(pool_.live_bytes(), 0u);
}

TEST_F(PoisoningPoolTest, poisons_all_that_is_free_and_nothing_else) {
  const PoolReference held(pool_.allocate(4096));
  stream_->fill(held.get()->data, std::byte{3}, 4096);
  poison_free_ranges(pool_, *stream_);
  size_t poisoned = 0;
  for (const BufferView& range : pool_.free_ranges()) {
    EXPECT_TRUE(is_poisoned(range.data, range.bytes));
    poisoned += range.bytes;
  }
  EXPECT_EQ(poisoned + 4096, pool_.reserved_bytes());
  EXPECT_EQ(*static_cast<const uint8_t*>(held.get()->data), 3);
}

}  // namespace
}  // namespace reprise::device
