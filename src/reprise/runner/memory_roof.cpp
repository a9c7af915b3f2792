#include "reprise/runner/memory_roof.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "reprise/base/error.h"

namespace reprise::runner {
namespace {

constexpr size_t kRoofBytes = size_t{256} << 20;  // beyond the caches of one socket
constexpr size_t kRoofBlockBytes = size_t{1} << 20;
constexpr int kRoofPasses = 5;
constexpr size_t kLanes = 8;  // words of a cache line
constexpr size_t kAhead = 32 * kLanes;

struct alignas(16) ReadArguments {
  const uint64_t* words;
  uint64_t* sums;  // one for each block; written so that the compiler keeps the reads
};

void read_blocks(const void* args, device::BlockRange blocks) noexcept {
  const auto& arguments = *static_cast<const ReadArguments*>(args);
  constexpr size_t kWords = kRoofBlockBytes / sizeof(uint64_t);
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const uint64_t* const words = arguments.words + block * kWords;
    std::array<uint64_t, kLanes> sums{};
    for (size_t i = 0; i < kWords; i += kLanes) {
      __builtin_prefetch(words + i + kAhead, 0, 2);
      for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += words[i + lane];
    }
    uint64_t sum = 0;
    for (const uint64_t of_lane : sums) sum += of_lane;
    arguments.sums[block] = sum;
  }
}

constexpr device::Kernel kReadMemory{.name = "read_memory", .cpu = read_blocks};

/// The shortest time of several passes, in seconds.
template <typename Pass>
double best_pass(device::Stream& stream, const Pass& pass) {
  using Clock = std::chrono::steady_clock;
  double best = 1e9;
  for (int i = 0; i < kRoofPasses; ++i) {
    const Clock::time_point begin = Clock::now();
    pass();
    stream.synchronize();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return best;
}

double read_seconds(device::Device& device, device::Stream& stream) {
  constexpr uint32_t kBlocks = kRoofBytes / kRoofBlockBytes;
  const device::Buffer memory = device.allocate(kRoofBytes);
  const device::Buffer sums = device.allocate(kBlocks * sizeof(uint64_t));
  // Pages that were never written might all be one page of zeros.
  stream.fill(memory.data(), std::byte{1}, kRoofBytes);
  const ReadArguments arguments{.words = static_cast<const uint64_t*>(memory.data()),
                                .sums = static_cast<uint64_t*>(sums.data())};
  const std::array uses = {
      device::BufferUse{memory.data(), kRoofBytes, device::BufferUse::Access::read},
      device::BufferUse{sums.data(), sums.bytes(), device::BufferUse::Access::write}};
  return best_pass(stream, [&] {
    stream.launch({.kernel = &kReadMemory,
                   .num_blocks = kBlocks,
                   .args = std::as_bytes(std::span(&arguments, 1)),
                   .uses = uses});
  });
}

}  // namespace

std::optional<double> measure_memory_bandwidth(Execution& execution) {
  device::Device& device = execution.device();
  device::Stream& stream = execution.stream();
  try {
    if (device.is_host_accessible()) {
      return static_cast<double>(kRoofBytes) / read_seconds(device, stream) / 1e9;
    }
    const device::Buffer from = device.allocate(kRoofBytes);
    const device::Buffer to = device.allocate(kRoofBytes);
    const double seconds =
        best_pass(stream, [&] { stream.copy(to.data(), from.data(), kRoofBytes); });
    return 2.0 * static_cast<double>(kRoofBytes) / seconds / 1e9;
  } catch (const OutOfMemory&) {
    return std::nullopt;
  }
}

}  // namespace reprise::runner
