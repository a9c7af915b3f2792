#include "benchmarks/cuda_read_arguments.h"

using reprise::benchmark::ReadArguments;

/// Reads all words once, with eight loads in flight per thread. The comparison at the end keeps the
/// compiler from removing the loads.
extern "C" __global__ void __launch_bounds__(512) read_all(const ReadArguments a) {
  constexpr int kAhead = 8;
  const auto* words = static_cast<const uint4*>(a.memory);
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  uint32_t bits = 0;
  for (uint64_t first = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; first < a.num_words;
       first += kAhead * stride) {
    uint4 read[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const uint64_t word = first + i * stride;
      read[i] = word < a.num_words ? __ldcs(words + word) : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) bits |= read[i].x ^ read[i].y ^ read[i].z ^ read[i].w;
  }
  if (bits == a.impossible) *a.out = bits;
}
