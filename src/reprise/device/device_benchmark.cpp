// Measures what a launch costs on the CPU: eager and replayed, with and without barriers between
// launches. The kernels do almost no work, so nearly all of the measured time is overhead.

#include <benchmark/benchmark.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <span>

#include "reprise/device/cpu/cpu_device.h"
#include "reprise/device/device.h"

namespace reprise::device {
namespace {

struct TouchArgs {
  uint32_t* values;
  std::array<uint64_t, 12> rest;  // fills the struct up to the size of a typical kernel's arguments
};

void run_touch(const void* raw, BlockRange blocks) noexcept {
  const auto& args = *static_cast<const TouchArgs*>(raw);
  for (uint32_t i = blocks.begin; i < blocks.end; ++i) args.values[i * 16] += 1;
}

// Takes about a microsecond per block.
void run_compute(const void* raw, BlockRange blocks) noexcept {
  const auto& args = *static_cast<const TouchArgs*>(raw);
  for (uint32_t i = blocks.begin; i < blocks.end; ++i) {
    uint32_t x = args.values[i * 16] + 1;
    for (int step = 0; step < 650; ++step) x = x * 1664525u + 1013904223u;
    args.values[i * 16] = x;
  }
}

constexpr Kernel kTouch{.name = "touch", .cpu = run_touch};
constexpr Kernel kCompute{.name = "compute", .cpu = run_compute};

class Machine {
 public:
  explicit Machine(int num_threads) : Machine(CpuDeviceOptions{.num_threads = num_threads}) {}
  explicit Machine(const CpuDeviceOptions& options = {})
      : device_(create_cpu_device(options)),
        stream_(device_->create_stream()),
        buffer_(device_->allocate(1 << 20)) {}

  void launch(uint32_t num_blocks, uint32_t offset, const Kernel& kernel = kTouch) {
    const TouchArgs args{static_cast<uint32_t*>(buffer_.data()) + offset, {}};
    const BufferUse use{args.values, num_blocks * 64, BufferUse::Access::read_write};
    stream_->launch({.kernel = &kernel,
                     .num_blocks = num_blocks,
                     .args = std::as_bytes(std::span(&args, 1)),
                     .uses = std::span(&use, 1)});
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  Buffer buffer_;
};

void report_per_node(benchmark::State& state, int64_t nodes) {
  state.counters["per_node"] =
      benchmark::Counter(static_cast<double>(state.iterations() * nodes),
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void eager_launch(benchmark::State& state) {
  Machine machine;
  const auto num_blocks = static_cast<uint32_t>(state.range(0));
  for (auto _ : state) machine.launch(num_blocks, 0);
  report_per_node(state, 1);
}
BENCHMARK(eager_launch)->Arg(1)->Arg(2)->Arg(32)->UseRealTime();

// range(0): blocks per launch. range(1): 1 if every launch must wait for the previous one.
void replay(benchmark::State& state) {
  constexpr int64_t kNodes = 200;
  Machine machine;
  const auto num_blocks = static_cast<uint32_t>(state.range(0));
  const bool conflicting = state.range(1) != 0;
  CaptureScope capture(*machine.stream_);
  for (uint32_t i = 0; i < kNodes; ++i) machine.launch(num_blocks, conflicting ? 0 : i * 1024);
  const auto exec = machine.device_->instantiate(*std::move(capture).finish());
  for (auto _ : state) exec->launch(*machine.stream_);
  report_per_node(state, kNodes);
}
BENCHMARK(replay)
    ->ArgsProduct({{1, 2, 32}, {0, 1}})
    ->ArgNames({"blocks", "barriers"})
    ->UseRealTime();

// Launches with one block and with two blocks alternate, and each waits for the previous one. So
// every barrier is half a barrier: either only worker 0 waits, or only the other workers do.
void replay_alternating(benchmark::State& state) {
  constexpr int64_t kNodes = 200;
  Machine machine;
  CaptureScope capture(*machine.stream_);
  for (uint32_t i = 0; i < kNodes; ++i) machine.launch(1 + i % 2, 0);
  const auto exec = machine.device_->instantiate(*std::move(capture).finish());
  for (auto _ : state) exec->launch(*machine.stream_);
  report_per_node(state, kNodes);
}
BENCHMARK(replay_alternating)->UseRealTime();

// Each launch computes for 32 us and waits for the previous one. The times for different numbers of
// threads, range(0), show the speed-up.
void replay_of_compute(benchmark::State& state) {
  constexpr int64_t kNodes = 50;
  Machine machine(static_cast<int>(state.range(0)));
  CaptureScope capture(*machine.stream_);
  for (uint32_t i = 0; i < kNodes; ++i) machine.launch(32, 0, kCompute);
  const auto exec = machine.device_->instantiate(*std::move(capture).finish());
  for (auto _ : state) exec->launch(*machine.stream_);
  report_per_node(state, kNodes);
}
BENCHMARK(replay_of_compute)->Arg(1)->Arg(2)->UseRealTime();

// Between two replays the host does other work for range(0) microseconds, as between two tokens.
// Only the replays are timed, so the result shows what it costs to wake idle workers.
void replay_after_a_gap(benchmark::State& state) {
  using Clock = std::chrono::steady_clock;
  Machine machine;
  CaptureScope capture(*machine.stream_);
  for (uint32_t i = 0; i < 10; ++i) machine.launch(32, 0, kCompute);
  const auto exec = machine.device_->instantiate(*std::move(capture).finish());
  for (auto _ : state) {
    const auto gap_end = Clock::now() + std::chrono::microseconds(state.range(0));
    while (Clock::now() < gap_end) {
    }
    const auto start = Clock::now();
    exec->launch(*machine.stream_);
    state.SetIterationTime(std::chrono::duration<double>(Clock::now() - start).count());
  }
}
BENCHMARK(replay_after_a_gap)->Arg(0)->Arg(100)->Arg(300)->Arg(2000)->UseManualTime();

void replay_of_nothing(benchmark::State& state) {
  Machine machine;
  CaptureScope capture(*machine.stream_);
  machine.launch(2, 0);
  const auto exec = machine.device_->instantiate(*std::move(capture).finish());
  for (auto _ : state) exec->launch(*machine.stream_);
}
BENCHMARK(replay_of_nothing)->UseRealTime();

void record(benchmark::State& state) {
  constexpr int64_t kNodes = 200;
  Machine machine;
  for (auto _ : state) {
    CaptureScope capture(*machine.stream_);
    for (uint32_t i = 0; i < kNodes; ++i) machine.launch(2, 0);
    benchmark::DoNotOptimize(std::move(capture).finish());
  }
  report_per_node(state, kNodes);
}
BENCHMARK(record)->UseRealTime();

void pool_allocate_and_release(benchmark::State& state) {
  Machine machine;
  const auto pool = machine.device_->create_pool();
  const PoolReference held(pool->allocate(5000));
  for (auto _ : state) {
    const PoolReference a(pool->allocate(10'000));
    const PoolReference b(pool->allocate(3'000));
    benchmark::DoNotOptimize(a.get());
    benchmark::DoNotOptimize(b.get());
  }
  report_per_node(state, 2);
}
BENCHMARK(pool_allocate_and_release)->UseRealTime();

}  // namespace
}  // namespace reprise::device
