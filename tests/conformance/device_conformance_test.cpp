#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "conformance_kernels.h"
#include "device_conformance.h"
#include "reprise/base/error.h"
#include "reprise/device/discardable_memory.h"
#include "reprise/device/graph_node.h"
#include "tests/support/fake_device/fake_device.h"

namespace reprise::device::conformance {
namespace {

// ---- eager -------------------------------------------------------------------------------------

DEVICE_CASE(launch_runs_every_block_exactly_once) {
  for (const uint32_t grid : {0u, 1u, 2u, 3u, 31u, 32u, 33u, 64u, 1000u, 100'003u}) {
    // The array has one element more than there are blocks; no block may change this element.
    DeviceArray counts(subject, grid + 1);
    launch_add(*subject.stream, counts.data(), grid, 1);
    std::vector<uint32_t> expected(grid + 1, 1);
    expected.back() = 0;
    EXPECT_EQ(counts.download(), expected) << "grid " << grid;
  }
}

DEVICE_CASE(launches_run_in_order) {
  DeviceArray values(subject, 1000);
  DeviceArray copy(subject, 1000);
  for (int i = 0; i < 100; ++i) {
    launch_add(*subject.stream, values, 1);
    subject.stream->copy(copy.data(), values.data(), values.bytes());
    launch_add(*subject.stream, copy, 1);
    subject.stream->copy(values.data(), copy.data(), values.bytes());
  }
  EXPECT_EQ(values.download(), std::vector<uint32_t>(1000, 200));
}

DEVICE_CASE(copies_and_fills_any_length) {
  const size_t most = 300'001;
  const Buffer source = subject.device->allocate(most);
  const Buffer target = subject.device->allocate(most);
  std::vector<uint8_t> pattern(most);
  for (size_t i = 0; i < most; ++i) pattern[i] = static_cast<uint8_t>(i * 31 % 251);
  subject.stream->copy_from_host(source.data(), pattern.data(), most);
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{31}, size_t{65'536}, size_t{65'537}, most}) {
    subject.stream->fill(target.data(), std::byte{0xAB}, most);
    subject.stream->copy(target.data(), source.data(), bytes);
    std::vector<uint8_t> found(most);
    subject.stream->copy_to_host(found.data(), target.data(), most);
    EXPECT_TRUE(
        std::equal(found.begin(), found.begin() + static_cast<long>(bytes), pattern.begin()));
    EXPECT_TRUE(std::all_of(found.begin() + static_cast<long>(bytes), found.end(), [](uint8_t b) {
      return b == 0xAB;
    })) << bytes;
  }
}

DEVICE_CASE(refuses_a_launch_that_cannot_be) {
  DeviceArray values(subject, 1);
  const std::array<std::byte, kMaxLaunchArgumentBytes + 1> args{};
  EXPECT_THROW(subject.stream->launch({.kernel = &kAdd, .num_blocks = 1, .args = args}),
               DeviceError);
  EXPECT_THROW(subject.stream->launch({.kernel = nullptr, .num_blocks = 1}), DeviceError);
  launch_add(*subject.stream, values, 1);
  EXPECT_EQ(values.download(), std::vector<uint32_t>{1});
}

DEVICE_CASE(counts_a_graph_launch_once) {
  DeviceArray values(subject, 8);
  Stream& stream = *subject.stream;
  launch_add(stream, values, 1);
  stream.fill(values.data(), std::byte{0}, values.bytes());
  launch_add(stream, values.data(), 0, 1);
  EXPECT_EQ(stream.counters().kernel_launches, 2u);
  stream.begin_capture();
  for (int i = 0; i < 5; ++i) launch_add(stream, values, 1);
  const auto graph = stream.end_capture();
  EXPECT_EQ(stream.counters().captured_launches, 5u);
  EXPECT_EQ(stream.counters().submissions(), 2u);
  const auto exec = subject.device->instantiate(*graph);
  for (int i = 0; i < 3; ++i) exec->launch(stream);
  EXPECT_EQ(stream.counters().kernel_launches, 2u);
  EXPECT_EQ(stream.counters().graph_launches, 3u);
  EXPECT_EQ(stream.counters().submissions(), 5u);
}

DEVICE_CASE(stream_knows_its_device) {
  EXPECT_EQ(&subject.stream->device(), subject.device.get());
  EXPECT_FALSE(subject.device->name().empty());
  EXPECT_FALSE(subject.device->description().empty());
}

// ---- memory ------------------------------------------------------------------------------------

DEVICE_CASE(buffers_are_zeroed_and_aligned) {
  for (const size_t count : {size_t{1}, size_t{1000}, size_t{1} << 20}) {
    for (int round = 0; round < 2; ++round) {  // in the second round the memory may be reused
      DeviceArray values(subject, count);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(values.data()) % 4096, 0u);
      EXPECT_EQ(values.download(), std::vector<uint32_t>(count, 0));
      subject.stream->fill(values.data(), std::byte{0xFF}, values.bytes());
      subject.stream->synchronize();
    }
  }
}

