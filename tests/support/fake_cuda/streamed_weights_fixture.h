#pragma once

#include <vector>

#include "tests/support/fake_cuda/streamed_ops_fixture.h"
#include "tests/support/kernels/float_panels.h"
#include "tests/support/kernels/int8_panels.h"
#include "tests/support/kernels/packed_weights.h"

/// For tests: packed weights of streamed products.
namespace reprise::kernels::cuda {

class StreamedWeights : public StreamedOps {
 protected:
  Tensor blocks(const std::vector<PanelPart>& parts, int64_t depth) {
    Tensor weight = own(packed_weight_type(parts, depth, dtype()));
    fill_packed_weight(weight, parts, random_);
    return weight;
  }
  Tensor blocks(PanelFormat format, int64_t columns, int64_t depth) {
    return blocks({{.format = format, .columns = columns}}, depth);
  }
  Tensor floats(PanelFormat codec, int64_t columns, int64_t depth) {
    Tensor weight = own(float_panels_type(codec, columns, depth, dtype()));
    fill_float_panels(weight, random_);
    return weight;
  }
  Tensor int8s(int64_t columns, int64_t depth) {
    Tensor weight = own(int8_panels_type(columns, depth, dtype()));
    fill_int8_panels(weight, random_);
    return weight;
  }
};

}  // namespace reprise::kernels::cuda
