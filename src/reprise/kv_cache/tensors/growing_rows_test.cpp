#include "reprise/kv_cache/tensors/growing_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "reprise/device/cpu/cpu_device.h"

namespace reprise::kv_cache {
namespace {

bool is_zero(const std::byte* data, size_t bytes) {
  return std::all_of(data, data + bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

TEST(GrowingRows, keep_addresses_and_content_while_rows_get_memory) {
  const std::unique_ptr<device::Device> device = device::create_cpu_device({.num_threads = 1});
  const size_t granularity = device::reservable_memory(*device)->granularity();
  const std::vector<size_t> row_bytes = {1000, 24, 9000};
  GrowingRows rows(row_bytes, {.with_memory = 2, .with_addresses = 500}, *device);
  std::vector<std::byte*> addresses;
  for (size_t i = 0; i < row_bytes.size(); ++i) {
    addresses.push_back(rows.address(i));
    EXPECT_TRUE(is_zero(addresses[i], 2 * row_bytes[i]));
    std::memset(addresses[i], 7, 2 * row_bytes[i]);
  }
  for (const int64_t num_rows : {2, 3, 60, 60, 5, 499, 500}) {
    rows.grow(num_rows);
    EXPECT_EQ(rows.bytes(),
              GrowingRows::bytes_of(row_bytes, rows.counts().with_memory, granularity));
    EXPECT_EQ(device->memory().allocated_here, rows.bytes());
    for (size_t i = 0; i < row_bytes.size(); ++i) {
      ASSERT_EQ(rows.address(i), addresses[i]);
      EXPECT_EQ(addresses[i][2 * row_bytes[i] - 1], std::byte{7});
      const auto end = static_cast<size_t>(rows.counts().with_memory) * row_bytes[i];
      EXPECT_TRUE(is_zero(addresses[i] + 2 * row_bytes[i], end - 2 * row_bytes[i]));
    }
  }
  EXPECT_EQ(rows.counts().with_memory, 500);
}

TEST(GrowingRows, lie_side_by_side_when_all_have_memory) {
  const std::unique_ptr<device::Device> device = device::create_cpu_device({.num_threads = 1});
  const GrowingRows rows({100, 60}, {.with_memory = 9, .with_addresses = 9}, *device);
  EXPECT_EQ(rows.address(1) - rows.address(0), 900);
  EXPECT_EQ(rows.bytes(), 9U * 160);
}

}  // namespace
}  // namespace reprise::kv_cache