DEVICE_CASE(memory_can_be_given_back_while_graphs_hold_its_address) {
  DiscardableMemory* memory = discardable_memory(*subject.device);
  if (memory == nullptr) GTEST_SKIP() << "this device keeps its memory";
  // The sizes are a multiple of a device's granule, slightly more than that, and much less.
  for (const size_t count : {size_t{4} << 20, (size_t{4} << 20) + 1, size_t{3}}) {
    DeviceArray neighbour(subject, count);
    DeviceArray values(subject, count);
    launch_add(*subject.stream, neighbour, 7);
    subject.stream->begin_capture();
    launch_add(*subject.stream, values, 1);
    const auto exec = subject.device->instantiate(*subject.stream->end_capture());
    exec->launch(*subject.stream);
    subject.stream->synchronize();
    for (int round = 0; round < 2; ++round) {
      memory->discard(values.view());
      memory->discard(values.view());
      memory->restore(values.view());
      subject.stream->fill(values.data(), std::byte{0}, values.bytes());
      exec->launch(*subject.stream);
      memory->restore(values.view());  // nothing was discarded, so nothing is restored
      EXPECT_EQ(values.download(), std::vector<uint32_t>(count, 1));
    }
    EXPECT_EQ(neighbour.download(), std::vector<uint32_t>(count, 7));
  }
  DeviceArray values(subject, size_t{4} << 20);
  memory->discard(values.view());  // destroyed while discarded
}

DEVICE_CASE(memory_that_was_given_back_comes_as_zeros) {
  DiscardableMemory* memory = discardable_memory(*subject.device);
  if (memory == nullptr) GTEST_SKIP() << "this device keeps its memory";
  const size_t count = size_t{4} << 20;
  DeviceArray values(subject, count);
  launch_add(*subject.stream, values, 5);
  subject.stream->synchronize();
  memory->discard(values.view());
  memory->restore(values.view());
  EXPECT_EQ(values.download(), std::vector<uint32_t>(count, 0));
}

DEVICE_CASE(a_capture_does_not_outlive_a_change_of_memory_under_it) {
  DiscardableMemory* memory = discardable_memory(*subject.device);
  if (memory == nullptr) GTEST_SKIP() << "this device keeps its memory";
  DeviceArray values(subject, 100);
  subject.stream->begin_capture();
  memory->discard(values.view());
  EXPECT_THROW((void)subject.stream->end_capture(), CaptureError);
  subject.stream->begin_capture();
  EXPECT_THROW(memory->restore(values.view()), CaptureError);
  EXPECT_THROW((void)subject.stream->end_capture(), CaptureError);
  memory->restore(values.view());
  EXPECT_EQ(values.download(), std::vector<uint32_t>(100, 0));
}

DEVICE_CASE(accounts_for_its_memory) {
  const MemoryInfo before = subject.device->memory();
  EXPECT_GT(before.total, 0u);
  EXPECT_LE(before.free, before.total);
  {
    const Buffer buffer = subject.device->allocate(10'000'000);
    EXPECT_EQ(buffer.bytes(), 10'000'000u);
    EXPECT_GE(subject.device->memory().allocated_here, before.allocated_here + 10'000'000);
    Buffer moved;
    moved = subject.device->allocate(0);
    EXPECT_EQ(moved.bytes(), 0u);
  }
  EXPECT_EQ(subject.device->memory().allocated_here, before.allocated_here);
}

DEVICE_CASE(throws_out_of_memory_for_absurd_sizes) {
  const auto pool = subject.device->create_pool();
  for (const size_t bytes : {size_t{1} << 50, size_t{1} << 63, ~size_t{0}}) {
    EXPECT_THROW((void)subject.device->allocate(bytes), OutOfMemory) << bytes;
    EXPECT_THROW((void)pool->allocate(bytes), OutOfMemory) << bytes;
  }
  const PoolReference small(pool->allocate(100));
  EXPECT_NE(small.get()->data, nullptr);
}

