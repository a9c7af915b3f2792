#include "benchmarks/cuda_read.h"

#include <array>
#include <span>
#include <vector>

#include "benchmarks/cuda_model.h"
#include "benchmarks/cuda_read_arguments.h"

extern "C" const unsigned char reprise_read_image[];

namespace reprise::benchmark {
namespace {

constexpr uint32_t kThreads = 512;
constexpr uint32_t kBlocks = 8 * 132;  // enough thread blocks for several waves on a large GPU
constexpr size_t kBytes = size_t{1} << 30;

constinit const device::Kernel kReadAll{
    .name = "read_all",
    .cpu = nullptr,
    .cuda = {.image = reprise_read_image, .function = "read_all", .threads_per_block = kThreads}};

}  // namespace

double read_bandwidth(device::Device& device) {
  device.load(kReadAll);
  const auto stream = device.create_stream();
  const device::Buffer memory = device.allocate(kBytes);
  const device::Buffer out = device.allocate(sizeof(uint32_t));
  stream->fill(memory.data(), std::byte{0x3c}, kBytes);
  // All words are equal, so their XOR is 0 and never equals `impossible`.
  const ReadArguments arguments{.memory = memory.data(),
                                .num_words = kBytes / 16,
                                .impossible = 1,
                                .out = static_cast<uint32_t*>(out.data())};
  const std::array uses{
      device::BufferUse{memory.data(), kBytes, device::BufferUse::Access::read},
      device::BufferUse{out.data(), sizeof(uint32_t), device::BufferUse::Access::write}};
  constexpr int kRepeats = 10;
  const auto read = [&] {
    for (int i = 0; i < kRepeats; ++i) {
      stream->launch({.kernel = &kReadAll,
                      .num_blocks = kBlocks,
                      .args = std::as_bytes(std::span(&arguments, 1)),
                      .uses = uses});
    }
    stream->synchronize();
  };
  read();
  std::vector<double> seconds;
  for (int i = 0; i < 7; ++i) seconds.push_back(seconds_of(read));
  return kRepeats * static_cast<double>(kBytes) / median(seconds);
}

}  // namespace reprise::benchmark
