#include "reprise/device/device.h"

#include <gtest/gtest.h>

#include "reprise/device/cpu/cpu_device.h"

namespace reprise::device {
namespace {

struct AddArgs {
  int* values;
  int amount;
};

void add(const void* raw, BlockRange blocks) noexcept {
  const auto& args = *static_cast<const AddArgs*>(raw);
  for (uint32_t i = blocks.begin; i < blocks.end; ++i) args.values[i] += args.amount;
}

constexpr Kernel kAdd{.name = "add", .cpu = add};

TEST(CpuDevice, replays_what_it_captured) {
  const auto device = create_cpu_device({.num_threads = 2, .allow_oversubscription = true});
  const auto stream = device->create_stream();
  const Buffer buffer = device->allocate(100 * sizeof(int));
  auto* values = static_cast<int*>(buffer.data());
  const auto launch = [&](int amount) {
    const AddArgs args{values, amount};
    const BufferUse use{values, buffer.bytes(), BufferUse::Access::read_write};
    stream->launch({.kernel = &kAdd,
                    .num_blocks = 100,
                    .args = std::as_bytes(std::span(&args, 1)),
                    .uses = std::span(&use, 1)});
  };
  launch(1);
  EXPECT_EQ(values[99], 1);
  CaptureScope capture(*stream);
  launch(2);
  launch(3);
  const auto graph = std::move(capture).finish();
  EXPECT_EQ(values[99], 1);
  ASSERT_EQ(graph->num_nodes(), 2u);
  EXPECT_TRUE(graph->nodes()[1].waits_for_previous);
  const auto exec = device->instantiate(*graph);
  for (int i = 0; i < 1000; ++i) exec->launch(*stream);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(values[i], 5001);
}

}  // namespace
}  // namespace reprise::device