DEVICE_CASE(pool_reuses_addresses_in_a_fixed_way) {
  const auto run = [&](MemoryPool& pool) {
    std::vector<const void*> addresses;
    std::mt19937 random(7);
    std::vector<PoolReference> live;
    for (int i = 0; i < 2000; ++i) {
      if (live.size() > 20 || (!live.empty() && random() % 2 == 0)) {
        std::swap(live[random() % live.size()], live.back());
        live.pop_back();
      } else {
        live.emplace_back(pool.allocate(random() % 70'000));
        addresses.push_back(live.back().get()->data);
      }
    }
    return addresses;
  };
  const auto pool = subject.device->create_pool();
  const auto first = run(*pool);
  const size_t reserved = pool->reserved_bytes();
  EXPECT_EQ(pool->live_bytes(), 0u);
  EXPECT_EQ(run(*pool), run(*pool));
  EXPECT_EQ(pool->reserved_bytes(), reserved);
  EXPECT_GE(pool->peak_live_bytes(), pool->live_bytes());
  EXPECT_LE(pool->peak_live_bytes(), reserved);
}

DEVICE_CASE(pool_gives_a_released_large_block_to_several_small_ones) {
  const auto pool = subject.device->create_pool();
  const std::byte* begin = nullptr;
  const size_t large = size_t{8} << 20;
  {
    const PoolReference block(pool->allocate(large));
    begin = static_cast<const std::byte*>(block.get()->data);
  }
  const size_t reserved = pool->reserved_bytes();
  std::vector<PoolReference> small;
  for (int i = 0; i < 8; ++i) {
    small.emplace_back(pool->allocate(large / 8));
    const auto* data = static_cast<const std::byte*>(small.back().get()->data);
    EXPECT_GE(data, begin);
    EXPECT_LE(data + large / 8, begin + large);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 256, 0u);
  }
  EXPECT_EQ(pool->reserved_bytes(), reserved);
  small.clear();
  const PoolReference again(pool->allocate(large));
  EXPECT_EQ(again.get()->data, begin);
  EXPECT_EQ(pool->reserved_bytes(), reserved);
}

DEVICE_CASE(pool_may_grow_during_capture) {
  const auto pool = subject.device->create_pool();
  CaptureScope capture(*subject.stream);
  const PoolReference block(pool->allocate(size_t{3} << 20));
  const auto* values = static_cast<uint32_t*>(block.get()->data);
  subject.stream->fill(block.get()->data, std::byte{0}, 4096);
  launch_add(*subject.stream, static_cast<uint32_t*>(block.get()->data), 1024, 5);
  const auto graph = std::move(capture).finish();
  const auto exec = subject.device->instantiate(*graph);
  exec->launch(*subject.stream);
  std::vector<uint32_t> found(1024);
  subject.stream->copy_to_host(found.data(), values, 4096);
  EXPECT_EQ(found, std::vector<uint32_t>(1024, 5));
}

// ---- capture and replay ------------------------------------------------------------------------

DEVICE_CASE(capture_records_and_does_not_run) {
  DeviceArray values(subject, 100);
  CaptureScope capture(*subject.stream);
  EXPECT_TRUE(subject.stream->is_capturing());
  launch_add(*subject.stream, values, 1);
  launch_add(*subject.stream, values.data(), 0, 1);
  subject.stream->fill(values.data(), std::byte{1}, values.bytes());
  const auto graph = std::move(capture).finish();
  EXPECT_FALSE(subject.stream->is_capturing());
  EXPECT_EQ(values.download(), std::vector<uint32_t>(100, 0));
  ASSERT_EQ(graph->num_nodes(), 2u);
  EXPECT_EQ(graph->nodes()[0].kernel, "add");
  EXPECT_EQ(graph->nodes()[0].num_blocks, 100u);
  EXPECT_FALSE(graph->nodes()[0].waits_for_previous);
  EXPECT_EQ(graph->nodes()[1].kernel, "fill");
}

DEVICE_CASE(nodes_tell_what_memory_they_use_and_keep_a_copy_of_their_arguments) {
  DeviceArray values(subject, 100);
  DeviceArray others(subject, 100);
  CaptureScope capture(*subject.stream);
  launch_add(*subject.stream, values, 7);
  subject.stream->copy(others.data(), values.data(), values.bytes());
  subject.stream->fill(values.data(), std::byte{1}, 16);
  const auto graph = std::move(capture).finish();
  const std::vector<GraphNode> nodes = graph->nodes();
  ASSERT_EQ(nodes.size(), 3u);
  for (const GraphNode& node : nodes) EXPECT_TRUE(node.tells_uses) << node.kernel;

  ASSERT_EQ(nodes[0].uses.size(), 1u);
  EXPECT_EQ(nodes[0].uses[0].data, values.data());
  EXPECT_EQ(nodes[0].uses[0].bytes, values.bytes());
  EXPECT_EQ(nodes[0].uses[0].access, BufferUse::Access::read_write);
  ASSERT_EQ(nodes[0].args.size(), sizeof(AddArgs));
  AddArgs args{};
  std::memcpy(&args, nodes[0].args.data(), sizeof args);
  EXPECT_EQ(args.amount, 7u);

  ASSERT_EQ(nodes[1].uses.size(), 2u);
  EXPECT_EQ(nodes[1].uses[0].data, values.data());
  EXPECT_FALSE(nodes[1].uses[0].writes());
  EXPECT_EQ(nodes[1].uses[1].data, others.data());
  EXPECT_TRUE(nodes[1].uses[1].writes());
  ASSERT_EQ(nodes[2].uses.size(), 1u);
  EXPECT_EQ(nodes[2].uses[0].bytes, 16u);
}

DEVICE_CASE(empty_capture_makes_a_graph_that_does_nothing) {
  CaptureScope capture(*subject.stream);
  const auto graph = std::move(capture).finish();
  EXPECT_EQ(graph->num_nodes(), 0u);
  const auto exec = subject.device->instantiate(*graph);
  exec->launch(*subject.stream);
  subject.stream->synchronize();
  EXPECT_EQ(subject.stream->counters().graph_launches, 1u);
}

DEVICE_CASE(arguments_are_bound_by_value_at_capture) {
  DeviceArray values(subject, 4);
  AddArgs args{values.data(), 3};
  const BufferUse use{values.data(), values.bytes(), BufferUse::Access::read_write};
  CaptureScope capture(*subject.stream);
  subject.stream->launch({.kernel = &kAdd,
                          .num_blocks = 4,
                          .args = std::as_bytes(std::span(&args, 1)),
                          .uses = std::span(&use, 1)});
  args = {nullptr, 99};
  const auto exec = subject.device->instantiate(*std::move(capture).finish());
  exec->launch(*subject.stream);
  EXPECT_EQ(values.download(), std::vector<uint32_t>(4, 3));
}

DEVICE_CASE(replay_reads_persistent_buffers_anew) {
  DeviceArray input(subject, 33);
  DeviceArray output(subject, 33);
  CaptureScope capture(*subject.stream);
  subject.stream->copy(output.data(), input.data(), input.bytes());
  launch_add(*subject.stream, output, 1);
  const auto exec = subject.device->instantiate(*std::move(capture).finish());
  for (uint32_t step = 0; step < 50; ++step) {
    input.upload(std::vector<uint32_t>(33, step * 10));
    exec->launch(*subject.stream);
    EXPECT_EQ(output.download(), std::vector<uint32_t>(33, step * 10 + 1));
  }
}

DEVICE_CASE(largest_arguments_survive_capture) {
  struct LargeArgs {
    AddArgs add;
    std::array<std::byte, kMaxLaunchArgumentBytes - sizeof(AddArgs)> rest;
  };
  static_assert(sizeof(LargeArgs) == kMaxLaunchArgumentBytes);
  DeviceArray values(subject, 40);
  CaptureScope capture(*subject.stream);
  for (uint32_t i = 0; i < 10; ++i) {
    const LargeArgs args{{values.data(), i}, {}};
    const BufferUse use{values.data(), values.bytes(), BufferUse::Access::read_write};
    subject.stream->launch({.kernel = &kAdd,
                            .num_blocks = 40,
                            .args = std::as_bytes(std::span(&args, 1)),
                            .uses = std::span(&use, 1)});
  }
  const auto exec = subject.device->instantiate(*std::move(capture).finish());
  exec->launch(*subject.stream);
  EXPECT_EQ(values.download(), std::vector<uint32_t>(40, 45));
}

DEVICE_CASE(graph_may_die_before_its_executable_and_be_instantiated_twice) {
  DeviceArray values(subject, 10);
  CaptureScope capture(*subject.stream);
  launch_add(*subject.stream, values, 1);
  auto graph = std::move(capture).finish();
  const auto first = subject.device->instantiate(*graph);
  const auto second = subject.device->instantiate(*graph);
  graph.reset();
  first->launch(*subject.stream);
  second->launch(*subject.stream);
  EXPECT_EQ(values.download(), std::vector<uint32_t>(10, 2));
  EXPECT_EQ(first->num_nodes(), 1u);
  EXPECT_GT(first->bytes(), 0u);
}

DEVICE_CASE(executable_can_be_launched_on_another_stream) {
  DeviceArray values(subject, 10);
  CaptureScope capture(*subject.stream);
  launch_add(*subject.stream, values, 1);
  const auto exec = subject.device->instantiate(*std::move(capture).finish());
  const auto other = subject.device->create_stream();
  exec->launch(*other);
  other->synchronize();
  EXPECT_EQ(values.download(), std::vector<uint32_t>(10, 1));
}

DEVICE_CASE(update_takes_over_the_arguments_of_a_graph_of_the_same_shape) {
  DeviceArray a(subject, 70);
  DeviceArray b(subject, 70);
  const auto capture_graph =
      [&](const DeviceArray& first, const DeviceArray& second, uint32_t grid) {
        CaptureScope capture(*subject.stream);
        launch_add(*subject.stream, first.data(), grid, 1);
        launch_add(*subject.stream, second.data(), grid, 10);
        return std::move(capture).finish();
      };
  // Launches that did not conflict before do so now, so the barriers must change.
  const auto exec = subject.device->instantiate(*capture_graph(a, b, 70));
  EXPECT_TRUE(exec->update(*capture_graph(b, b, 70)));
  exec->launch(*subject.stream);
  EXPECT_EQ(a.download(), std::vector<uint32_t>(70, 0));
  EXPECT_EQ(b.download(), std::vector<uint32_t>(70, 11));

  EXPECT_FALSE(exec->update(*capture_graph(a, a, 69)));
  CaptureScope shorter(*subject.stream);
  launch_add(*subject.stream, a, 1);
  EXPECT_FALSE(exec->update(*std::move(shorter).finish()));
  CaptureScope other_kernel(*subject.stream);
  launch_add(*subject.stream, a, 1);
  subject.stream->copy(b.data(), a.data(), 70);
  EXPECT_FALSE(exec->update(*std::move(other_kernel).finish()));
  exec->launch(*subject.stream);
  EXPECT_EQ(b.download(), std::vector<uint32_t>(70, 22));
}

// A random program over one range of memory; the conflicts are random too.
std::vector<MixArgs> random_program(std::mt19937& random, uint32_t* memory, uint32_t count) {
  constexpr std::array<uint32_t, 9> kGrids{0, 1, 1, 1, 2, 5, 31, 32, 33};
  const auto pick = [&](uint32_t most) { return static_cast<uint32_t>(random() % most); };
  const size_t length = 2 + pick(40);
  std::vector<MixArgs> program;
  while (program.size() < length) {
    const auto stretch = [&] { return std::pair(pick(count - 1), 1 + pick(count / 6)); };
    const auto [d, dn] = stretch();
    const auto [f, fn] = stretch();
    const auto [s, sn] = stretch();
    const auto fits = [&](uint32_t begin, uint32_t n) { return begin + n <= count; };
    // A source must not overlap the destination: blocks of one launch must not depend on each
    // other.
    const auto apart = [](uint32_t a, uint32_t an, uint32_t b, uint32_t bn) {
      return a + an <= b || b + bn <= a;
    };
    if (!fits(d, dn) || !fits(f, fn) || !fits(s, sn)) continue;
    if (!apart(d, dn, f, fn) || !apart(d, dn, s, sn)) continue;
    program.push_back({.destination = memory + d,
                       .first = memory + f,
                       .second = memory + s,
                       .num_elements = dn,
                       .first_elements = fn,
                       .second_elements = sn,
                       .num_blocks = kGrids[pick(kGrids.size())],
                       .salt = static_cast<uint32_t>(random())});
  }
  return program;
}

DEVICE_CASE(replay_equals_eager_and_a_sequential_run_on_random_programs) {
  constexpr uint32_t kCount = 600;
  DeviceArray memory(subject, kCount);
  std::vector<uint32_t> start(kCount);
  std::iota(start.begin(), start.end(), 1u);
  for (uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const auto program = random_program(random, memory.data(), kCount);

    memory.upload(start);
    for (const MixArgs& args : program) launch_mix(*subject.stream, args);
    const auto eager = memory.download();

    std::vector<uint32_t> expected = start;
    const auto on_host = [&](const uint32_t* p) { return expected.data() + (p - memory.data()); };
    const auto run_on_host = [&] {
      for (MixArgs args : program) {
        args.destination = on_host(args.destination);
        args.first = on_host(args.first);
        args.second = on_host(args.second);
        mix_reference(args);
      }
    };
    run_on_host();
    ASSERT_EQ(eager, expected) << "seed " << seed;

    CaptureScope capture(*subject.stream);
    for (const MixArgs& args : program) launch_mix(*subject.stream, args);
    const auto exec = subject.device->instantiate(*std::move(capture).finish());
    memory.upload(start);
    expected = start;
    for (int replay = 0; replay < 30; ++replay) {
      exec->launch(*subject.stream);
      run_on_host();
      ASSERT_EQ(memory.download(), expected) << "seed " << seed << ", replay " << replay;
    }
  }
}

// ---- what capture forbids ----------------------------------------------------------------------

struct ForbiddenAct {
  const char* name;
  std::function<void()> act;
};

// All objects are made outside of the capture, so each function makes only the forbidden call.
struct ForbiddenActs {
  explicit ForbiddenActs(Subject& subject)
      : values(subject, 16),
        eager_event(subject.device->create_event()),
        fresh_event(subject.device->create_event()) {
    Stream& stream = *subject.stream;
    Device& device = *subject.device;
    stream.record(*eager_event);
    CaptureScope capture(stream);
    launch_add(stream, values, 1);
    over_event = device.create_event();
    stream.record(*over_event);
    exec = device.instantiate(*std::move(capture).finish());
    list = {
        {"synchronize", [&stream] { stream.synchronize(); }},
        {"allocate", [&device] { (void)device.allocate(64); }},
        {"copy_from_host",
         [this, &stream] {
           const uint32_t value = 7;
           stream.copy_from_host(values.data(), &value, sizeof value);
         }},
        {"copy_to_host",
         [this, &stream] {
           uint32_t value = 0;
           stream.copy_to_host(&value, values.data(), sizeof value);
         }},
        {"begin_capture", [&stream] { stream.begin_capture(); }},
        {"graph launch", [this, &stream] { exec->launch(stream); }},
        {"wait for an eager event", [this, &stream] { stream.wait(*eager_event); }},
        {"wait for a fresh event", [this, &stream] { stream.wait(*fresh_event); }},
        {"wait for an event of an old capture", [this, &stream] { stream.wait(*over_event); }},
        {"event synchronize", [this] { eager_event->synchronize(); }},
        {"event is_complete", [this] { (void)eager_event->is_complete(); }},
        {"event of this capture: synchronize",
         [this, &stream] {
           stream.record(*fresh_event);
           fresh_event->synchronize();
         }},
        {"event of this capture: is_complete",
         [this, &stream] {
           stream.record(*fresh_event);
           (void)fresh_event->is_complete();
         }},
        {"too many argument bytes",
         [&stream] {
           const std::array<std::byte, kMaxLaunchArgumentBytes + 1> args{};
           stream.launch({.kernel = &kAdd, .num_blocks = 1, .args = args});
         }},
    };
  }

  DeviceArray values;
  std::unique_ptr<Event> eager_event;
  std::unique_ptr<Event> fresh_event;
  std::unique_ptr<Event> over_event;
  std::unique_ptr<GraphExec> exec;
  std::vector<ForbiddenAct> list;
};

template <typename Act>
std::string capture_error_of(Act&& act) {
  try {
    act();
  } catch (const CaptureError& error) {
    EXPECT_FALSE(error.is_sticky());
    return error.what();
  }
  return {};
}

DEVICE_CASE(forbidden_acts_invalidate_the_capture_and_nothing_else) {
  const size_t num_acts = ForbiddenActs(subject).list.size();
  for (size_t i = 0; i < num_acts; ++i) {
    const ForbiddenActs acts(subject);
    const ForbiddenAct& forbidden = acts.list[i];
    Stream& stream = *subject.stream;
    stream.begin_capture();
    launch_add(stream, acts.values, 1);
    const std::string reason = capture_error_of(forbidden.act);
    EXPECT_FALSE(reason.empty()) << forbidden.name << " was allowed";
    EXPECT_TRUE(stream.is_capturing()) << forbidden.name;
    EXPECT_EQ(capture_error_of([&] { launch_add(stream, acts.values, 1); }), reason);
    EXPECT_EQ(capture_error_of([&] { stream.synchronize(); }), reason);
    EXPECT_EQ(capture_error_of([&] { (void)stream.end_capture(); }), reason) << forbidden.name;

    EXPECT_FALSE(stream.is_capturing());
    EXPECT_EQ(acts.values.download(), std::vector<uint32_t>(16, 0)) << forbidden.name;
    launch_add(stream, acts.values, 2);
    EXPECT_EQ(acts.values.download(), std::vector<uint32_t>(16, 2));
    CaptureScope again(stream);
    launch_add(stream, acts.values, 3);
    const auto exec = subject.device->instantiate(*std::move(again).finish());
    EXPECT_EQ(exec->num_nodes(), 1u);
    exec->launch(stream);
    EXPECT_EQ(acts.values.download(), std::vector<uint32_t>(16, 5));
  }
}

DEVICE_CASE(destroying_a_buffer_invalidates_the_capture) {
  DeviceArray values(subject, 4);
  auto buffer = std::make_unique<Buffer>(subject.device->allocate(64));
  subject.stream->begin_capture();
  launch_add(*subject.stream, values, 1);
  buffer.reset();
  EXPECT_THROW((void)subject.stream->end_capture(), CaptureError);
  launch_add(*subject.stream, values, 1);
  EXPECT_EQ(values.download(), std::vector<uint32_t>(4, 1));
}

DEVICE_CASE(a_capture_binds_only_its_own_thread) {
  DeviceArray values(subject, 8);
  CaptureScope capture(*subject.stream);
  launch_add(*subject.stream, values, 1);
  std::thread other([&] {
    const Buffer buffer = subject.device->allocate(100);
    const auto stream = subject.device->create_stream();
    const auto event = subject.device->create_event();
    stream->fill(buffer.data(), std::byte{7}, 100);
    stream->record(*event);
    event->synchronize();
    EXPECT_TRUE(event->is_complete());
    std::array<uint8_t, 100> found{};
    stream->copy_to_host(found.data(), buffer.data(), 100);
    EXPECT_EQ(found[99], 7);
  });
  other.join();
  launch_add(*subject.stream, values, 1);
  const auto exec = subject.device->instantiate(*std::move(capture).finish());
  exec->launch(*subject.stream);
  EXPECT_EQ(values.download(), std::vector<uint32_t>(8, 2));
}

DEVICE_CASE(another_stream_of_the_capturing_thread_stays_eager) {
  DeviceArray values(subject, 8);
  const auto eager = subject.device->create_stream();
  CaptureScope capture(*subject.stream);
  launch_add(*subject.stream, values, 1);
  launch_add(*eager, values, 10);
  const auto exec = subject.device->instantiate(*std::move(capture).finish());
  eager->synchronize();
  EXPECT_EQ(exec->num_nodes(), 1u);
  EXPECT_EQ(values.download(), std::vector<uint32_t>(8, 10));
}

DEVICE_CASE(the_capturing_thread_waits_for_no_stream) {
  DeviceArray values(subject, 8);
  const auto eager = subject.device->create_stream();
  launch_add(*eager, values, 10);
  uint32_t word = 0;
  const std::array<std::function<void()>, 3> waits = {
      [&] { eager->synchronize(); },
      [&] { eager->copy_to_host(&word, values.data(), sizeof word); },
      [&] { eager->copy_from_host(values.data(), &word, sizeof word); }};
  for (const std::function<void()>& wait : waits) {
    CaptureScope capture(*subject.stream);
    launch_add(*subject.stream, values, 1);
    EXPECT_THROW(wait(), CaptureError);
    EXPECT_THROW(launch_add(*subject.stream, values, 1), CaptureError);
    EXPECT_THROW((void)std::move(capture).finish(), CaptureError);
  }
  for (const std::function<void()>& wait : waits) EXPECT_NO_THROW(wait());
  EXPECT_EQ(values.download().back(), 10u);
}

DEVICE_CASE(another_thread_may_wait_for_its_stream_during_a_capture) {
  DeviceArray values(subject, 8);
  DeviceArray others(subject, 8);
  const auto eager = subject.device->create_stream();
  CaptureScope capture(*subject.stream);
  launch_add(*subject.stream, values, 1);
  std::thread other([&] {
    launch_add(*eager, others, 10);
    EXPECT_NO_THROW(eager->synchronize());
  });
  other.join();
  const auto graph = std::move(capture).finish();
  EXPECT_EQ(graph->num_nodes(), 1u);
  EXPECT_EQ(others.download(), std::vector<uint32_t>(8, 10));
}

DEVICE_CASE(a_stream_that_takes_no_part_may_be_destroyed_during_a_capture) {
  DeviceArray values(subject, 8);
  auto eager = subject.device->create_stream();
  const uint32_t word = 5;
  eager->copy_from_host(values.data(), &word, sizeof word);
  CaptureScope capture(*subject.stream);
  launch_add(*subject.stream, values, 1);
  launch_add(*eager, values, 10);
  eager.reset();
  const auto graph = std::move(capture).finish();
  EXPECT_EQ(graph->num_nodes(), 1u);
  EXPECT_EQ(values.download().front(), 15u);
}

DEVICE_CASE(aborting_is_silent_and_leaves_the_stream_idle) {
  DeviceArray values(subject, 8);
  subject.stream->abort_capture();
  {
    const CaptureScope capture(*subject.stream);
    launch_add(*subject.stream, values, 1);
  }
  EXPECT_FALSE(subject.stream->is_capturing());
  subject.stream->begin_capture();
  EXPECT_THROW(subject.stream->synchronize(), CaptureError);
  subject.stream->abort_capture();
  EXPECT_EQ(values.download(), std::vector<uint32_t>(8, 0));
  EXPECT_NO_THROW((void)subject.device->allocate(100));
}

DEVICE_CASE(end_capture_needs_a_capture) {
  EXPECT_THROW((void)subject.stream->end_capture(), CaptureError);
  EXPECT_FALSE(subject.stream->is_capturing());
}

DEVICE_CASE(a_capture_ends_on_the_thread_where_it_began) {
  DeviceArray values(subject, 8);
  subject.stream->begin_capture();
  launch_add(*subject.stream, values, 1);
  std::thread other([&] { EXPECT_THROW((void)subject.stream->end_capture(), CaptureError); });
  other.join();
  EXPECT_FALSE(subject.stream->is_capturing());
  EXPECT_NO_THROW((void)subject.device->allocate(100));
}

DEVICE_CASE(a_stream_may_die_while_it_captures) {
  auto stream = subject.device->create_stream();
  stream->begin_capture();
  stream.reset();
  EXPECT_NO_THROW((void)subject.device->allocate(100));
}

// ---- events and joined streams -----------------------------------------------------------------

DEVICE_CASE(events_order_streams_and_tell_the_host) {
  DeviceArray values(subject, 1000);
  const auto other = subject.device->create_stream();
  const auto event = subject.device->create_event();
  EXPECT_TRUE(event->is_complete());
  for (int i = 0; i < 50; ++i) {
    launch_add(*subject.stream, values, 1);
    subject.stream->record(*event);
    other->wait(*event);
    launch_add(*other, values, 1);
    other->record(*event);
    subject.stream->wait(*event);
  }
  event->synchronize();
  EXPECT_TRUE(event->is_complete());
  EXPECT_EQ(values.download(), std::vector<uint32_t>(1000, 100));
}

DEVICE_CASE(waiting_for_a_captured_event_joins_the_capture) {
  DeviceArray a(subject, 100);
  DeviceArray b(subject, 100);
  Stream& origin = *subject.stream;
  const auto side = subject.device->create_stream();
  const auto fork = subject.device->create_event();
  const auto join = subject.device->create_event();
  CaptureScope capture(origin);
  launch_add(origin, a, 1);
  origin.record(*fork);
  side->wait(*fork);
  EXPECT_TRUE(side->is_capturing());
  side->copy(b.data(), a.data(), a.bytes());
  launch_add(*side, b, 10);
  side->record(*join);
  launch_add(origin, a, 100);
  origin.wait(*join);
  launch_add(origin, b, 1000);
  const auto graph = std::move(capture).finish();
  EXPECT_FALSE(side->is_capturing());
  EXPECT_EQ(graph->num_nodes(), 5u);
  const auto exec = subject.device->instantiate(*graph);
  exec->launch(origin);
  EXPECT_EQ(a.download(), std::vector<uint32_t>(100, 101));
  EXPECT_EQ(b.download(), std::vector<uint32_t>(100, 1011));
  launch_add(*side, a, 1);  // eager again
  side->synchronize();
  EXPECT_EQ(a.download(), std::vector<uint32_t>(100, 102));
}

DEVICE_CASE(joined_streams_may_be_ordered_back_through_each_other) {
  DeviceArray values(subject, 10);
  Stream& origin = *subject.stream;
  const auto second = subject.device->create_stream();
  const auto third = subject.device->create_stream();
  const auto event = subject.device->create_event();
  CaptureScope capture(origin);
  launch_add(origin, values, 1);
  origin.record(*event);
  second->wait(*event);
  launch_add(*second, values, 1);
  second->record(*event);
  third->wait(*event);
  launch_add(*third, values, 1);
  third->record(*event);
  origin.wait(*event);
  const auto exec = subject.device->instantiate(*std::move(capture).finish());
  exec->launch(origin);
  EXPECT_EQ(values.download(), std::vector<uint32_t>(10, 3));
}

DEVICE_CASE(joined_work_must_be_ordered_back_before_the_end) {
  DeviceArray values(subject, 10);
  Stream& origin = *subject.stream;
  const auto side = subject.device->create_stream();
  const auto event = subject.device->create_event();
  origin.begin_capture();
  launch_add(origin, values, 1);
  origin.record(*event);
  side->wait(*event);
  launch_add(*side, values, 1);
  side->record(*event);
  launch_add(*side, values, 1);  // after the record
  origin.wait(*event);
  EXPECT_THROW((void)origin.end_capture(), CaptureError);
  EXPECT_FALSE(origin.is_capturing());
  EXPECT_FALSE(side->is_capturing());
  launch_add(*side, values, 5);
  side->synchronize();
  EXPECT_EQ(values.download(), std::vector<uint32_t>(10, 5));
}

DEVICE_CASE(only_the_origin_ends_a_capture) {
  DeviceArray values(subject, 10);
  Stream& origin = *subject.stream;
  const auto side = subject.device->create_stream();
  const auto event = subject.device->create_event();
  origin.begin_capture();
  launch_add(origin, values, 1);
  origin.record(*event);
  side->wait(*event);
  EXPECT_THROW((void)side->end_capture(), CaptureError);
  EXPECT_THROW((void)origin.end_capture(), CaptureError);
  EXPECT_FALSE(side->is_capturing());
}

DEVICE_CASE(losing_a_joined_stream_invalidates_the_capture) {
  DeviceArray values(subject, 10);
  Stream& origin = *subject.stream;
  const auto event = subject.device->create_event();
  for (const bool destroy : {false, true}) {
    auto side = subject.device->create_stream();
    origin.begin_capture();
    launch_add(origin, values, 1);
    origin.record(*event);
    side->wait(*event);
    launch_add(*side, values, 1);
    if (destroy) {
      side.reset();
    } else {
      side->abort_capture();
      EXPECT_FALSE(side->is_capturing());
    }
    EXPECT_THROW((void)origin.end_capture(), CaptureError);
  }
  EXPECT_EQ(values.download(), std::vector<uint32_t>(10, 0));
}

DEVICE_CASE(captures_cannot_be_merged) {
  DeviceArray values(subject, 10);
  Stream& first = *subject.stream;
  const auto second = subject.device->create_stream();
  const auto event = subject.device->create_event();
  first.begin_capture();
  second->begin_capture();
  launch_add(first, values, 1);
  first.record(*event);
  EXPECT_THROW(second->wait(*event), CaptureError);
  EXPECT_THROW((void)second->end_capture(), CaptureError);
  EXPECT_THROW((void)first.end_capture(), CaptureError);
  launch_add(first, values, 1);
  EXPECT_EQ(values.download(), std::vector<uint32_t>(10, 1));
}

DEVICE_CASE(a_captured_event_has_no_state_outside_until_recorded_again) {
  DeviceArray values(subject, 10);
  const auto event = subject.device->create_event();
  CaptureScope capture(*subject.stream);
  launch_add(*subject.stream, values, 1);
  subject.stream->record(*event);
  (void)std::move(capture).finish();
  EXPECT_THROW((void)event->is_complete(), CaptureError);
  EXPECT_THROW(event->synchronize(), CaptureError);
  EXPECT_THROW(subject.stream->wait(*event), CaptureError);
  EXPECT_FALSE(subject.stream->is_capturing());
  subject.stream->record(*event);
  event->synchronize();
  EXPECT_TRUE(event->is_complete());
}

// ---- threads -----------------------------------------------------------------------------------

DEVICE_CASE(two_threads_replay_at_the_same_time) {
  constexpr int kReplays = 10'000;
  const auto work = [&subject](uint32_t amount) {
    Device& device = *subject.device;
    const auto stream = device.create_stream();
    const Buffer buffer = device.allocate(200 * sizeof(uint32_t));
    auto* values = static_cast<uint32_t*>(buffer.data());
    CaptureScope capture(*stream);
    launch_add(*stream, values, 200, amount);
    launch_add(*stream, values, 1, amount);
    launch_add(*stream, values, 200, amount);
    const auto exec = device.instantiate(*std::move(capture).finish());
    for (int i = 0; i < kReplays; ++i) exec->launch(*stream);
    std::vector<uint32_t> found(200);
    stream->copy_to_host(found.data(), values, 800);
    std::vector<uint32_t> expected(200, amount * 2 * kReplays);
    expected[0] += amount * kReplays;
    EXPECT_EQ(found, expected);
  };
  std::thread other(work, 1);
  work(3);
  other.join();
}

// ---- instances ---------------------------------------------------------------------------------

INSTANTIATE_TEST_SUITE_P(Devices,
                         DeviceConformance,
                         testing::ValuesIn(devices_under_test()),
                         [](const auto& instance) { return instance.param.name; });

// ---- the suite itself --------------------------------------------------------------------------

TEST(DeviceConformanceSuite, every_exclusion_names_a_case_and_a_reason) {
  std::set<std::string> cases;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const std::string name = suite.GetTestInfo(j)->name();
      cases.insert(name.substr(0, name.find('/')));
    }
  }
  for (const DeviceUnderTest& device : devices_under_test()) {
    for (const Exclusion& exclusion : device.exclusions) {
      EXPECT_TRUE(cases.contains(std::string(exclusion.test))) << device.name << exclusion.test;
      EXPECT_FALSE(exclusion.reason.empty()) << device.name << exclusion.test;
    }
  }
}

const DeviceUnderTest& device_with_an_exclusion() {
  static const DeviceUnderTest device{.name = "fake",
                                      .create = [] { return create_fake_device(); },
                                      .exclusions = {{"a_case", "a reason"}}};
  return device;
}

TEST(DeviceConformanceSuite, an_excluded_case_that_passes_fails) {
  EXPECT_FATAL_FAILURE(run_case(device_with_an_exclusion(), "a_case", [](Subject&) {}),
                       "remove the exclusion");
}

TEST(DeviceConformanceSuite, an_excluded_case_that_fails_is_skipped) {
  testing::TestPartResultArray results;
  {
    const testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    run_case(device_with_an_exclusion(), "a_case", [](Subject&) { FAIL() << "as expected"; });
    run_case(device_with_an_exclusion(), "a_case", [](Subject&) { throw DeviceError("expected"); });
  }
  ASSERT_EQ(results.size(), 2);
  EXPECT_TRUE(results.GetTestPartResult(0).skipped());
  EXPECT_TRUE(results.GetTestPartResult(1).skipped());
}

}  // namespace
}  // namespace reprise::device::conformance
