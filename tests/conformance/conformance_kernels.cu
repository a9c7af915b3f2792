#include "conformance_arguments.h"

using reprise::device::conformance::AddArgs;
using reprise::device::conformance::MixArgs;

extern "C" __global__ void add(const AddArgs args) {
  if (threadIdx.x == 0) args.values[blockIdx.x] += args.amount;
}

extern "C" __global__ void mix(const MixArgs args) {
  const uint32_t end = mix_bound(args, blockIdx.x + 1);
  for (uint32_t i = mix_bound(args, blockIdx.x) + threadIdx.x; i < end; i += blockDim.x) {
    mix_element(args, i);
  }
}
